#!/usr/bin/env bash
# Runs every test of Peeklock, or the stages named:
#
#   ./test.sh                 everything, in the order below
#   ./test.sh lint            formatting, clippy
#   ./test.sh rust            unit, property, simulation, licence and structure tests
#   ./test.sh build           the daemon as released: static where musl-gcc is installed
#   ./test.sh python js       the SDK suites and the examples against that daemon (or against PEEKLOCK_BIN)
#   ./test.sh go java         the official Go and Java SDKs, where Go 1.24 or Maven and a JDK 17 are installed; with Java also Camel and
#                             Spring Cloud Azure
#   ./test.sh sdk             the same: build, python, js, go, java
#   ./test.sh cluster         brokers on PostgreSQL while brokers, servers and links fail, by PEEKLOCK_NEMESIS_SEED for
#                             PEEKLOCK_NEMESIS_MINUTES; skipped where its servers are missing. In a full run, beside go and java
#   ./test.sh cluster-suites  python and js again with brokers on PostgreSQL; only if named
#   ./test.sh count           instructions of the hot paths against their baseline; skipped where valgrind is missing
#   ./test.sh image           the container image, built by buildah and used; skipped where that is not possible
#   ./test.sh macos           whether the daemon compiles without optional features, for macOS if there is rustup
#   ./test.sh doc             the code's documentation
#   ./test.sh packages        unit, .deb, .rpm, Helm chart; parts whose tools are missing are skipped with a message
#
# Needs Rust (with clippy and rustfmt), Python 3.10 or later and Node 20 or later; the tests of the console need Chromium as well. Writes
# only into target/, tests/js/node_modules and crates/console/web/node_modules.
set -uo pipefail
cd "$(dirname "$0")"

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
target="${CARGO_TARGET_DIR:-$PWD/target}"
logs="$target/test-logs"
venv="$target/python"

# Static binaries are released, so these are tested where they can be built. Before anything runs: rustup may change the toolchain.
musl="$(uname -m)-unknown-linux-musl"
command -v musl-gcc >/dev/null && rustup target add "$musl" >/dev/null 2>&1 || musl=""
daemon="$(realpath -m "${PEEKLOCK_BIN:-$target${musl:+/$musl}/release/peeklock}")"
mkdir -p "$logs"

stage_lint() {
    cargo fmt --all --check &&
        cargo clippy --locked --workspace --all-targets -- -D warnings
}

check_doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items
}

stage_doc() {
    built_ahead_or doc check_doc
}

# With the daemon that the same command builds for the tests of its own package: otherwise tests of other packages would
# build it and its dependencies again.
stage_rust() {
    PEEKLOCK_BIN="$(realpath -m "${PEEKLOCK_BIN:-$target/debug/peeklock}")" cargo test --locked --workspace --no-fail-fast
}

has_valgrind() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null true >/dev/null 2>&1
}

# As released: what depends on no feature of the benchmark is built for both.
count_instructions() {
    cargo bench --locked ${musl:+--target "$musl"} -p peeklock-instructions "$@"
}

stage_count() {
    has_valgrind || {
        echo "skipped: valgrind is not installed, or can't run programs here"
        return 0
    }
    count_instructions
}

stage_build() {
    built_ahead_or build build_daemon
}

# Whether the daemon without optional features compiles, for macOS if that is possible: one check instead of two. It doesn't link: for
# that alone nothing looks into the objects of a C compiler for macOS, so none is needed.
check_macos() {
    local target=aarch64-apple-darwin
    rustup target add "$target" >/dev/null 2>&1 || {
        echo "skipped for macOS: rustup has no standard library for it"
        target=""
    }
    CC_aarch64_apple_darwin=true AR_aarch64_apple_darwin=true \
        cargo clippy --locked -p peeklock --no-default-features ${target:+--target "$target"} -- -D warnings
}

stage_macos() {
    built_ahead_or macos check_macos
}

build_daemon() {
    cargo build --locked --release ${musl:+--target "$musl"} -p peeklock
}

# Builds the files of later stages, one after the other and only while processors are idle: most tests wait for disks, clocks and peers.
# A failed build is repeated by its stage, which then reports the error.
build_ahead() {
    local stage
    renice -n 19 -p "$BASHPID" >/dev/null
    for stage in build packages count macos doc; do
        case "$stage" in
            build) build_daemon ;;
            packages) tests/packages/tools.sh "$target/tools" python3 ;;
            count) has_valgrind && count_instructions --no-run ;;
            macos) check_macos ;;
            # Last: it locks the directory of debug builds, which the stages `lint` and `rust` need.
            doc) check_doc ;;
        esac >"$logs/ahead-$stage.log" 2>&1
        echo $? >"$logs/ahead-$stage.status"
    done
}

# Starts `build_ahead` as a process group that ends with this process.
start_ahead() {
    rm -f "$logs"/ahead-* "$logs"/beside-*
    set -m
    build_ahead </dev/null &
    ahead=$!
    set +m
    trap 'stop_background' EXIT
    trap 'exit 130' INT TERM
}

stop_background() {
    local group
    for group in ${ahead:-} ${beside:-}; do kill -TERM -- "-$group" 2>/dev/null; done
}

# Waits until a background process has written its exit code into a file, or is gone.
await_status() {
    while [ ! -e "$1" ] && kill -0 "$2" 2>/dev/null; do sleep 0.5; done
}

# Waits until the build for this stage has ended, if it was started; returns whether its result exists.
built_ahead() {
    [ -n "${ahead:-}" ] || return 1
    await_status "$logs/ahead-$1.status" "$ahead"
    [ "$(cat "$logs/ahead-$1.status" 2>/dev/null)" = 0 ]
}

# Shows what the build for this stage printed, or runs this command if it was not started or failed.
built_ahead_or() {
    if built_ahead "$1"; then
        cat "$logs/ahead-$1.log"
    else
        "$2"
    fi
}

# Starts the tests of the stage `cluster` as a process group: they mostly wait, so other stages run beside them.
start_cluster_tests() {
    set -m
    {
        cluster_tests >"$logs/beside-cluster.log" 2>&1
        echo $? >"$logs/beside-cluster.status"
    } </dev/null &
    beside=$!
    set +m
}

has_daemon() {
    [ -x "$daemon" ] || {
        echo "no daemon at $daemon: run ./test.sh build, or set PEEKLOCK_BIN" >&2
        return 1
    }
}

# A virtual environment with the packages of the Python suite.
prepare_python() {
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv" || {
            echo "python3 can't make virtual environments: install python3-venv" >&2
            return 1
        }
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
}

# The JavaScript SDK, for the tests in Python that have clients of both.
prepare_js() {
    [ -d tests/js/node_modules/@azure ] || (cd tests/js && npm ci --no-audit --no-fund --loglevel=error)
}

stage_python() {
    has_daemon && prepare_python && prepare_js && (cd tests/python && PEEKLOCK_BIN="$daemon" "$venv/bin/python" -m pytest)
}

stage_image() {
    prepare_python || return 1
    tests/image.sh "$target/image" "$venv/bin/python"
    local status=$?
    [ "$status" -eq 77 ] || return "$status"
}

stage_packages() {
    prepare_python || return 1
    built_ahead packages
    tests/packages.sh "$target/packages" "$venv/bin/python" ${PEEKLOCK_BIN:+"$daemon"}
    local status=$?
    [ "$status" -eq 77 ] || return "$status"
}

stage_js() {
    has_daemon || return 1
    (cd crates/console/web && npm ci --no-audit --no-fund --loglevel=error && npm run --silent check) || return 1
    (cd tests/js && npm ci --no-audit --no-fund --loglevel=error && PEEKLOCK_BIN="$daemon" npm test)
}

stage_go() {
    command -v go >/dev/null || {
        echo "skipped: go is not installed"
        return 0
    }
    has_daemon || return 1
    (cd tests/go && PEEKLOCK_BIN="$daemon" GOFLAGS=-modcacherw GOMODCACHE="$target/go-modules" GOCACHE="$target/go-build" \
        go test -count=1 -v ./... | grep -v '^=== ')
}

stage_java() {
    command -v mvn >/dev/null && command -v javac >/dev/null || {
        echo "skipped: Maven or a JDK is not installed"
        return 0
    }
    has_daemon || return 1
    maven java test && stage_java_frameworks
}

# Frameworks on the Java SDK, apart from it: without their artefacts the stage still passes.
stage_java_frameworks() {
    local log="$logs/java-frameworks.log"
    maven java-frameworks -Pframeworks -Dtest='CamelTest,SpringAzureTest' test | tee "$log"
    [ "${PIPESTATUS[0]}" -ne 0 ] || return 0
    grep -q "Could not resolve dependencies" "$log" || return 1
    echo "skipped: the artefacts of Camel and Spring Cloud Azure can't be downloaded"
}

# Maven in tests/java, with the output in a directory of this name.
maven() {
    local output="$1"
    shift
    (cd tests/java && PEEKLOCK_BIN="$daemon" mvn --batch-mode --no-transfer-progress \
        -Dpeeklock.output="$target/$output" -Dmaven.repo.local="$target/maven" "$@")
}

cluster_tests() {
    # All at once, since they mostly wait; a longer run shows its steps.
    local options=(-n 3)
    [ -z "${PEEKLOCK_NEMESIS_MINUTES:-}" ] || options=(-n 0 -s)
    has_daemon && prepare_python && prepare_js &&
        (cd tests/python && PEEKLOCK_BIN="$daemon" "$venv/bin/python" -m pytest "${options[@]}" -m cluster -rs)
}

stage_cluster() {
    if [ -z "${beside:-}" ]; then
        cluster_tests
        return
    fi
    await_status "$logs/beside-cluster.status" "$beside"
    cat "$logs/beside-cluster.log"
    return "$(cat "$logs/beside-cluster.status" 2>/dev/null || echo 1)"
}

stage_cluster-suites() {
    local run=("$venv/bin/python" "$PWD/tests/python/postgres.py" run --)
    has_daemon && prepare_python || return 1
    (cd tests/python && PEEKLOCK_BIN="$daemon" "${run[@]}" "$venv/bin/python" -m pytest -rs) || return 1
    (cd tests/js && npm ci --no-audit --no-fund --loglevel=error && PEEKLOCK_BIN="$daemon" "${run[@]}" npm test)
}

# Sums "N passed" and "N failed" of cargo, pytest, node, go and Maven in a stage's output.
counts() {
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^test result:/ { passed += $4; failed += $6; seen = 1 }
        /^=+ .* in [0-9.]+s/ || /^[0-9]+ (passed|failed).* in [0-9.]+s/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) { passed += $(i - 1); seen = 1 }
                if ($i ~ /^(failed|error)/) { failed += $(i - 1); seen = 1 }
            }
        }
        /^ *--- PASS:/ { passed++; seen = 1 }
        /^ *--- FAIL:/ { failed++; seen = 1 }
        /Tests run:.*Skipped: [0-9]+$/ {
            gsub(",", "")
            for (i = 1; i < NF; i++) {
                if ($i == "run:") run = $(i + 1)
                if ($i == "Failures:" || $i == "Errors:") { run -= $(i + 1); failed += $(i + 1) }
                if ($i == "Skipped:") run -= $(i + 1)
            }
            passed += run
            seen = 1
        }
        /^[0-9]+ passed, [0-9]+ failed: / { passed += $1; failed += $3; seen = 1 }
        /^(#|ℹ) pass / { passed += $3; seen = 1 }
        /^(#|ℹ) fail / { failed += $3; seen = 1 }
        END { if (seen) printf "%d passed, %d failed", passed, failed }'
}

stages=()
for name in "${@:-all}"; do
    case "$name" in
        all) stages+=(lint rust build python js go java cluster image packages macos doc count) ;;
        sdk) stages+=(build python js go java) ;;
        lint | rust | build | python | js | cluster | cluster-suites | go | java | image | packages | macos | doc | count) stages+=("$name") ;;
        *)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
done

# Only for a full run: named stages run without it.
[ "${*:-all}" != all ] || start_ahead
status=0
summary=""
for name in "${stages[@]}"; do
    [ "$name" != go ] || [ -z "${ahead:-}" ] || start_cluster_tests
    printf '\n==> %s\n' "$name"
    began=$SECONDS
    "stage_$name" 2>&1 | tee "$logs/$name.log"
    if [ "${PIPESTATUS[0]}" -eq 0 ]; then
        verdict="ok"
    else
        verdict="FAILED"
        status=1
    fi
    summary+="$(printf '%-14s %-7s %5ds  %s' "$name" "$verdict" $((SECONDS - began)) "$(counts "$logs/$name.log")")"$'\n'
    # Without a daemon the later stages can't run.
    if [ "$name" = build ] && [ "$verdict" = FAILED ]; then
        break
    fi
done

printf '\n==> summary\n%s' "$summary"
[ "$status" -eq 0 ] && echo "all stages passed" || echo "some stages FAILED; logs are in $logs"
exit "$status"
