#!/usr/bin/env bash
# In namespaces of its own: the commands of the documentation that need Docker, run by podman with the image that tests/image.sh built.
#
#   tests/packages/engine.sh DIRECTORY PYTHON [PODMAN'S OPTIONS]
#
# Ends with 77 if podman is not installed or can't run containers.
set -euo pipefail
work="$1"
python="$2"
shift 2
options=("${@:---root=$work/storage --runroot=$work/run --storage-driver=vfs}")
read -r -a options <<<"${options[*]}"

fail() {
    echo "FAILED: $*" >&2
    podman logs --latest 2>&1 | tail -20 | sed 's/^/  broker: /' >&2
    exit 1
}

command -v podman >/dev/null || exit 77
podman() { command podman --log-level=fatal "${options[@]}" "$@"; }
# crun does not support two hierarchies of control groups at once; limits beyond this process's own can't be set.
umount /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p "$work/engine"
export CONTAINERS_CONF="$work/engine/containers.conf"
cat >"$CONTAINERS_CONF" <<CONF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
oom_score_adj = 0
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
"$python" -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 1))'
podman run --rm peeklock --version >"$work/engine/version" 2>&1 || exit 77
trap 'podman rm --all --force --time 0 >/dev/null 2>&1; podman volume rm --all --force >/dev/null 2>&1' EXIT

# A page's commands with this beginning, with their continuation lines.
documented() {
    (cd tests/python && "$python" - "$1" "$2" <<'PYTHON'
import sys
from documented import blocks, commands

page, start = sys.argv[1:]
found = [command.text for block in blocks(page) if block.language == "sh" for command in commands(block) if command.text.startswith(start)]
assert found, f"{page} has no command {start}"
print("\n".join(found))
PYTHON
    )
}

# Unchanged, except that the container runs in the background.
docker() {
    if [ "$1" = run ]; then
        shift
        podman run --detach "$@" >/dev/null
    else
        podman "$@"
    fi
}
follow() {
    local command
    command="$(documented "$@")" || fail "$1: $2"
    eval "$command" || fail "$1: $command"
}
ready() {
    for _ in $(seq 300); do
        [ "$("$python" -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:5300/health", timeout=1).status)' 2>/dev/null)" = 200 ] && return
        sleep 0.1
    done
    fail "the broker in the container is not reached at port 5300"
}
stop() { podman stop --all >/dev/null; }
client() {
    "$python" - "$@" <<'PYTHON' || fail "the SDK: $*"
import sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage

action, queue = sys.argv[1:]
connection = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
with ServiceBusClient.from_connection_string(connection) as client:
    if action == "send":
        client.get_queue_sender(queue).send_messages(ServiceBusMessage("kept"))
    else:
        (message,) = client.get_queue_receiver(queue).receive_messages(1, max_wait_time=20)
        assert str(message) == "kept"
PYTHON
}

here="$PWD"
mkdir -p "$work/engine/reader"
cp config/emulator-sample.json "$work/engine/reader/Config.json"

follow docs/install.md "docker run"
ready
client send queue
stop
# With the same volume, in another container.
follow docs/operating.md "docker run"
ready
client receive queue
follow docs/operating.md "docker exec"
podman exec broker peeklock store check /backups/monday >/dev/null || fail "the backup"
stop
command="$(documented docs/emulator.md "docker run")"
cd "$work/engine/reader"
eval "$command" || fail "docs/emulator.md: $command"
cd "$here"
ready
podman logs --latest 2>/dev/null | grep -qx 'Emulator Service is Successfully Up!' || fail "the emulator's line"
client send queue.1
client receive queue.1
