"""Starts, kills and restarts a Peeklock daemon on its own ports and its own data directory."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Queues of a kind share their options; tests take a fresh one of the kind they need.
KINDS = {
    "plain": ({}, 120),
    "brief_lock": ({"lock_duration": "PT5S"}, 40),
    "brief_lock_two_tries": ({"lock_duration": "PT5S", "max_delivery_count": 2}, 8),
    "one_try": ({"max_delivery_count": 1}, 8),
    "three_tries": ({"max_delivery_count": 3}, 8),
    "dead_letter_on_expiry": ({"dead_lettering_on_message_expiration": True}, 24),
    "brief_lock_dead_letter_on_expiry": (
        {"lock_duration": "PT5S", "dead_lettering_on_message_expiration": True},
        8,
    ),
    "default_ttl": ({"default_message_time_to_live": "PT2S"}, 16),
    "default_ttl_dead_letter": (
        {"default_message_time_to_live": "PT2S", "dead_lettering_on_message_expiration": True},
        8,
    ),
    "path/with/slashes": ({}, 4),
}

CONNECTION_STRING = (
    "Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)


def binary() -> pathlib.Path:
    """The daemon under test: `PEEKLOCK_BIN`, or what `cargo build` left in `target`."""
    if named := os.environ.get("PEEKLOCK_BIN"):
        return pathlib.Path(named).resolve()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("release", "debug"):
        if (found := target / profile / "peeklock").exists():
            return found
    raise FileNotFoundError("no daemon: run `cargo build --release` or set PEEKLOCK_BIN")


def queue_names(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(KINDS[kind][1])]


def config_text() -> str:
    """The TOML that declares every queue of every kind."""
    tables = []
    for kind, (options, _) in KINDS.items():
        lines = "".join(f"{key} = {toml_value(value)}\n" for key, value in options.items())
        tables += [f'[[queues]]\nname = "{name}"\n{lines}' for name in queue_names(kind)]
    return "\n".join(tables)


def toml_value(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    """One daemon; its data outlives `kill` and comes back with `start`."""

    def __init__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="peeklock-python-")
        self.path = pathlib.Path(self._directory.name)
        self.config = self.path / "peeklock.toml"
        self.config.write_text(config_text())
        self.log = self.path / "daemon.log"
        self.process = None

    def start(self) -> "Daemon":
        """Returns when `/health` answers. Another process may take a free port first: try again then."""
        for _ in range(5):
            self.amqp_port, self.http_port = free_port(), free_port()
            self.process = self._spawn()
            if self._healthy():
                return self
        raise RuntimeError(f"the daemon does not start:\n{self.log.read_text()}")

    def _spawn(self) -> subprocess.Popen:
        command = [binary(), "serve", "--config", self.config, "--data-dir", self.path / "data"]
        command += ["--amqp", f"127.0.0.1:{self.amqp_port}", "--http", f"127.0.0.1:{self.http_port}"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.path, env=environment)

    def _healthy(self) -> bool:
        while self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/health", timeout=5) as answer:
                    return answer.status == 200
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        return False

    @property
    def connection_string(self) -> str:
        return CONNECTION_STRING.format(port=self.amqp_port)

    def kill(self):
        """SIGKILL: what a power cut leaves."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM: the graceful way; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self._directory.cleanup()

    def panics(self) -> list[str]:
        return [line for line in self.log.read_text(errors="replace").splitlines() if "panicked" in line]
