#!/usr/bin/env bash
# Builds the container image around a static binary and tests it: size, nothing dynamic, not root, healthy, and an SDK
# sends and receives through it as through the emulator. Needs buildah, but no container engine and no registry.
#
#   tests/image.sh DIRECTORY PYTHON
#
# writes into DIRECTORY only and runs the SDK of PYTHON. Ends with 77 and the reason where this is not possible.
set -euo pipefail
work="$(realpath -m "${1:?a directory to write into}")"
python="${2:?a Python with azure-servicebus}"
cd "$(dirname "$0")/.."

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "FAILED: $*" >&2
    [ -f "$work/broker.log" ] && sed 's/^/  broker: /' "$work/broker.log" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || skip "buildah needs root here"
command -v buildah >/dev/null || skip "buildah is not installed"

buildah() {
    command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

broker=""
cleanup() {
    set +e
    [ -n "$broker" ] && kill -KILL -- "-$broker" 2>/dev/null
    buildah umount --all >/dev/null 2>&1
    rm -rf "$work/storage" "$work/run" "$work/shared"
}
trap cleanup EXIT

# The image contains the same code as other builds, without a C library.
compile() {
    local machine triple
    machine="$(uname -m)"
    triple="$machine-unknown-linux-musl"
    if command -v musl-gcc >/dev/null && rustup target add "$triple" 2>/dev/null; then
        cargo build --locked --release --target "$triple" -p peeklock
    else
        echo "no musl: linking glibc statically"
        triple="$machine-unknown-linux-gnu"
        RUSTFLAGS="-C target-feature=+crt-static" \
            cargo build --locked --release --target "$triple" -p peeklock
    fi
    binary="${CARGO_TARGET_DIR:-$PWD/target}/$triple/release/peeklock"
}

compile || fail "the static binary does not build"
rm -rf "$work/context" "$work/shared" "$work"/broker.*
mkdir -p "$work/context/data" "$work/shared"
cp "$binary" LICENSE-APACHE LICENSE-MIT "$work/context/"

began=$SECONDS
buildah bud --quiet --isolation chroot --format docker --build-arg BINARY_FROM=prebuilt \
    --tag peeklock --file Dockerfile "$work/context" || fail "the image does not build"
container="$(buildah from --pull-never peeklock)"
root="$(buildah mount "$container")"

bytes="$(du -sb "$root" | cut -f1)"
# Symbols are 5 MB of these: they name the functions of a backtrace in a bug report.
[ "$bytes" -lt 29000000 ] || fail "the image has $bytes bytes"
! readelf -l "$root/usr/local/bin/peeklock" | grep -q INTERP || fail "the binary asks for a dynamic loader"
[ "$(find "$root" -name '*.so*' | wc -l)" = 0 ] || fail "there are shared libraries in the image"
user="$(buildah inspect --type image --format '{{.Docker.Config.User}}' peeklock)"
[ "$user" = 65532:65532 ] || fail "the image's user is $user"
buildah inspect --type image --format '{{.Docker.Config.Healthcheck}}' peeklock | grep -q 'peeklock health' ||
    fail "the image has no health check"

[ -d "$root/ServiceBus_Emulator/ConfigFiles" ] || fail "the emulator's directory is not in the image"

# As the emulator: its file at its path, its variables. A port that is free and outside of the system's range of free ports,
# because the emulator's variable does not allow port 0.
port=$((10000 + $$ % 20000))
while (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; do port=$((port + 1)); done
chown "$user" "$work/shared"
install -D -m 0644 config/emulator-sample.json "$root/ServiceBus_Emulator/ConfigFiles/Config.json"
inside() {
    buildah run --isolation chroot --user "$user" --volume "$work/shared:/shared" --env PEEKLOCK_AMQP=127.0.0.1:0 \
        --env PEEKLOCK_ALSO_LISTEN=127.0.0.1:0 --env PEEKLOCK_HTTP=127.0.0.1:5300 --env EMULATOR_HTTP_PORT="$port" --env PEEKLOCK_READY_FILE=/shared/ready.json \
        --env ACCEPT_EULA=Y --env SQL_SERVER=sqlserver --env MSSQL_SA_PASSWORD=unused \
        "$container" -- /usr/local/bin/peeklock "$@"
}
set -m
inside serve >"$work/broker.out" 2>"$work/broker.log" &
broker=$!
set +m
for _ in $(seq 600); do
    grep -qx 'Emulator Service is Successfully Up!' "$work/broker.out" && break
    kill -0 "$broker" 2>/dev/null || fail "the broker ended"
    sleep 0.1
done
[ -f "$work/shared/ready.json" ] || fail "the broker does not start"
process="$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["pid"])' "$work/shared/ready.json")"
inside health || fail "the health check of a broker that is ready fails"
inside health --live || fail "the broker that is ready is not alive"
grep -q "^Uid:[[:space:]]65532" "/proc/$process/status" || fail "the broker does not run as 65532"

"$python" - "$work/shared/ready.json" <<'PYTHON' || fail "the SDK can't send and receive"
import json, sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage

connection = json.load(open(sys.argv[1]))["connection_string"]
with ServiceBusClient.from_connection_string(connection) as client:
    with client.get_queue_sender("queue.1") as sender:
        sender.send_messages(ServiceBusMessage("through the image"))
    with client.get_topic_sender("topic.1") as sender:
        sender.send_messages(ServiceBusMessage("to all", application_properties={"prop3": "value3"}))
    def received(receiver):
        with receiver:
            messages = receiver.receive_messages(max_wait_time=20)
            for message in messages:
                receiver.complete_message(message)
            return [str(message) for message in messages]
    assert received(client.get_queue_receiver("queue.1")) == ["through the image"]
    for name in ("subscription.2", "subscription.3"):
        assert received(client.get_subscription_receiver("topic.1", name)) == ["to all"], name
PYTHON

kill -TERM "$process"
wait "$broker" || fail "the broker does not stop in good order"
broker=""
! inside health 2>/dev/null || fail "the health check of a broker that is gone passes"
# The documented commands, by a container engine.
engine=0
unshare --mount --net --propagation private tests/packages/engine.sh "$work" "$python" || engine=$?
case "$engine" in
    0) echo "the documented commands of docker work" ;;
    77) echo "SKIPPED: the documented commands of docker: no podman that can run containers here" ;;
    *) fail "the documented commands of docker" ;;
esac
echo "1 passed, 0 failed: $bytes bytes, static, user $user; built and proven in $((SECONDS - began)) s"
