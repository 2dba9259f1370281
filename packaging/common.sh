#!/usr/bin/env bash
# Lays out what .deb and .rpm have in common, beside the binary: packaging/common.sh ROOT BINARY
# BINARY is asked for completions and manual pages if it runs on this machine.
set -euo pipefail
root="${1:?the root of the package}"
binary="${2:?the binary}"
cd "$(dirname "$0")/.."

install -D -m 0644 packaging/systemd/peeklock.service "$root/usr/lib/systemd/system/peeklock.service"
install -D -m 0644 packaging/systemd/peeklock.sysusers "$root/usr/lib/sysusers.d/peeklock.conf"
install -D -m 0644 packaging/systemd/peeklock.default "$root/etc/default/peeklock"
# The group gets it when the package is configured, where the group exists.
install -d -m 0755 "$root/etc/peeklock"
install -m 0640 packaging/config/peeklock.toml "$root/etc/peeklock/peeklock.toml"

docs="$root/usr/share/doc/peeklock"
install -d -m 0755 "$docs"
install -m 0644 README.md SECURITY.md config/peeklock.toml packaging/grafana/*.json packaging/prometheus/*.yml "$docs/"
gzip -9 -n -c CHANGELOG.md >"$docs/changelog.gz"
chmod 0644 "$docs/changelog.gz"
{
    echo "Peeklock is licensed under Apache-2.0 or MIT, at your option."
    echo
    cat LICENSE-MIT LICENSE-APACHE
} >"$docs/copyright"
chmod 0644 "$docs/copyright"

# Only a binary of this machine's kind can be asked; its text is the same for all. One that can't run leaves these files out.
host="${PEEKLOCK_HOST_BINARY:-$binary}"
completion() {
    local text
    text="$("$host" completions "$1" 2>/dev/null)" || return 0
    install -d -m 0755 "$(dirname "$root/$2")"
    printf '%s\n' "$text" >"$root/$2"
    chmod 0644 "$root/$2"
}
completion bash usr/share/bash-completion/completions/peeklock
completion zsh usr/share/zsh/vendor-completions/_peeklock
completion fish usr/share/fish/vendor_completions.d/peeklock.fish

manual="$root/usr/share/man/man1"
install -d -m 0755 "$manual"
if "$host" man "$manual" 2>/dev/null; then
    gzip -9 -n "$manual"/*.1
    chmod 0644 "$manual"/*
else
    rmdir -p --ignore-fail-on-non-empty "$manual"
fi
