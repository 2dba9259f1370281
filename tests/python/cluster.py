"""Two brokers on three PostgreSQL servers, with a proxy on every link, and the faults of all of them."""

import contextlib
import pathlib
import random
import tempfile
import time
import urllib.error
import urllib.request

import postgres
import wall_clock
from daemon import CONNECTION_STRING, Daemon, entities_text
from nemesis import LinkFaults, Step, broken
from postgres import Server, Trio
from proxies import Link, Node, Proxies

#: Size of a step of the wall clock of a broker's machine.
CLOCK_STEP_SECS = 2
#: Longer than a lease.
LONG_SECS = 9


class Broker:
    """One node, its links to the three servers, and its wall clock where libfaketime is installed."""

    def __init__(self, name: str, trio: Trio, database: str, proxies: Proxies, config: str):
        self.name = name
        self.links = [self._link(proxies, server) for server in trio.servers]
        self.ports = (postgres.free_port(), postgres.free_port())
        self._directory = tempfile.TemporaryDirectory(prefix="peeklock-clock-")
        self._clock = wall_clock.WallClock(pathlib.Path(self._directory.name), "+0")
        self.has_wrong_clock = not wall_clock.missing()
        url = trio.url(database, [link.address for link in self.links])
        environment = {"PEEKLOCK_STORAGE_URL": url, "PEEKLOCK_NODE": name}
        program = None
        if self.has_wrong_clock:
            environment |= self._clock.environment
            program = wall_clock.program()
        listen = tuple(f"127.0.0.1:{port}" for port in self.ports)
        self.daemon = Daemon(config, environment=environment, listen=listen, program=program)

    def _link(self, proxies: Proxies, server: Server) -> Link:
        return proxies.link(f"{self.name} to {server.name}", lambda: ("127.0.0.1", server.port))

    def set_clock(self, off_secs: int):
        self._clock.set_off(f"{off_secs:+d}")

    @property
    def node(self) -> Node:
        amqp, http = self.ports
        return Node(("127.0.0.1", amqp), ("127.0.0.1", http))

    def status(self, path: str) -> int:
        """The status of a health page; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}{path}", timeout=2) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    @property
    def is_serving(self) -> bool:
        return self.status("/health/ready") == 200

    def close(self):
        self.daemon.close()
        self._directory.cleanup()


class Pair:
    """The brokers `a` and `b`, behind a load balancer that routes to the ready one."""

    def __init__(self, stack: contextlib.ExitStack, queues: dict, topics: dict, settings: str = ""):
        proxies = stack.enter_context(Proxies())
        self.trio = Trio()
        stack.callback(self.trio.close)
        config, database = settings + entities_text(queues, topics), self.trio.create_database()
        self.brokers = [Broker(name, self.trio, database, proxies, config) for name in "ab"]
        for broker in self.brokers:
            stack.callback(broker.close)
            broker.daemon.launch()
        self.front = proxies.balancer("clients", lambda: [broker.node for broker in self.brokers])
        self.serving()

    def connection_string(self) -> str:
        return CONNECTION_STRING.format(port=self.front.port)

    def serving(self) -> Broker:
        """The broker that serves; waits for one."""
        return postgres.until(self._serving, f"a broker serves:\n{self.logs()}")

    def _serving(self) -> Broker | None:
        return next((broker for broker in self.brokers if broker.is_serving), None)

    def passive(self) -> Broker:
        serving = self.serving()
        return next(broker for broker in self.brokers if broker is not serving)

    def logs(self) -> str:
        found = []
        for broker in self.brokers:
            text = broker.daemon.log.read_text(errors="replace") if broker.daemon.log.exists() else ""
            found.append(f"{broker.name}:\n{text[-4_000:]}")
        return "\n".join(found)

    def check(self):
        """Faults of the processes themselves."""
        for broker in self.brokers:
            assert broker.daemon.panics() == [], broker.daemon.panics()
            assert broker.daemon.process.poll() is None, f"{broker.name} died:\n{self.logs()}"

    @property
    def clock_error_secs(self) -> float:
        return CLOCK_STEP_SECS + 0.5 if self.brokers[0].has_wrong_clock else 0.25

    def steps(self) -> dict[str, Step]:
        steps: dict[str, Step] = {
            "serving broker killed": lambda generator: self.kill(self.serving(), generator),
            "passive broker killed": lambda generator: self.kill(self.passive(), generator),
            "serving broker handed over": lambda generator: self.hand_over(self.serving(), generator),
            "serving broker paused": self.pause,
            "serving broker paused beyond its lease": self.pause_long,
            "primary killed and another promoted": self.promote,
            "primary killed and started again": self.restart_primary,
            "primary paused and another promoted": self.promote_beside,
            "primary killed, then the serving broker": self.kill_both,
            "primary killed, then the serving broker handed over": self.hand_over_without_primary,
            "sessions of brokers ended": lambda generator: self.end_sessions("pg_terminate_backend", generator),
            "statements of brokers cancelled": lambda generator: self.end_sessions("pg_cancel_backend", generator),
            "standby killed": self.kill_standby,
            "standbys paused": self.pause_standbys,
            "waits for standbys cancelled": self.cancel_waits,
        }
        if self.brokers[0].has_wrong_clock:
            steps["wall clock stepped"] = self.step_clock
        steps |= LinkFaults(lambda: [self.front]).steps("links of clients")
        steps |= LinkFaults(lambda: self.serving().links).steps("database links of the serving broker")
        return steps | LinkFaults(lambda: self.passive().links).steps("database links of the passive broker")

    def kill(self, broker: Broker, generator: random.Random):
        broker.daemon.kill()
        broken(generator)
        broker.daemon.launch()

    def hand_over(self, broker: Broker, generator: random.Random):
        assert broker.daemon.stop() == 0, self.logs()
        broken(generator)
        broker.daemon.launch()

    def pause(self, generator: random.Random):
        broker = self.serving()
        broker.daemon.pause()
        broken(generator)
        broker.daemon.resume()

    def pause_long(self, generator: random.Random):
        broker = self.serving()
        broker.daemon.pause()
        time.sleep(LONG_SECS)
        broker.daemon.resume()

    def promote(self, generator: random.Random):
        old = self.trio.primary
        old.kill()
        broken(generator)
        self.trio.promote()
        self._rejoin(old)

    def restart_primary(self, generator: random.Random):
        self.trio.primary.kill()
        broken(generator)
        self.trio.primary.start()
        self.trio.wait_for_standbys(2)

    def promote_beside(self, generator: random.Random):
        """The old primary resumes beside the new one; the promoting operator must stop it, and does so late."""
        old = self.trio.primary
        old.pause()
        self.trio.promote()
        old.resume()
        broken(generator)
        self._rejoin(old)

    def kill_both(self, generator: random.Random):
        broker, old = self.serving(), self.trio.primary
        old.kill()
        broken(generator)
        broker.daemon.kill()
        self.trio.promote()
        broker.daemon.launch()
        self._rejoin(old)

    def hand_over_without_primary(self, generator: random.Random):
        """The release can't be recorded, so the other one waits until the lease has expired."""
        broker, old = self.serving(), self.trio.primary
        old.kill()
        broken(generator)
        assert broker.daemon.stop() == 0, self.logs()
        self.trio.promote()
        broker.daemon.launch()
        self._rejoin(old)

    def end_sessions(self, function: str, generator: random.Random):
        """All sessions of the brokers, or their statements, some times in a row."""
        active = "select pid from pg_stat_activity where usename = 'peeklock' and backend_type = 'client backend'"
        for _ in range(20):
            self.trio.primary.sql(f"select {function}(pid) from ({active}) sessions")
            time.sleep(generator.uniform(0.01, 0.1))

    def kill_standby(self, generator: random.Random):
        standby = generator.choice(self.trio.standbys)
        standby.kill()
        broken(generator)
        standby.start()
        self.trio.wait_for_standbys(2)

    def pause_standbys(self, generator: random.Random):
        """No commit is confirmed meanwhile."""
        for standby in self.trio.standbys:
            standby.pause()
        broken(generator)
        for standby in self.trio.standbys:
            standby.resume()
        self.trio.wait_for_standbys(2)

    def cancel_waits(self, generator: random.Random):
        """An unconfirmed commit is answered as a success; then the primary is lost with it."""
        standbys, old = self.trio.standbys, self.trio.primary
        for standby in standbys:
            standby.pause()
        broken(generator)
        old.cancel_waits()
        old.kill()
        for standby in standbys:
            standby.resume()
        self.trio.promote()
        self._rejoin(old)

    def step_clock(self, generator: random.Random):
        broker = generator.choice(self.brokers)
        for off_secs in (generator.choice((-1, 1)) * CLOCK_STEP_SECS, 0):
            broker.set_clock(off_secs)
            broken(generator)

    def _rejoin(self, server: Server):
        self.trio.rejoin(server)
        self.trio.wait_for_standbys(2)
