#!/usr/bin/env bash
# Makes a release from a tag: packaging/release.sh v0.2.0 [STEP...]
#
# Builds all files from a clean checkout of the tag, into target/release-TAG/. Without STEP, all steps are run:
#   binaries    static, for x86_64 and aarch64 (cargo-zigbuild, or musl-gcc and aarch64-linux-gnu-gcc); that of this machine's
#               architecture with profile-guided optimization (profiled.sh)
#   tarballs    with licences, configuration, unit, completions
#   deb rpm     of each binary (dpkg-deb; rpmbuild)
#   images      archives for `docker load` of each architecture (buildah); OCI's format has no health check
#   chart       the Helm chart (helm; else by tar)
#   formula     the Homebrew formula with URL and checksum of the source archive
#   sbom        CycloneDX
#   notes       the changelog's section of this version
# A missing tool ends the script, unless PEEKLOCK_RELEASE_PARTIAL=1: then the step is skipped, and listed at the end.
# SHA256SUMS is written last. Nothing is uploaded or signed.
set -euo pipefail
tag="${1:?a tag, such as v0.2.0}"
shift
version="${tag#v}"
repository="$(git -C "$(dirname "$0")/.." rev-parse --show-toplevel)"
work="${CARGO_TARGET_DIR:-$repository/target}/release-$tag"
source="$work/source"
out="$work/files"
url="${PEEKLOCK_RELEASE_URL:-https://github.com/OWNER/peeklock}"
architectures="${PEEKLOCK_RELEASE_ARCHITECTURES:-x86_64 aarch64}"
left_out=()

fail() {
    echo "release: $*" >&2
    exit 1
}

missing() {
    [ "${PEEKLOCK_RELEASE_PARTIAL:-}" = 1 ] || fail "$*"
    left_out+=("$*")
}

checkout() {
    git -C "$repository" rev-parse --verify --quiet "$tag^{commit}" >/dev/null || fail "there is no tag $tag"
    rm -rf "$source"
    mkdir -p "$source" "$out"
    git -C "$repository" archive --format=tar "$tag" | tar -x -C "$source"
    git -C "$repository" archive --format=tar.gz --prefix="peeklock-$version/" -o "$out/peeklock-$version-source.tar.gz" "$tag"
    SOURCE_DATE_EPOCH="$(git -C "$repository" log -1 --format=%ct "$tag")"
    PEEKLOCK_REVISION="$(git -C "$repository" rev-parse "$tag^{commit}")"
    export SOURCE_DATE_EPOCH PEEKLOCK_REVISION
    cd "$source"
    grep -qx "version = \"$version\"" Cargo.toml || fail "Cargo.toml of $tag has another version than $version"
    [ -n "$(section)" ] || fail "CHANGELOG.md of $tag has no section \"## $version\""
}

section() {
    awk -v heading="## $version" 'index($0, "## ") == 1 { on = ($0 == heading || index($0, heading " ") == 1) } on' CHANGELOG.md
}

binary() {
    echo "$work/build/$1-unknown-linux-musl/release/peeklock"
}

# C code (ring, mimalloc) needs a compiler for the target; zig supports all targets without a sysroot.
compile() {
    local architecture="$1" triple="$1-unknown-linux-musl" build=(cargo build)
    rustup target add "$triple" >/dev/null 2>&1 || {
        missing "binary for $architecture: rustup can't install the standard library for $triple"
        return
    }
    if command -v cargo-zigbuild >/dev/null; then
        build=(cargo zigbuild)
    elif [ "$architecture" = "$(uname -m)" ] && command -v musl-gcc >/dev/null; then
        build=(cargo build)
    elif [ "$architecture" = aarch64 ] && command -v aarch64-linux-gnu-gcc >/dev/null; then
        # Fortified calls exist only in glibc.
        build=(env CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc CFLAGS_aarch64_unknown_linux_musl="-U_FORTIFY_SOURCE"
            CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc cargo build)
    else
        missing "binary for $architecture: needs cargo-zigbuild (pip install ziglang cargo-zigbuild) or a cross compiler"
        return
    fi
    build_profiled "$architecture" "${build[@]}" --locked --release --target "$triple" -p peeklock
    ! readelf -l "$(binary "$architecture")" | grep -q INTERP || fail "the binary for $architecture is not static"
    check_runs "$architecture"
}

# Builds with profile-guided optimization if the binary runs on this machine, because making the profile runs it.
build_profiled() {
    local architecture="$1" status=0
    shift
    if [ "$architecture" = "$(uname -m)" ]; then
        CARGO_TARGET_DIR="$work/build" packaging/profiled.sh "$@" || status=$?
        [ "$status" -ne 0 ] || return 0
        [ "$status" -eq 77 ] || fail "no profile of the binary for $architecture"
        missing "the profile of the binary for $architecture: needs rustup's llvm-tools"
    fi
    CARGO_TARGET_DIR="$work/build" "$@"
}

# Starts a binary, under qemu-user if it is for another machine: it has the right version, opens a store, serves, and stops.
check_runs() {
    local program runner=()
    program="$(binary "$1")"
    if [ "$1" != "$(uname -m)" ]; then
        runner=("$(command -v "qemu-$1-static" || command -v "qemu-$1" || true)")
        [ -n "${runner[0]}" ] || { missing "running the binary for $1: needs qemu-$1-static"; return; }
    fi
    [ "$("${runner[@]}" "$program" --version)" = "peeklock $version" ] || fail "the binary for $1 has another version"
    local data="$work/runs-$1" broker
    rm -rf "$data" "$data.ready"
    "${runner[@]}" "$program" serve --data-dir "$data" --amqp 127.0.0.1:0 --http 127.0.0.1:0 --ready-file "$data.ready" >"$data.log" 2>&1 &
    broker=$!
    for _ in $(seq 600); do
        [ ! -s "$data.ready" ] || break
        kill -0 "$broker" 2>/dev/null || fail "the binary for $1 does not serve: $(tail -3 "$data.log")"
        sleep 0.1
    done
    "${runner[@]}" "$program" send queue --body built --ready-file "$data.ready" >/dev/null || fail "the binary for $1 does not send"
    "${runner[@]}" "$program" peek queue --ready-file "$data.ready" | grep -q built || fail "the binary for $1 shows no message"
    kill -TERM "$broker"
    wait "$broker" || fail "the binary for $1 does not stop in good order"
    rm -rf "$data" "$data.ready" "$data.log"
}

each_binary() {
    for architecture in $architectures; do
        if [ -x "$(binary "$architecture")" ]; then
            "$1" "$architecture"
        fi
    done
}

step_binaries() {
    for architecture in $architectures; do
        compile "$architecture"
    done
}

tarball() {
    local name="peeklock-$version-$1-unknown-linux-musl"
    local root="$work/tarball/$name"
    rm -rf "$root"
    mkdir -p "$root/config" "$root/systemd"
    cp "$(binary "$1")" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md SECURITY.md "$root/"
    cp config/peeklock.toml "$root/config/"
    cp packaging/systemd/* "$root/systemd/"
    cp -r packaging/grafana packaging/prometheus "$root/"
    tar -C "$work/tarball" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
        gzip -9 -n >"$out/$name.tar.gz"
}

deb() {
    local architecture=amd64
    [ "$1" = x86_64 ] || architecture=arm64
    PEEKLOCK_HOST_BINARY="$(binary "$(uname -m)")" packaging/deb/build.sh "$(binary "$1")" "$architecture" "$version" "$out"
}

rpm() {
    PEEKLOCK_HOST_BINARY="$(binary "$(uname -m)")" packaging/rpm/build.sh "$(binary "$1")" "$1" "$version" "$out"
}

image() {
    local architecture=amd64 context="$work/image-$1"
    [ "$1" = x86_64 ] || architecture=arm64
    rm -rf "$context"
    mkdir -p "$context/data"
    cp "$(binary "$1")" LICENSE-APACHE LICENSE-MIT "$context/"
    local tools=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
    buildah "${tools[@]}" bud --quiet --isolation chroot --format docker --arch "$architecture" --build-arg BINARY_FROM=prebuilt \
        --build-arg VERSION="$version" --build-arg REVISION="$PEEKLOCK_REVISION" \
        --tag "peeklock:$version-$architecture" --file Dockerfile "$context"
    buildah "${tools[@]}" push --quiet "peeklock:$version-$architecture" \
        "docker-archive:$out/peeklock-$version-$architecture.docker.tar:peeklock:$version"
    rm -rf "$work/storage" "$work/run"
}

step_tarballs() { each_binary tarball; }

step_deb() {
    command -v dpkg-deb >/dev/null || { missing "deb: needs dpkg-deb"; return; }
    each_binary deb
}

step_rpm() {
    command -v rpmbuild >/dev/null || { missing "rpm: needs rpmbuild"; return; }
    each_binary rpm
}

step_images() {
    command -v buildah >/dev/null || { missing "images: need buildah"; return; }
    each_binary image
}

step_chart() {
    local chart="$work/chart/peeklock"
    rm -rf "$work/chart"
    mkdir -p "$work/chart"
    cp -r packaging/helm/peeklock "$chart"
    sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: $version/" "$chart/Chart.yaml"
    if command -v helm >/dev/null; then
        helm lint --quiet --set allowDefaultKey=true "$chart"
        helm package --destination "$out" "$chart" >/dev/null
    else
        missing "helm lint: needs helm"
        tar -C "$work/chart" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c peeklock |
            gzip -9 -n >"$out/peeklock-$version.tgz"
    fi
}

step_formula() {
    local sum
    sum="$(sha256sum "$out/peeklock-$version-source.tar.gz" | cut -d' ' -f1)"
    sed -e "s|^  homepage .*|  homepage \"$url\"|" \
        -e "s|^  url .*|  url \"$url/releases/download/$tag/peeklock-$version-source.tar.gz\"|" \
        -e "s|^  sha256 .*|  sha256 \"$sum\"|" packaging/homebrew/peeklock.rb >"$out/peeklock.rb"
}

step_sbom() {
    for architecture in $architectures; do
        python3 packaging/sbom.py "$architecture-unknown-linux-musl" "$version" >"$out/peeklock-$version-$architecture.cdx.json"
    done
}

step_notes() { section | tail -n +2 >"$out/NOTES.md"; }

checkout
steps=("${@:-all}")
[ "${steps[0]}" != all ] || steps=(binaries tarballs deb rpm images chart formula sbom notes)
for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null || fail "there is no step $step"
    echo "==> $step"
    "step_$step"
done
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
echo "==> $out"
cat "$out/SHA256SUMS"
for what in "${left_out[@]}"; do
    echo "LEFT OUT: $what"
done
