#!/usr/bin/env bash
# Builds the broker with profile-guided optimization, as for a release:
#
#   packaging/profiled.sh cargo build --locked --release -p peeklock
#
# Runs that command twice. The first build, in a directory of its own, is instrumented: it counts executions of code while cases of the
# benchmark `end_to_end` send and receive with it. With these counts, the compiler of the second build inlines frequent calls and places
# code that runs together next to each other. The result is in the command's usual directory.
#
# The program must run on this machine. A profile is valid for one source, target and compiler only, so it is made each time:
# 12 minutes on two cores, most of them for compiling. Needs the component llvm-tools of rustup, which is installed if it is
# missing; exit code 77 if that fails.
set -euo pipefail
[ $# -gt 0 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
source="$(realpath "$(dirname "$0")/..")"
CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-$source/target}")"
export CARGO_TARGET_DIR
work="$CARGO_TARGET_DIR/profiled"
cd "$source"

# Each case uses code paths that the others don't.
cases=(1KB-16-queues 1KB-one-connection 100B-16-queues 64KB-one-connection one-at-a-time together tls websocket
    topic-100-copies topic-2000-subjects 100000-sessions)

fail() {
    echo "profiled: $1" >&2
    exit "${2:-1}"
}

rustup component add llvm-tools >/dev/null 2>&1 || true
merge="$(find "$(rustc --print sysroot)/lib/rustlib" -name llvm-profdata -type f -print -quit)"
[ -n "$merge" ] || fail "the component llvm-tools is missing, and rustup can't install it" 77

rm -rf "$work/counts"
mkdir -p "$work/counts"
echo "==> the instrumented build"
built="$(RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$work/counts" CARGO_TARGET_DIR="$work/build" \
    "$@" --message-format=json-render-diagnostics | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)"
[ -x "$built" ] || fail "this builds no program: $*"

echo "==> the instrumented build at work"
# Each process writes its counts at its end.
LLVM_PROFILE_FILE="$work/counts/%p-%m.profraw" PEEKLOCK_BIN="$built" \
    cargo bench --locked -p peeklock-tests --bench end_to_end -- --runs 1 "${cases[@]}" >"$work/work.log" 2>&1 ||
    fail "the benchmark failed: $(tail -5 "$work/work.log")"
"$merge" merge -o "$work/counts.profdata" "$work"/counts/*.profraw || fail "the build at work left no counts"

echo "==> the optimized build"
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$work/counts.profdata" "$@"
