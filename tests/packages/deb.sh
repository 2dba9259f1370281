#!/usr/bin/env bash
# In a mount namespace of its own: installs, starts, upgrades, removes and purges the .deb in an overlay over this system.
# Started by tests/packages.sh. There is no systemd inside: the script applies the unit's user, group, variables and command itself.
set -euo pipefail
overlay="$1"
packages="$2"
architecture="$3"
python="$4"
repository="$5"

fail() {
    echo "FAILED: $*" >&2
    [ -f "$root/tmp/peeklock.log" ] && sed 's/^/  broker: /' "$root/tmp/peeklock.log" >&2
    exit 1
}

mount -t tmpfs none "$overlay"
mkdir -p "$overlay/upper" "$overlay/work" "$overlay/root"
root="$overlay/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$overlay/upper,workdir=$overlay/work" "$root" 2>/dev/null || exit 77
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# Tools must not mistake the host's systemd for one of this system.
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
cp "$packages"/*.deb "$root/tmp/"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
dpkg() { inside dpkg "$@" >>"$overlay/dpkg.log" 2>&1 || fail "dpkg $*: $(cat "$overlay/dpkg.log")"; }
deb() { echo "/tmp/peeklock_0.1.0~$1_$architecture.deb"; }

dpkg --install "$(deb first)"
[ "$(inside stat -c %U:%G:%a /etc/peeklock/peeklock.toml)" = root:peeklock-config:640 ] || fail "permissions of the configuration"
inside peeklock config check /etc/peeklock/peeklock.toml >/dev/null || fail "the configuration that is installed is refused"

unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/peeklock.service"; }
command="$(unit ExecStart)"
[ "$command" = "/usr/bin/peeklock serve --config /etc/peeklock/peeklock.toml" ] || fail "the unit starts $command"
group="$(inside getent group "$(unit SupplementaryGroups)" | cut -d: -f3)"
state="$(unit StateDirectory)"
variable="$(unit Environment)"
install -d -m 0700 -o 61184 -g 61184 "$root/var/lib/$state"
port=$((20000 + $$ % 20000))

broker=""
trap '[ -z "$broker" ] || kill -KILL "$broker" 2>/dev/null || true' EXIT
# With the unit's user, group, variable and capabilities; on a port of the test's own.
start() {
    # shellcheck disable=SC2086
    chroot "$root" setpriv --reuid 61184 --regid 61184 --groups "$group" --bounding-set=-all --no-new-privs \
        env -i "${variable/\%S//var/lib}" PEEKLOCK_AMQP="127.0.0.1:$port" PEEKLOCK_HTTP="127.0.0.1:$port" \
        $command >>"$root/tmp/peeklock.log" 2>&1 &
    broker=$!
    for _ in $(seq 600); do
        inside peeklock health --http "127.0.0.1:$port" >/dev/null 2>&1 && return
        kill -0 "$broker" 2>/dev/null || fail "the broker ended"
        sleep 0.1
    done
    fail "the broker does not get ready"
}
stop() {
    kill -TERM "$broker"
    wait "$broker" || fail "the broker does not stop in good order"
    broker=""
}
client() {
    "$python" - "$port" "$1" <<'PYTHON' || fail "the SDK: $1"
import sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage

connection = (f"Endpoint=sb://127.0.0.1:{sys.argv[1]};SharedAccessKeyName=RootManageSharedAccessKey;"
              "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;")
with ServiceBusClient.from_connection_string(connection) as client:
    if sys.argv[2] == "send":
        with client.get_queue_sender("queue") as sender:
            sender.send_messages(ServiceBusMessage("kept"))
    else:
        with client.get_queue_receiver("queue", max_wait_time=20) as receiver:
            (message,) = receiver.receive_messages(1)
            assert str(message) == "kept", str(message)
            receiver.complete_message(message)
PYTHON
}

start
client send
stop

# An operator's changes are kept by an upgrade.
echo '# mine' >>"$root/etc/peeklock/peeklock.toml"
dpkg --install "$(deb second)"
tail -1 "$root/etc/peeklock/peeklock.toml" | grep -qx '# mine' || fail "the upgrade replaced the configuration"
[ "$(inside stat -c %U:%G:%a /etc/peeklock/peeklock.toml)" = root:peeklock-config:640 ] || fail "permissions after the upgrade"
inside dpkg-query -W -f '${Version}' peeklock | grep -qx '0.1.0~second' || fail "the version after the upgrade"
start
client receive
stop

dpkg --remove peeklock
[ ! -e "$root/usr/bin/peeklock" ] || fail "the program is left behind"
[ -e "$root/var/lib/$state/MANIFEST" ] || fail "removing deleted the messages"
[ -e "$root/etc/peeklock/peeklock.toml" ] || fail "removing deleted the configuration"
dpkg --purge peeklock
for left in "/var/lib/$state" /etc/peeklock /etc/default/peeklock /usr/share/doc/peeklock /usr/lib/sysusers.d/peeklock.conf; do
    [ ! -e "$root$left" ] || fail "purging left $left"
done
! inside getent group peeklock-config >/dev/null || fail "purging left the group"
