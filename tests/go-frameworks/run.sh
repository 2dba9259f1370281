#!/bin/bash
# Runs Dapr's components and KEDA's scaler, unmodified, against a daemon. No part of ./test.sh: the modules are 3 GB.
#
#   PEEKLOCK_BIN=target/release/peeklock tests/go-frameworks/run.sh [dapr] [keda]
#
# Everything is written below target/go-frameworks; the first run downloads and builds, which takes a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")"
dapr=v1.18.0
keda=v2.21.0
sources="$PWD"
target="$(realpath -m ../../target/go-frameworks)"
PEEKLOCK_BIN="$(cd ../.. && realpath "${PEEKLOCK_BIN:-target/release/peeklock}")"
export PEEKLOCK_BIN GOFLAGS="-modcacherw -mod=mod" GOMODCACHE="$target/modules" GOCACHE="$target/build"

# A module of its own for a test, with these requirements.
module() {
    local name="$1"
    rm -rf "${target:?}/$name"
    mkdir -p "$target/$name"
    cd "$target/$name"
    cp "$sources/${name}_test.go" .
    go mod init "$name" 2>/dev/null
    go get "$2"
}

# Dapr's components with the conformance tests of its repository.
prepare_dapr() {
    module dapr "github.com/dapr/components-contrib@$dapr"
    go mod tidy
}

# KEDA's package of scalers without the other scalers, whose dependencies take long to build. Four constants are declared in them.
prepare_keda() {
    module keda "github.com/kedacore/keda/v2@$keda"
    cp -r "$GOMODCACHE/github.com/kedacore/keda/v2@$keda" source
    chmod -R u+w source
    find source/pkg/scalers -maxdepth 1 -name '*.go' ! -name scaler.go ! -name azure_servicebus_scaler.go -delete
    printf 'package scalers\n\nconst externalMetricType, sumOperation, avgOperation, maxOperation = "External", "sum", "avg", "max"\n' \
        >source/pkg/scalers/constants.go
    # As KEDA's go.mod has it.
    grep '^replace' source/go.mod >>go.mod || true
    go mod edit -replace "github.com/kedacore/keda/v2=./source"
    go mod tidy
}

start_daemon() {
    data="$(mktemp -d)"
    "$PEEKLOCK_BIN" serve --amqp 127.0.0.1:0 --http 127.0.0.1:0 --data-dir "$data/data" --ready-file "$data/ready.json" --log-level warn &
    daemon=$!
    trap 'kill "$daemon"; wait "$daemon"; rm -rf "$data"' EXIT
    until [ -e "$data/ready.json" ]; do sleep 0.1; done
    BROKER_CONNECTION="$(field connection_string)"
    BROKER_TLS_CONNECTION="$(field connection_string_tls)"
    SSL_CERT_FILE="$(field ca_file)"
    export BROKER_CONNECTION BROKER_TLS_CONNECTION SSL_CERT_FILE
}

field() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$data/ready.json" "$1"
}

[ $# -gt 0 ] || set -- dapr keda
for name in "$@"; do
    (
        "prepare_$name"
        start_daemon
        go test -count=1 -v . | grep -v '^=== '
    )
done
