#!/usr/bin/env bash
# Makes an .rpm of a static binary: packaging/rpm/build.sh BINARY x86_64|aarch64 VERSION DIRECTORY
# Needs rpmbuild. Prints the file's name.
set -euo pipefail
binary="$(realpath "${1:?a static binary}")"
architecture="${2:?x86_64 or aarch64}"
version="${3:?a version}"
out="$(realpath "${4:?a directory}")"
cd "$(dirname "$0")/../.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
install -D -m 0755 "$binary" "$work/root/usr/bin/peeklock"
packaging/common.sh "$work/root" "$binary"
# Other distributions have zsh's completions in another directory than Debian.
if [ -d "$work/root/usr/share/zsh/vendor-completions" ]; then
    mv "$work/root/usr/share/zsh/vendor-completions" "$work/root/usr/share/zsh/site-functions"
fi
# Files that a binary for another machine can't generate may be missing. rpm requires at least one file in a list.
(
    echo /usr/lib/sysusers.d/peeklock.conf
    cd "$work/root/usr/share" && find . -type f ! -path './doc/*' -printf '/usr/share/%P\n'
) >"$work/files"
# A pre-release has no hyphen in an rpm's version.
rpmbuild -bb --quiet --target "$architecture-linux" \
    --define "_topdir $work/rpmbuild" --define "_rpmdir $work" --define "_binary_payload w12.zstdio" \
    --define "peeklock_version ${version//-/\~}" --define "peeklock_root $work/root" --define "peeklock_files $work/files" \
    packaging/rpm/peeklock.spec >&2
made="$(find "$work" -name '*.rpm')"
install -m 0644 "$made" "$out/"
echo "$out/$(basename "$made")"
