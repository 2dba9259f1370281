"""Starts, kills and restarts a Peeklock daemon on its own ports and data directory."""

import datetime
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request
from typing import NamedTuple

import postgres

ROOT = pathlib.Path(__file__).resolve().parents[2]

DUPLICATES = {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "PT1H"}

#: Queues of a kind share their options; each test uses a fresh one of the kind it needs.
KINDS = {
    "plain": ({}, 260),
    "brief_lock": ({"lock_duration": "PT5S"}, 8),
    "long_lock": ({"lock_duration": "PT5M"}, 4),
    "long_lock_dead_letter_on_expiry": (
        {"lock_duration": "PT5M", "dead_lettering_on_message_expiration": True},
        4,
    ),
    "two_tries": ({"max_delivery_count": 2}, 8),
    "one_try": ({"max_delivery_count": 1}, 8),
    "three_tries": ({"max_delivery_count": 3}, 8),
    "dead_letter_on_expiry": ({"dead_lettering_on_message_expiration": True}, 32),
    "default_ttl": ({"default_message_time_to_live": "PT1H"}, 16),
    "default_ttl_dead_letter": (
        {"default_message_time_to_live": "PT1H", "dead_lettering_on_message_expiration": True},
        8,
    ),
    "one_megabyte": ({"max_size_in_megabytes": 1}, 4),
    "path/with/slashes": ({}, 16),
    "session": ({"requires_session": True}, 180),
    "duplicates": (DUPLICATES, 16),
    "duplicates_session": (DUPLICATES | {"requires_session": True}, 4),
    "partitioned": ({"enable_partitioning": True}, 40),
    "partitioned_session": ({"enable_partitioning": True, "requires_session": True}, 8),
    "partitioned_duplicates": (DUPLICATES | {"enable_partitioning": True}, 8),
    "session_brief_lock": ({"requires_session": True, "lock_duration": "PT5S"}, 8),
    "session_dead_letter_on_expiry": (
        {"requires_session": True, "dead_lettering_on_message_expiration": True},
        8,
    ),
}

#: As `KINDS`, for topics; without a key `rules` the rule matches every message.
TOPIC_KINDS = {
    "topic": ({"subscriptions": [{"name": "one"}, {"name": "two"}]}, 80),
    "topic_duplicates": (DUPLICATES | {"subscriptions": [{"name": "one"}, {"name": "two"}]}, 4),
    "topic_partitioned": (
        {"enable_partitioning": True, "subscriptions": [{"name": "one"}, {"name": "two"}]},
        8,
    ),
    "topic_sessions": ({"subscriptions": [{"name": "plain"}, {"name": "session", "requires_session": True}]}, 24),
    "topic_ttl": (
        {
            "default_message_time_to_live": "PT1H",
            "subscriptions": [
                {"name": "none"},
                {"name": "shorter", "default_message_time_to_live": "PT30M"},
                {
                    "name": "longer",
                    "default_message_time_to_live": "PT2H",
                    "dead_lettering_on_message_expiration": True,
                },
            ],
        },
        16,
    ),
    "topic_rules": (
        {
            "subscriptions": [
                {"name": "all"},
                {"name": "none", "rules": []},
                {"name": "red", "rules": [{"name": "red", "correlation": {"label": "red"}}]},
                {
                    "name": "eu",
                    "rules": [{"name": "eu", "correlation": {"properties": {"region": "eu", "amount": 5}}}],
                },
            ]
        },
        8,
    ),
}

#: A start on an empty directory takes milliseconds; a busy machine may take its time.
START_SECS = 60

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


def is_on_postgres() -> bool:
    """Whether the brokers of this run store their messages in databases instead of files, as set by `postgres.py run`."""
    return postgres.SERVER_VARIABLE in os.environ


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


class Topic(str):
    """The name of a topic; `topic / "one"` is its subscription."""

    def __truediv__(self, name: str) -> "Subscription":
        return Subscription(self, name)


class Subscription(NamedTuple):
    """The source of a receiver, like the name of a queue."""

    topic: str
    name: str


def queue_names(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(KINDS[kind][1])]


def topic_names(kind: str) -> list[Topic]:
    return [Topic(f"{kind}-{number}") for number in range(TOPIC_KINDS[kind][1])]


def config_text() -> str:
    """The TOML that declares every queue and every topic of every kind."""
    queues = {name: options for kind, (options, _) in KINDS.items() for name in queue_names(kind)}
    topics = {name: options for kind, (options, _) in TOPIC_KINDS.items() for name in topic_names(kind)}
    return entities_text(queues, topics)


def entities_text(queues: dict = {}, topics: dict = {}, limits: dict = {}) -> str:
    """The TOML of a test's own daemon: options by name of queue or topic, and `[limits]`.

    A short idle time needs `limits={"auto_delete_on_idle_min": "PT0.1S"}`.
    """
    tables = [("[limits]", limits)]
    tables += [("[[queues]]", {"name": name} | options) for name, options in queues.items()]
    tables += [("[[topics]]", {"name": name} | options) for name, options in topics.items()]
    return "\n".join(f"{header}\n{lines(table)}" for header, table in tables)


def lines(table: dict) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())


def toml_value(value) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{json.dumps(key)} = {toml_value(one)}" for key, one in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case datetime.datetime():
            return value.isoformat()
        case _:
            return json.dumps(value)


class Daemon:
    """One daemon; its data remains after `kill` and is served again after `start`."""

    def __init__(
        self,
        config: str | None = None,
        time_travel: bool = False,
        emulator: str | None = None,
        also_listen: list[str] = [],
        environment: dict = {},
        listen: tuple[str, str] = ("127.0.0.1:0", "127.0.0.1:0"),
        program: pathlib.Path | None = None,
    ):
        """With additional variables, if given. With `emulator`, the text of a Config.json, the daemon has its entities instead of those of `config`.

        `listen` are the addresses of AMQP and HTTP, `program` is another binary than the one under test.
        """
        self.program = program or binary()
        self._directory = tempfile.TemporaryDirectory(prefix="peeklock-python-")
        self.path = pathlib.Path(self._directory.name)
        self.config = self.path / "peeklock.toml"
        self.emulator = self.path / "Config.json" if emulator else None
        if self.emulator:
            config = config or "# Config.json has the entities.\n"
            self.emulator.write_text(emulator)
        self.config.write_text(config or config_text())
        self.log = self.path / "daemon.log"
        self.ready = self.path / "ready.json"
        self.time_travel = time_travel
        self.also_listen = also_listen
        self.listen = listen
        #: Its own database, if messages are not in files.
        self.database = None
        if is_on_postgres() and "PEEKLOCK_STORAGE_URL" not in environment:
            self.database = postgres.create_shared_database()
        self.environment = ({"PEEKLOCK_STORAGE_URL": self.database} if self.database else {}) | environment
        self.process = None

    def start(self) -> "Daemon":
        """Returns when connections are accepted, on ports chosen by the system."""
        self.launch()
        deadline = time.monotonic() + START_SECS
        while not self.ready.exists():
            assert self.process.poll() is None, f"the daemon does not start:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"the daemon is not ready:\n{self.log.read_text()}"
            time.sleep(0.01)
        told = json.loads(self.ready.read_text())
        self.amqp_port, self.http_port = (port(told[name]) for name in ("amqp", "http"))
        self.ports = [port(address) for address in told["addresses"]]
        self.connection_string_tls = told["connection_string_tls"]
        #: The CA that made the daemon's certificate.
        self.ca = told["ca_file"]
        return self

    def launch(self):
        """Starts it without waiting."""
        self.process = self._spawn()

    def _spawn(self) -> subprocess.Popen:
        # The file of a killed daemon would be mistaken for the new one's.
        self.ready.unlink(missing_ok=True)
        command = [self.program, "serve", "--config", self.config, "--data-dir", self.path / "data"]
        command += ["--amqp", self.listen[0], "--http", self.listen[1], "--ready-file", self.ready]
        command += ["--also-listen", ",".join(self.also_listen)] if self.also_listen else []
        command += ["--time-travel"] if self.time_travel else []
        command += ["--emulator-config", self.emulator] if self.emulator else []
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
        environment |= self.environment
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.path, env=environment)

    def reload(self):
        """SIGHUP: reloads the configuration; returns when the daemon reports it."""
        done = lambda: self.log.read_text().count("reloaded")
        before = done()
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + START_SECS
        while done() == before:
            assert time.monotonic() < deadline, f"the daemon does not read its configuration:\n{self.log.read_text()}"
            time.sleep(0.01)

    @property
    def connection_string(self) -> str:
        return CONNECTION_STRING.format(port=self.amqp_port)

    def now(self) -> datetime.datetime:
        """The time of the daemon's clock; needs `time_travel`, like the methods that move it."""
        return self._clock()

    def advance(self, **duration: float) -> datetime.datetime:
        """Moves the clock, as in `advance(hours=1)`, and returns the new time; all due events have happened then."""
        return self._clock({"advance": f"PT{datetime.timedelta(**duration).total_seconds():.3f}S"})

    def advance_to(self, moment: datetime.datetime) -> datetime.datetime:
        """Moves the clock to a time, or leaves it if that is past."""
        left = (moment - self.now()).total_seconds()
        return self.advance(seconds=left + 0.001) if left > 0 else self.now()

    def _clock(self, asked: dict | None = None) -> datetime.datetime:
        url = f"http://127.0.0.1:{self.http_port}/development/clock"
        body = None if asked is None else json.dumps(asked).encode()
        with urllib.request.urlopen(url, body, timeout=30) as answer:
            return datetime.datetime.fromisoformat(json.load(answer)["now"].replace("Z", "+00:00"))

    def kill(self):
        """SIGKILL: no clean stop."""
        self.process.kill()
        self.process.wait()

    def pause(self):
        """SIGSTOP: its connections stay open without any answer."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM: a clean stop; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        if self.database:
            postgres.drop_shared_database(self.database)
        self._directory.cleanup()

    def panics(self) -> list[str]:
        return [line for line in self.log.read_text(errors="replace").splitlines() if "panicked" in line]
