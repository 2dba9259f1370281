#!/usr/bin/env bash
# In namespaces of its own: systemd as process 1 in an overlay over this system, and the package under it, from installing to purging,
# by the commands of docs/install.md and docs/systemd.md. Started by tests/packages.sh, which also prints what is ok.
#
#   tests/packages/systemd.sh boot OVERLAY                      process 1 of the new namespaces
#   tests/packages/systemd.sh test OVERLAY PACKAGES ARCHITECTURE PYTHON
#
# Ends with 77 if systemd does not start.
set -euo pipefail
overlay="$2"
root="$overlay/root"

if [ "$1" = boot ]; then
    mount -t tmpfs none "$overlay"
    mkdir -p "$overlay/upper" "$overlay/work" "$root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$overlay/upper,workdir=$overlay/work" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount --make-rslave "$root/sys"
    umount --recursive "$root/sys/fs/cgroup" 2>/dev/null || true
    mount -t cgroup2 none "$root/sys/fs/cgroup"
    mount -t tmpfs none "$root/run"
    mount -t tmpfs none "$root/tmp"
    mount --make-private "$root"
    # basic.target: none of the services enabled on this machine.
    exec chroot "$root" env -i container=peeklock-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --unit=basic.target --log-target=console --show-status=no
fi

packages="$3"
architecture="$4"
python="$5"
pid=""

fail() {
    echo "FAILED: $*" >&2
    [ -z "$pid" ] || inside journalctl --no-pager --lines 40 --unit peeklock 2>/dev/null | sed 's/^/  journal: /' >&2
    exit 1
}

inside() {
    nsenter --target "$pid" --mount --pid --uts --ipc --net --cgroup --root --wd \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive SYSTEMD_COLORS=0 SYSTEMD_PAGER= "$@"
}

# Waits until a command succeeds, with a margin for a busy machine.
eventually() {
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "not within a minute: $*"
}

# Like `systemctl edit`.
override() {
    inside mkdir -p /etc/systemd/system/peeklock.service.d
    printf '[Service]\n%s\n' "$2" | inside tee "/etc/systemd/system/peeklock.service.d/$1.conf" >/dev/null
    inside systemctl daemon-reload
}

property() { inside systemctl show --property "$1" --value peeklock; }
is() { [ "$(property "$1")" = "$2" ]; }
cli() { inside peeklock "$@"; }
kept() { cli peek queue --json | grep -q kept; }

mkdir -p "$overlay"
unshare --mount --pid --fork --uts --ipc --net --cgroup --propagation private "$0" boot "$overlay" >"$overlay.log" 2>&1 &
namespace=$!
stop() { [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true; }
trap stop EXIT
for _ in $(seq 300); do
    pid="$(pgrep --parent "$namespace" || true)"
    [ -z "$pid" ] || ! inside systemctl is-system-running 2>/dev/null | grep -q -e running -e degraded || break
    kill -0 "$namespace" 2>/dev/null || { sed 's/^/  /' "$overlay.log" >&2; pid=""; exit 77; }
    sleep 0.1
done
inside systemctl is-system-running 2>/dev/null | grep -q -e running -e degraded || exit 77

# The commands of a page from a heading on, up to the next; each with its `sudo`.
documented() {
    (cd tests/python && "$python" - "$1" "$2" <<'PYTHON'
import sys
from documented import ROOT, blocks, commands

page, heading = sys.argv[1:]
text = (ROOT / page).read_text().splitlines()
first = text.index(heading) + 1 if heading else 0
last = next((number for number, line in enumerate(text[first:], first + 1) if line.startswith("## ")), len(text))
for block in blocks(page):
    if block.language == "sh" and first < block.line < last:
        print("\n".join(command.text for command in commands(block)))
PYTHON
    )
}
follow() {
    local commands
    commands="$(documented "$@")"
    [ -n "$commands" ] || fail "no commands in $1"
    inside bash -euo pipefail -c "cd /tmp; sudo() { \"\$@\"; }; $commands" >>"$overlay.log" 2>&1 ||
        fail "the commands of $1: $commands: $(tail -5 "$overlay.log")"
}

inside tee "/tmp/peeklock_0.1.0_$architecture.deb" <"$packages/peeklock_0.1.0~first_$architecture.deb" >/dev/null
inside tee /tmp/second.deb <"$packages/peeklock_0.1.0~second_$architecture.deb" >/dev/null
# Where this process may not raise limits, systemd may not either.
(ulimit -Hn 1048576) 2>/dev/null || override limit "LimitNOFILE=$(ulimit -Hn)"
if [ "$architecture" != amd64 ]; then
    inside cp "/tmp/peeklock_0.1.0_$architecture.deb" /tmp/peeklock_0.1.0_amd64.deb
fi

# Installed, enabled, ready.
follow docs/install.md "## Debian and Ubuntu"
is ActiveState active || fail "the service is $(property ActiveState)"
[[ "$(property StatusText)" == *queue* ]] || fail "the status is '$(property StatusText)'"
broker="$(property MainPID)"
status="$(inside cat "/proc/$broker/status")"
grep -q -P '^CapEff:\t0*400$' <<<"$status" || fail "capabilities: $(grep Cap <<<"$status")"
grep -q -P '^Seccomp:\t2$' <<<"$status" || fail "no filter of system calls"
! grep -q -P '^Uid:\t0\t' <<<"$status" || fail "the broker runs as root"
cli send queue --body kept >/dev/null 2>&1 || fail "sending"

# Restarted after a crash, with its messages.
inside kill -KILL "$broker"
restarted() { is NRestarts "$1" && is ActiveState active; }
eventually restarted 1
kept || fail "a crash lost the message"

# A stopped process can't notify the watchdog.
override watchdog WatchdogSec=2s
inside systemctl restart peeklock
before="$(property NRestarts)"
inside kill -STOP "$(property MainPID)"
eventually restarted $((before + 1))
override watchdog WatchdogSec=2min
inside systemctl restart peeklock

# Reloaded; an invalid file changes nothing and is reported.
printf '\n[[queues]]\nname = "second"\n' | inside tee -a /etc/peeklock/peeklock.toml >/dev/null
follow docs/systemd.md "# As a systemd service"
cli ls --json | grep -q '"second"' || fail "the reload brought no queue"
inside cp /etc/peeklock/peeklock.toml /tmp/good.toml
echo 'nonsense = 1' | inside tee -a /etc/peeklock/peeklock.toml >/dev/null
inside systemctl reload peeklock || fail "a reload with mistakes fails"
[[ "$(property StatusText)" == *"reload refused"* ]] || fail "the status is '$(property StatusText)'"
is ActiveState active || fail "a reload with mistakes ended the broker"

# A wrong configuration causes no restarts.
! inside systemctl restart peeklock 2>/dev/null || fail "a wrong configuration starts"
is ExecMainStatus 2 && is ActiveState failed || fail "after a wrong configuration: $(property ExecMainStatus), $(property ActiveState)"
inside cp /tmp/good.toml /etc/peeklock/peeklock.toml
inside systemctl reset-failed peeklock
inside systemctl start peeklock || fail "the mended configuration does not start"

# A port below 1024, without root.
echo 'PEEKLOCK_ALSO_LISTEN=127.0.0.1:443' | inside tee -a /etc/default/peeklock >/dev/null
inside systemctl restart peeklock || fail "port 443"
cli health --http 127.0.0.1:443 >/dev/null || fail "nothing answers at port 443"

# A backup of the running service, an upgrade, removal, purging.
inside mkdir -p /var/backups
follow docs/systemd.md "## Backup"
inside dpkg --install --force-confold /tmp/second.deb >>"$overlay.log" 2>&1 || fail "the upgrade: $(tail -5 "$overlay.log")"
is ActiveState active || fail "the service is $(property ActiveState) after the upgrade"
kept || fail "the upgrade lost the message"
inside dpkg --remove peeklock >>"$overlay.log" 2>&1 || fail "removing: $(tail -5 "$overlay.log")"
[ -z "$(inside pgrep -x peeklock || true)" ] || fail "a removed broker runs"
inside test -e /var/lib/private/peeklock/MANIFEST || fail "removing deleted the messages"
inside dpkg --purge peeklock >>"$overlay.log" 2>&1 || fail "purging: $(tail -5 "$overlay.log")"
! inside test -e /var/lib/private/peeklock || fail "purging left the messages"
