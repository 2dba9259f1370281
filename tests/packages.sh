#!/usr/bin/env bash
# Tests the packages: the unit is hardened, the .deb is installed, started, upgraded and purged, also by systemd itself, the .rpm holds
# the same files, the Helm chart renders.
#
#   tests/packages.sh DIRECTORY PYTHON [BINARY]
#
# writes into DIRECTORY only. BINARY is a Peeklock for this machine; without it a static one is built. Parts that are not possible here
# are skipped with a message; ends with 77 if all were skipped.
set -euo pipefail
work="$(realpath -m "${1:?a directory to write into}")"
python="$(realpath -s "${2:?a Python with azure-servicebus}")"
binary="${3:-}"
cd "$(dirname "$0")/.."
passed=0
skipped=0

skip() {
    echo "SKIPPED: $*"
    skipped=$((skipped + 1))
}

pass() {
    echo "ok: $*"
    passed=$((passed + 1))
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work/out"

# The maximum rating of the unit; 10 is no protection at all.
exposure_max=20

# The files are made several times; xz needs 20 s for each at its usual level.
export DPKG_DEB_COMPRESSOR_LEVEL=1

check_unit() {
    command -v systemd-analyze >/dev/null || { skip "the unit: systemd-analyze is not installed"; return; }
    local report rating
    report="$(systemd-analyze security --offline=true --no-pager packaging/systemd/peeklock.service 2>&1)" ||
        { skip "the unit: this systemd-analyze can't rate files"; return; }
    rating="$(sed -n 's/.*Overall exposure level.*: \([0-9]*\)\.\([0-9]\).*/\1\2/p' <<<"$report")"
    [ -n "$rating" ] || fail "no rating of the unit: $report"
    [ "$rating" -le "$exposure_max" ] || fail "the unit's exposure is $rating/100"
    # The program is not installed here; everything else must be correct.
    local complaints
    complaints="$(systemd-analyze verify --man=no packaging/systemd/peeklock.service 2>&1 |
        grep -v -e 'is not executable' -e '^$' || true)"
    [ -z "$complaints" ] || fail "systemd-analyze verify: $complaints"
    pass "the unit is understood and its exposure is $rating/100"
}

build_binary() {
    [ -z "$binary" ] || return 0
    local triple
    triple="$(uname -m)-unknown-linux-musl"
    cargo build --locked --release --target "$triple" -p peeklock || fail "the static binary does not build"
    binary="${CARGO_TARGET_DIR:-$PWD/target}/$triple/release/peeklock"
}

# The .deb in a copy of this system: an overlay whose changes are discarded.
check_deb() {
    for tool in dpkg-deb unshare setpriv; do
        command -v "$tool" >/dev/null || { skip "the .deb: $tool is not installed"; return; }
    done
    [ "$(id -u)" = 0 ] || { skip "the .deb: needs root"; return; }
    local architecture
    architecture="$(dpkg --print-architecture)"
    packaging/deb/build.sh "$binary" "$architecture" 0.1.0~first "$work/out" >/dev/null
    packaging/deb/build.sh "$binary" "$architecture" 0.1.0~second "$work/out" >/dev/null
    mkdir -p "$work/overlay"
    if ! unshare --mount sh -c "mount -t tmpfs none $work/overlay" 2>/dev/null; then
        skip "the .deb: no mounts here"
        return
    fi
    local status=0
    unshare --mount --propagation private tests/packages/deb.sh "$work/overlay" "$work/out" "$architecture" "$python" "$PWD" ||
        status=$?
    case "$status" in
        0) pass "the .deb is installed, started, upgraded, removed and purged" ;;
        77) skip "the .deb: no overlay file system here" ;;
        *) fail "the .deb" ;;
    esac
    # The same input gives the same file.
    local first second
    first="$(SOURCE_DATE_EPOCH=1 packaging/deb/build.sh "$binary" "$architecture" 1.0.0 "$work/out")"
    first="$(sha256sum <"$first")"
    second="$(SOURCE_DATE_EPOCH=1 packaging/deb/build.sh "$binary" "$architecture" 1.0.0 "$work/out")"
    [ "$first" = "$(sha256sum <"$second")" ] || fail "two packages of the same binary differ"
    pass "the .deb is reproducible"
}

# The .deb under systemd as process 1, in namespaces and a copy of this system.
check_service() {
    [ "$(id -u)" = 0 ] || { skip "the service: needs root"; return; }
    for tool in /lib/systemd/systemd dpkg-deb unshare nsenter pgrep; do
        command -v "$tool" >/dev/null || { skip "the service: $tool is not installed"; return; }
    done
    [ -e "$work/out/peeklock_0.1.0~second_$(dpkg --print-architecture).deb" ] || { skip "the service: there is no .deb"; return; }
    local status=0
    unshare --mount --propagation private tests/packages/systemd.sh test "$work/systemd" "$work/out" "$(dpkg --print-architecture)" \
        "$python" || status=$?
    case "$status" in
        0) pass "systemd starts, watches, reloads, restarts, upgrades and removes the service, by the documented commands" ;;
        77) skip "the service: systemd does not start in namespaces here: $(tail -1 "$work/systemd.log")" ;;
        *) fail "the service" ;;
    esac
}

check_rpm() {
    command -v rpmbuild >/dev/null || { skip "the .rpm: rpmbuild is not installed"; return; }
    local file listing
    file="$(packaging/rpm/build.sh "$binary" "$(uname -m)" 0.1.0 "$work/out")"
    listing="$(rpm -qp --queryformat '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]' "$file")"
    for expected in '-rwxr-xr-x root root /usr/bin/peeklock' 'drwxr-x--- root peeklock-config /etc/peeklock' \
        '-rw-r----- root peeklock-config /etc/peeklock/peeklock.toml' \
        '-rw-r--r-- root root /usr/lib/systemd/system/peeklock.service'; do
        grep -q -x -e "$expected" <<<"$listing" || fail "the .rpm has no $expected: $listing"
    done
    [ "$(rpm -qp --configfiles "$file" | wc -l)" = 2 ] || fail "the .rpm's configuration files"
    ! rpm -qp --requires "$file" | grep -q 'libc.so' || fail "the .rpm requires a C library"
    pass "the .rpm holds the files with their owners"
}

. tests/packages/tools.sh

check_chart() {
    helm_tool || return 0
    local chart=packaging/helm/peeklock rendered="$work/out/chart.yaml"
    helm lint --strict --quiet --set allowDefaultKey=true "$chart" || fail "helm lint"
    ! helm template broker "$chart" --kube-version 1.30.0 >/dev/null 2>"$work/out/refusal" || fail "a chart without keys is rendered"
    grep -q "set keys" "$work/out/refusal" || fail "the refusal: $(cat "$work/out/refusal")"
    helm template broker "$chart" --kube-version 1.30.0 --set serviceMonitor.enabled=true --set metrics.token=0123456789abcdef --set persistence.storageClass=fast \
        --set-json 'keys=[{"name":"shop","rights":["Send","Listen"],"key":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]' \
        >"$rendered" || fail "helm template"
    # The broker accepts the configuration in the Secret.
    "$python" - "$rendered" >"$work/out/chart.toml" <<'PYTHON'
import sys
text = open(sys.argv[1]).read().split("  peeklock.toml: |\n")[1]
for line in text.splitlines():
    if line and not line.startswith("    "):
        break
    print(line[4:])
PYTHON
    "$binary" config check --text-only "$work/out/chart.toml" || fail "the chart's configuration"
    grep -q 'token = "0123456789abcdef"' "$work/out/chart.toml" || fail "the chart's configuration has no token"
    grep -q 'name = "shop"' "$work/out/chart.toml" || fail "the chart's configuration has no key"
    pass "the Helm chart passes helm lint and renders a configuration that the broker takes"
    check_objects "$rendered"
}

check_objects() {
    kubeconform_tool || return 0
    kubernetes_schemas || return 0
    # ServiceMonitor is defined by the Prometheus operator.
    local check=(kubeconform -strict -summary -skip ServiceMonitor
        -schema-location "$tools/kubernetes-$kubernetes_version/{{ .ResourceKind }}{{ .KindSuffix }}.json")
    "${check[@]}" "$1" >"$work/out/kubeconform" 2>&1 || fail "kubeconform: $(cat "$work/out/kubeconform")"
    ! sed 's/enableServiceLinks/enableServiceLink/' "$1" | "${check[@]}" >/dev/null 2>&1 || fail "kubeconform takes an unknown field"
    pass "kubeconform, Kubernetes $kubernetes_version: $(tail -1 "$work/out/kubeconform")"
}

# The release that packaging/release.sh makes from a tag, with the existing binary; installed as in docs/install.md.
check_release() {
    command -v git >/dev/null && [ -e .git ] || { skip "the release: no git repository"; return; }
    local clone="$work/release" version machine
    version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)"
    machine="$(uname -m)"
    git clone --quiet . "$clone" || fail "cloning"
    sed -i "s/^## Unreleased.*/## Unreleased\n\n## $version/" "$clone/CHANGELOG.md"
    git -C "$clone" -c user.name=test -c user.email=test@localhost commit --quiet --all --message "A release"
    git -C "$clone" tag "v$version"
    install -D "$binary" "$clone/target/release-v$version/build/$machine-unknown-linux-musl/release/peeklock"
    CARGO_TARGET_DIR="$clone/target" PEEKLOCK_RELEASE_PARTIAL=1 "$clone/packaging/release.sh" "v$version" tarballs deb chart formula sbom notes \
        >"$work/out/release" 2>&1 || fail "release.sh: $(tail -5 "$work/out/release")"
    local files="$clone/target/release-v$version/files" name="peeklock-$version-$machine-unknown-linux-musl"
    (cd "$files" && sha256sum --quiet --check SHA256SUMS) || fail "the release's checksums"
    tar -xzf "$files/$name.tar.gz" -C "$work/out"
    cmp --quiet "$binary" "$work/out/$name/peeklock" || fail "the tarball has another binary"
    for file in config/peeklock.toml LICENSE-MIT LICENSE-APACHE systemd/peeklock.service grafana/peeklock.json; do
        [ -s "$work/out/$name/$file" ] || fail "the tarball has no $file"
    done
    ! command -v dpkg-deb >/dev/null || [ -s "$files/peeklock_${version}_$(dpkg --print-architecture).deb" ] || fail "the release has no .deb"
    [ -s "$files/peeklock-$version.tgz" ] && [ -s "$files/NOTES.md" ] || fail "the release has no chart or no notes"
    grep -q "$(sha256sum "$files/peeklock-$version-source.tar.gz" | cut -d' ' -f1)" "$files/peeklock.rb" || fail "the formula's checksum"
    "$python" -c 'import json, sys; sbom = json.load(open(sys.argv[1])); assert sbom["bomFormat"] == "CycloneDX" and len(sbom["components"]) > 100' \
        "$files/peeklock-$version-$machine.cdx.json" || fail "the software bill of materials"
    pass "release.sh makes tarball, .deb, chart, formula, bill of materials and notes of a tag, with checksums"
}

check_unit
build_binary
check_deb
check_service
check_rpm
check_chart
check_release
rm -rf "$tools/go"
echo "$passed passed, 0 failed: $skipped skipped"
[ "$passed" -gt 0 ] || exit 77
