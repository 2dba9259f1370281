"""PostgreSQL servers for one test: one alone, or a primary with standbys of which any one confirms each commit.

They are in a temporary directory, listen on free ports of 127.0.0.1 and run as an unprivileged user if the tests run as
root, which PostgreSQL refuses. `python postgres.py run -- COMMAND` runs a command, such as a whole suite, whose brokers keep
their messages on a primary with one standby: see `daemon.py`.
"""

import atexit
import contextlib
import glob
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

#: Directories of programs that are not on the path, as in Debian; the newest version is used.
DIRECTORIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
PROGRAMS = ("initdb", "postgres", "pg_basebackup", "pg_rewind", "psql")
#: With this variable, missing programs fail the tests that need them.
REQUIRED_VARIABLE = "PEEKLOCK_REQUIRE_POSTGRES"
#: The URL of a server that a whole run shares, without a database: then each broker of the suites has a database there.
SERVER_VARIABLE = "PEEKLOCK_TEST_POSTGRES"
#: The path of psql for that server.
CLIENT_VARIABLE = "PEEKLOCK_TEST_PSQL"

#: The role of the brokers: owns its databases and may create more.
ROLE, PASSWORD = "peeklock", "not-a-secret"
ADMINISTRATOR = "postgres"
#: Time-out for a server on a busy machine.
PATIENCE_SECS = 60
#: Below the range of outgoing connections, so that a port stays free while its server is down.
PORTS = range(17_000, 31_000)

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "wal_level": "replica",
    "wal_keep_size": "256MB",
    "max_wal_size": "512MB",
    "hot_standby": "on",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "200ms",
    "wal_sender_timeout": "10s",
    "wal_receiver_timeout": "10s",
}


def programs() -> pathlib.Path | None:
    """The directory of PostgreSQL's programs, or None where one is missing."""
    found = [path for pattern in DIRECTORIES for path in glob.glob(pattern)]
    found.sort(key=lambda path: [int(digits) for digits in "".join(c if c.isdigit() else " " for c in path).split()])
    if server := shutil.which("postgres"):
        found.insert(0, str(pathlib.Path(server).resolve().parent))
    for path in map(pathlib.Path, reversed(found)):
        if all((path / name).exists() for name in PROGRAMS):
            return path
    return None


def require() -> pathlib.Path:
    """Like `programs`; the calling test is skipped if they are missing, or fails if they are required."""
    import pytest

    if found := programs():
        return found
    reason = "PostgreSQL's servers are not installed (Debian: postgresql): the replicated store is NOT tested"
    if os.environ.get(REQUIRED_VARIABLE):
        pytest.fail(f"{reason}, and {REQUIRED_VARIABLE} is set")
    pytest.skip(reason)


def account() -> dict:
    """The user for the programs, as arguments of `subprocess`: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise LookupError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def free_port() -> int:
    for _ in range(1_000):
        port = random.SystemRandom().choice(PORTS)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port in {PORTS}")


def until(condition, what: str):
    """Waits until `condition()` is true and returns its value."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)
    return value


class Refused(Exception):
    """The error of psql for a failed statement or connection."""


class Server:
    """One server, known to the others as `name`. Its data remains after `kill` and is served again after `start`."""

    def __init__(self, directory: pathlib.Path, name: str, settings: dict = {}):
        self.name = name
        self.path = directory / name
        self.data = self.path / "data"
        self.log = self.path / "server.log"
        self.port = free_port()
        self.settings = settings
        self.process = None
        self._programs = programs()
        self._account = account()
        self.path.mkdir(mode=0o755)
        self._own(self.path)

    def _own(self, path: pathlib.Path):
        if self._account:
            os.chown(path, self._account["user"], self._account["group"])

    def run(self, program: str, *arguments):
        """Runs one of PostgreSQL's programs to its end."""
        command = [self._programs / program, *map(str, arguments)]
        environment = os.environ | {"PGPASSWORD": PASSWORD, "LC_ALL": "C"}
        done = subprocess.run(
            command, cwd=self.path, env=environment, capture_output=True, text=True, errors="replace", **self._account
        )
        if done.returncode != 0:
            raise Refused(f"{program}: {done.stderr}{done.stdout}")
        return done.stdout

    def create(self):
        """Initializes it as a new, empty server, with the brokers' role."""
        arguments = ["--username", ADMINISTRATOR, "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-sync"]
        self.run("initdb", *arguments, "--auth-local=trust", "--auth-host=scram-sha-256", "-D", self.data)
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host replication all 127.0.0.1/32 scram-sha-256\n")
        # In the file as well as in the command: the recovery that pg_rewind starts must keep the log, too.
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in SETTINGS.items())

    def create_role(self):
        self.sql(f"create role {ROLE} login createdb replication in role pg_checkpoint password '{PASSWORD}'")
        # Required by pg_rewind on the server that it copies from.
        for function in (
            "pg_ls_dir(text, boolean, boolean)",
            "pg_stat_file(text, boolean)",
            "pg_read_binary_file(text)",
            "pg_read_binary_file(text, bigint, bigint, boolean)",
        ):
            self.sql(f"grant execute on function pg_catalog.{function} to {ROLE}", "postgres")

    def start(self) -> "Server":
        """Returns when connections are accepted, by a primary or by a standby."""
        settings = SETTINGS | self.settings | {"port": self.port, "cluster_name": self.name, "unix_socket_directories": self.path}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, *options],
                **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": self.path},
                **{"env": environment, "start_new_session": True, **self._account},
            )
        atexit.register(self.kill)
        until(self._answers, f"{self.name} accepts connections:\n{self.log_text()}")
        return self

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"{self.name} does not start:\n{self.log_text()}"
        with contextlib.suppress(Refused):
            return self.sql("select 1") == "1"

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")[-8_000:]

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs a statement as the administrator, and returns its rows as text."""
        options = ["-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.path, "-p", self.port, "-U", ADMINISTRATOR]
        return self.run("psql", *options, "-d", database, "-c", statement).strip()

    @contextlib.contextmanager
    def locked(self, table: str, database: str):
        """Nobody else reads or writes the table within `with`, at whose end the transaction is rolled back."""
        options = ["-XqAt", "-h", self.path, "-p", str(self.port), "-U", ADMINISTRATOR, "-d", database]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": self.path}
        with subprocess.Popen([self._programs / "psql", *options], **pipes, **self._account) as holder:
            holder.stdin.write(f"begin; lock table {table}; select 'locked';\n")
            holder.stdin.flush()
            assert holder.stdout.readline().strip() == "locked"
            yield

    def url(self, database: str = "") -> str:
        return url([("127.0.0.1", self.port)], database)

    def create_database(self) -> str:
        """A new database of the brokers' role; returns its name."""
        name = f"test_{uuid.uuid4().hex}"
        self.sql(f"create database {name} owner {ROLE}")
        return name

    def processes(self) -> list[int]:
        """The server's processes, the first of them first."""
        own = self.process.pid
        try:
            children = pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split()
        except OSError:
            children = subprocess.run(["pgrep", "-P", str(own)], capture_output=True, text=True).stdout.split()
        return [own, *map(int, children)]

    def signal_all(self, number: signal.Signals):
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def pause(self):
        """SIGSTOP for all its processes; connections stay open without any answer."""
        self.process.send_signal(signal.SIGSTOP)
        self.signal_all(signal.SIGSTOP)

    def resume(self):
        self.signal_all(signal.SIGCONT)

    def kill(self):
        """SIGKILL for all its processes at once."""
        if self.is_running:
            # A stopped process starts no more processes while its children are killed.
            self.process.send_signal(signal.SIGSTOP)
            self.signal_all(signal.SIGKILL)
            self.process.wait()

    def stop(self):
        """A clean shutdown, without waiting for its clients."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=PATIENCE_SECS)

    def cancel_waits(self) -> int:
        """Cancels every commit that waits for a standby, and returns their number. Each is answered as a success, with a warning."""
        cancel = "select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'"
        return int(self.sql(cancel))

    def follow(self, primary: "Server | None"):
        """Sets the server from which it gets the log, or none. Takes effect at once if it runs."""
        words = f"host=127.0.0.1 port={primary.port} user={ROLE} password={PASSWORD}" if primary else ""
        words += f" application_name={self.name} connect_timeout=5" if primary else ""
        settings = self.data / "postgresql.auto.conf"
        settings.write_text(f"primary_conninfo = '{words}'\n")
        self._own(settings)
        if self.is_running:
            self.process.send_signal(signal.SIGHUP)

    def copy(self, primary: "Server"):
        """Makes a standby of it by a new base backup."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = ["-h", "127.0.0.1", "-p", primary.port, "-U", ROLE]
        self.run("pg_basebackup", *source, "-D", self.data, "--checkpoint=fast", "--no-sync", "-X", "stream")
        self._stand_by(primary)

    def rewind(self, primary: "Server"):
        """Makes a standby of it by pg_rewind, which removes changes that `primary` never had."""
        # pg_rewind reads the timeline from the last checkpoint, which a promotion does not wait for.
        primary.sql("checkpoint")
        source = f"host=127.0.0.1 port={primary.port} user={ROLE} password={PASSWORD} dbname=postgres"
        self.run("pg_rewind", "-D", self.data, "--source-server", source, "--no-sync")
        self._stand_by(primary)

    def _stand_by(self, primary: "Server"):
        (self.data / "standby.signal").touch()
        self._own(self.data / "standby.signal")
        self.follow(primary)

    def received(self) -> int:
        """The position up to which its log is synced, as a standby; in bytes."""
        return int(self.sql("select coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0'"))


class Directory:
    """A temporary directory that PostgreSQL's user can enter."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="peeklock-postgres-"))
        self.path.chmod(0o755)

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Single:
    """One server alone; a broker needs `durability = "service"` for it."""

    def __init__(self, settings: dict = {}):
        self._directory = Directory()
        self.server = Server(self._directory.path, "s0", settings)
        self.server.create()
        self.server.start().create_role()

    def close(self):
        self.server.kill()
        self._directory.close()


class Trio:
    """A primary and two standbys (or another number), with synchronous_standby_names = 'ANY 1 (s0, s1, s2)'.

    Nothing acknowledged is lost as long as `promote` finds both standbys, as every acknowledgement is in the log of one of them.
    """

    def __init__(self, settings: dict = {}, standbys: int = 2):
        self._directory = Directory()
        names = [f"s{number}" for number in range(1 + standbys)]
        # Quoted names, as in documentation; a server is never its own standby.
        listed = ", ".join(f'"{name}"' for name in names)
        settings = {"synchronous_standby_names": f"ANY 1 ({listed})"} | settings
        self.servers = [Server(self._directory.path, name, settings) for name in names]
        self.primary, *standbys = self.servers
        self.primary.create()
        # Without standbys no commit would be confirmed.
        self.primary.settings = settings | {"synchronous_standby_names": ""}
        self.primary.start().create_role()
        self.primary.stop()
        self.primary.settings = settings
        self.primary.start()
        for standby in standbys:
            standby.copy(self.primary)
            standby.start()
        self.wait_for_standbys(len(standbys))

    @property
    def standbys(self) -> list[Server]:
        return [server for server in self.servers if server is not self.primary]

    def url(self, database: str = "", hosts: list[tuple[str, int]] | None = None) -> str:
        """The addresses of all servers, or of the proxies before them; a client must find the one that accepts writes."""
        return url(hosts or [("127.0.0.1", server.port) for server in self.servers], database)

    def create_database(self) -> str:
        return self.primary.create_database()

    def wait_for_standbys(self, count: int):
        """Returns when the given number of standbys get the primary's log."""
        asked = "select count(*) from pg_stat_replication where state = 'streaming'"
        until(lambda: int(self.primary.sql(asked)) >= count, f"{count} standbys follow {self.primary.name}")

    def promote(self) -> Server:
        """Promotes the standby with the longest log, and makes the other one follow it.

        Both are disconnected from the old primary before their logs are compared: without them its commits are not confirmed.
        """
        standbys = self.standbys
        for standby in standbys:
            standby.follow(None)
        for standby in standbys:
            until(lambda: standby.sql("select count(*) from pg_stat_wal_receiver") == "0", f"{standby.name} stops listening")
        chosen, other = sorted(standbys, key=Server.received, reverse=True)
        chosen.sql(f"select pg_promote(true, {PATIENCE_SECS})")
        until(lambda: chosen.sql("select pg_is_in_recovery()") == "f", f"{chosen.name} is promoted")
        other.follow(chosen)
        self.primary = chosen
        return chosen

    def rejoin(self, server: Server):
        """Starts a killed server again as a standby of the primary, regardless of its former role."""
        server.kill()
        try:
            server.rewind(self.primary)
        except Refused:
            server.copy(self.primary)
        server.start()

    def close(self):
        for server in self.servers:
            server.kill()
        self._directory.close()


def url(hosts: list[tuple[str, int]], database: str = "", parameters: str = "") -> str:
    """A connection string of the brokers' role; `target_session_attrs` where there are several hosts."""
    places = ",".join(f"{host}:{port}" for host, port in hosts)
    parameters = parameters or ("target_session_attrs=read-write" if len(hosts) > 1 else "")
    return f"postgres://{ROLE}:{PASSWORD}@{places}/{database}" + (f"?{parameters}" if parameters else "")


def create_shared_database() -> str:
    """A new database on the server of this run; returns its URL."""
    name = f"test_{uuid.uuid4().hex}"
    shared_sql(f"create database {name}")
    return os.environ[SERVER_VARIABLE] + name


def drop_shared_database(url: str):
    shared_sql(f"drop database if exists {url.rpartition('/')[2]} with (force)")


def shared_sql(statement: str):
    command = [os.environ[CLIENT_VARIABLE], "-Xq", os.environ[SERVER_VARIABLE] + "postgres", "-c", statement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["run", "--", *command] if command and (path := programs()):
            trio = Trio(standbys=1)
            variables = {SERVER_VARIABLE: trio.primary.url(), CLIENT_VARIABLE: str(path / "psql")}
            try:
                return subprocess.call(command, env=os.environ | variables)
            finally:
                trio.close()
        case ["run", "--", *command] if command:
            print("skipped: PostgreSQL's servers are not installed (Debian: postgresql)")
            return 1 if os.environ.get(REQUIRED_VARIABLE) else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
