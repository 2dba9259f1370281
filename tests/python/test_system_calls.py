"""System calls that fail in the real daemon, injected by strace (Debian: `strace`)."""

import shutil
import subprocess

import pytest

from daemon import Daemon, binary

#: A start that hangs would never end.
PATIENCE_SECS = 60

REFUSED = "Resource temporarily unavailable"


@pytest.mark.parametrize("first", range(1, 6))
def test_a_start_that_is_refused_a_thread_ends_with_the_reason(first, tmp_path):
    """As at the limit of a container's processes (`pids.max`, `--pids-limit`); strace counts the calls of each thread."""
    strace = ["strace", "-f", "-qq", "-o", tmp_path / "calls", "-e", "trace=clone,clone3"]
    if shutil.which("strace") is None or subprocess.run([*strace, "true"]).returncode != 0:
        pytest.skip("strace is not installed or not permitted: failing system calls are not tested")
    daemon = Daemon("# nothing declared")
    command = [*strace, "-e", f"inject=clone,clone3:error=EAGAIN:when={first}+", binary(), "serve"]
    command += ["--config", daemon.config, "--data-dir", daemon.path / "data"]
    command += ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECS)
    assert ended.returncode in (1, 3), ended.stderr
    assert REFUSED in ended.stderr
    daemon.close()
