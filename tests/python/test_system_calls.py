"""System calls that fail in the real daemon, injected by strace (Debian: `strace`)."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

from bus import log_line
from daemon import Daemon, binary, is_on_postgres

PATIENCE_SECS = 60

# glibc's open and musl's; some machines have only one of them.
OPEN = "?open,openat"

AMQP_HEADER = b"AMQP\x03\x01\x00\x00"


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """Makes daemons run under strace: `failing("accept4", "ECONNABORTED", "2+")`; strace counts the calls of each thread,
    with `path` those for that file."""
    strace = ["strace", "-f", "-qq", "-o", str(tmp_path / "calls")]
    if shutil.which("strace") is None or subprocess.run([*strace, "true"]).returncode != 0:
        pytest.skip("strace is not installed or not permitted: failing system calls are not tested")

    def inject(calls: str, error: str, when: str, path: pathlib.Path | None = None):
        only = ["-P", str(path)] if path else []
        injection = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={when}"]
        command = [*strace, *only, *injection, str(binary())]
        wrapper = tmp_path / "peeklock"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        wrapper.chmod(0o700)
        monkeypatch.setenv("PEEKLOCK_BIN", str(wrapper))

    return inject


@pytest.mark.parametrize("first", range(1, 6))
def test_a_start_that_is_refused_a_thread_ends_with_the_reason(failing, first):
    """As at the limit of a container's processes (`pids.max`, `--pids-limit`)."""
    failing("clone,clone3", "EAGAIN", f"{first}+")
    daemon = Daemon("# nothing declared")
    daemon.launch()
    assert daemon.process.wait(PATIENCE_SECS) in (1, 3)
    assert "Resource temporarily unavailable" in daemon.log.read_text()
    daemon.close()


@pytest.mark.skipif(is_on_postgres(), reason="data directories only")
def test_a_copy_that_is_refused_a_thread_fails_with_the_reason(failing, tmp_path):
    daemon = Daemon("# nothing declared").start()
    assert daemon.stop() == 0
    failing("clone,clone3", "EAGAIN", "1+")
    command = [binary(), "store", "copy", "--from", daemon.path / "data", "--to", tmp_path / "copied"]
    copied = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECS)
    assert copied.returncode == 1
    assert "Resource temporarily unavailable" in copied.stderr
    daemon.close()


async def test_a_connection_that_is_aborted_before_it_is_accepted_closes_no_other(failing):
    failing("accept4", "ECONNABORTED", "1+2")
    daemon = Daemon("# nothing declared").start()
    with socket.create_connection(("127.0.0.1", daemon.amqp_port), timeout=PATIENCE_SECS) as silent:
        for _ in range(5):
            url = f"http://127.0.0.1:{daemon.amqp_port}/health"
            assert urllib.request.urlopen(url, timeout=PATIENCE_SECS).status == 200
        await log_line(daemon, "a connection could not be accepted")
        silent.sendall(AMQP_HEADER)
        assert silent.recv(len(AMQP_HEADER)) == AMQP_HEADER
    os.kill(json.loads(daemon.ready.read_text())["pid"], signal.SIGTERM)
    daemon.process.wait(PATIENCE_SECS)
    daemon.close()


@pytest.mark.skipif(is_on_postgres(), reason="data directories only")
@pytest.mark.parametrize("file", ["peeklock.toml", "data/MANIFEST", "data/tls/ca.pem", "data/tls/ca.key"])
@pytest.mark.parametrize("error", ["EIO", "EMFILE", "ENFILE", "ENOMEM"])
def test_a_start_that_fails_for_a_passing_reason_may_be_repeated(failing, file, error):
    """Exit code 1, after which a service manager starts the broker again: after 2 and 3 it does not."""
    daemon = Daemon("# nothing declared").start()
    assert daemon.stop() == 0
    first = len(daemon.log.read_text())
    program = daemon.program
    failing(OPEN, error, "1", path=daemon.path / file)
    daemon.program = binary()
    daemon.launch()
    assert daemon.process.wait(PATIENCE_SECS) == 1, daemon.log.read_text()[first:]
    log = daemon.log.read_text()[first:]
    assert pathlib.Path(file).name in log
    assert "remove" not in log, "nothing says that a file is damaged"
    daemon.program = program
    daemon.start()
    assert daemon.stop() == 0
    daemon.close()


@pytest.mark.skipif(is_on_postgres(), reason="data directories only")
@pytest.mark.parametrize("file, expected", [("peeklock.toml", 2), ("data/MANIFEST", 3), ("data/tls/ca.key", 2)])
def test_a_start_without_permission_is_not_to_be_repeated(failing, file, expected):
    daemon = Daemon("# nothing declared").start()
    assert daemon.stop() == 0
    failing(OPEN, "EACCES", "1", path=daemon.path / file)
    daemon.program = binary()
    daemon.launch()
    assert daemon.process.wait(PATIENCE_SECS) == expected, daemon.log.read_text()
    assert "Permission denied" in daemon.log.read_text()
    daemon.close()
