"""Every command of docs/operating.md runs as it stands, from top to bottom."""

import os
import re
import socket
import subprocess

from daemon import ROOT, binary

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: What differs from a reader's machine: where `peeklock` is, and that a container's commands run here.
PRELUDE = """
set -eu
trap 'kill -KILL ${broker:-} 2>/dev/null || true' EXIT
docker() { shift 2; mkdir -p backups; PEEKLOCK_DATA_DIR=./data "${@:1:3}" ".$4"; }
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_command_runs(tmp_path):
    blocks = BLOCK.findall((ROOT / "docs" / "operating.md").read_text())
    assert len(blocks) >= 8
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "peeklock").symlink_to(binary())
    work = tmp_path / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PEEKLOCK_")}
    environment |= {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PEEKLOCK_AMQP": f"127.0.0.1:{free_port()}",
        "PEEKLOCK_HTTP": f"127.0.0.1:{free_port()}",
    }
    script = PRELUDE + "\n".join(blocks)
    run = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("a complete backup, every checksum verified") == 1
    for name in ("first", "copied", "monday", "before-upgrade"):
        assert (work / "backups" / name / "BACKUP").exists(), name
    assert (work / "restored" / "MANIFEST").exists()
    # The broker that served all that stopped in good order.
    assert "in good order" in run.stdout
