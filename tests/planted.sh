#!/usr/bin/env bash
# Applies one fault after the other to a copy of the tree and requires that the test named in the patch fails.
#
#   tests/planted.sh              every fault of tests/planted/
#   tests/planted.sh cutoff hint  those whose file names contain one of these words
#
# Each file there contains a description of the fault, the arguments of `cargo test` and the test that must detect it, and a
# unified diff. A patch that doesn't apply, a fault that doesn't compile, and a test that doesn't exist or fails without
# the fault are errors. All output is below target/planted; the working tree is not changed.
set -uo pipefail
cd "$(dirname "$0")/.."

root="$PWD"
place="${CARGO_TARGET_DIR:-$root/target}/planted"
tree="$place/tree"
export CARGO_TARGET_DIR="$place/target"
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
# Enough random histories to hit the fault.
export PEEKLOCK_STORAGE_CASES="${PEEKLOCK_STORAGE_CASES:-256}"
# A fault may prevent a test from ending; that counts as detected, too.
seconds_max=300

fail() {
    echo "$*" >&2
    exit 2
}

field() {
    sed -n "s/^$2: //p" "$1" | head -n 1
}

# Runs the test of a patch: 0 it passes, 1 it fails, 2 it can't be built or found.
run_test() {
    local arguments status
    read -ra arguments <<<"$(field "$1" test)"
    (cd "$tree" && cargo test --quiet --no-run "${arguments[@]}") >"$place/log" 2>&1 || return 2
    (cd "$tree" && timeout "$seconds_max" cargo test "${arguments[@]}" -- --exact "$(field "$1" name)") \
        >"$place/log" 2>&1
    status=$?
    grep -q '^running 1 test$' "$place/log" || return 2
    [ "$status" -eq 0 ] || return 1
}

plant() {
    patch --batch --fuzz=0 --no-backup-if-mismatch --reject-file=- -p1 -d "$tree" "${@:2}" <"$1" >"$place/log" 2>&1
}

patches=()
for file in tests/planted/*.patch; do
    [ "$#" -gt 0 ] || patches+=("$file")
    for word in "$@"; do
        [[ $(basename "$file") == *"$word"* ]] && patches+=("$file") && break
    done
done
[ "${#patches[@]}" -gt 0 ] || fail "no such fault"

mkdir -p "$tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$tree"
# An interrupted run may have left a compiled fault.
sed -n 's/^+++ b\///p' tests/planted/*.patch | sort -u | (cd "$tree" && xargs touch -c)

for file in "${patches[@]}"; do
    plant "$file" --dry-run || fail "$file no longer applies: $(tail -n 3 "$place/log")"
    [ -n "$(field "$file" fault)" ] || fail "$file doesn't say what the fault is"
done
declare -A sound
for file in "${patches[@]}"; do
    key="$(field "$file" test) $(field "$file" name)"
    [ -z "${sound[$key]:-}" ] || continue
    sound[$key]=1
    run_test "$file" || fail "without a fault, this test fails or does not exist: $key: $(tail -n 20 "$place/log")"
done

noticed=0
unnoticed=()
for file in "${patches[@]}"; do
    plant "$file" || fail "$file no longer applies"
    run_test "$file"
    status=$?
    cp "$place/log" "$place/$(basename "$file").log"
    plant "$file" --reverse || fail "$file can't be taken back"
    case $status in
        0) unnoticed+=("$file") && echo "UNNOTICED $(basename "$file"): $(field "$file" fault)" ;;
        1) noticed=$((noticed + 1)) && echo "noticed   $(basename "$file"): $(field "$file" fault)" ;;
        *) fail "$file doesn't compile, or its test is not found: $(tail -n 20 "$place/$(basename "$file").log")" ;;
    esac
done
echo "$noticed noticed, ${#unnoticed[@]} unnoticed"
[ "${#unnoticed[@]}" -eq 0 ]
