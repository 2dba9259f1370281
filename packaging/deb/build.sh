#!/usr/bin/env bash
# Makes a .deb of a static binary: packaging/deb/build.sh BINARY amd64|arm64 VERSION DIRECTORY
# Needs dpkg-deb only. Prints the file's name. The same binary and commit give the same file (SOURCE_DATE_EPOCH).
set -euo pipefail
binary="$(realpath "${1:?a static binary}")"
architecture="${2:?amd64 or arm64}"
version="${3:?a version}"
out="$(realpath "${4:?a directory}")"
cd "$(dirname "$0")/../.."
here=packaging/deb

root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
install -D -m 0755 "$binary" "$root/usr/bin/peeklock"
packaging/common.sh "$root" "$binary"
install -d -m 0755 "$root/DEBIAN"
for script in postinst prerm postrm; do
    install -m 0755 "$here/$script" "$root/DEBIAN/$script"
done
printf '%s\n' /etc/peeklock/peeklock.toml /etc/default/peeklock >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: peeklock
Version: $version
Architecture: $architecture
Maintainer: The Peeklock maintainers <peeklock@localhost>
Installed-Size: $(du -k -s "$root" | cut -f1)
Section: net
Priority: optional
Recommends: systemd
Description: durable message broker that speaks Azure Service Bus
 The official Azure Service Bus SDKs connect unmodified, over AMQP 1.0. A message
 is accepted once it is synced to disk. Queues, topics, sessions, transactions,
 scheduling, dead-letter queues and duplicate detection behave as in Service Bus.
CONTROL
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
fi
file="$out/peeklock_${version}_$architecture.deb"
dpkg-deb --root-owner-group -Zxz --build "$root" "$file" >/dev/null
echo "$file"
