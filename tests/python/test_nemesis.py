"""Clients with a ledger while a broker on the local store is killed, stopped, paused and cut off; see `checker.py` for the rules."""

import contextlib
import random
import shutil
import time

import pytest

import unmodified
from checker import violations
from daemon import CONNECTION_STRING, Daemon, entities_text
from ledger import Fault
from nemesis import LinkFaults, Nemesis, broken, finish, minutes, seed
from proxies import Node, Proxies
from workload import QUEUES, TOPICS, Workload

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("test_cluster.py has the same for PostgreSQL")

#: Enough for a few of the steps; hours by PEEKLOCK_NEMESIS_MINUTES.
MINUTES = 0.5


class Alone:
    """One broker, and one link to it."""

    def __init__(self, proxies: Proxies):
        self.daemon = Daemon(entities_text(QUEUES, TOPICS)).start()
        self.link = proxies.link("clients", lambda: ("127.0.0.1", self.daemon.amqp_port))

    def connection_string(self) -> str:
        return CONNECTION_STRING.format(port=self.link.port)

    def steps(self):
        broker = {"broker killed": self.kill, "broker stopped": self.stop, "broker paused": self.pause}
        return broker | LinkFaults(lambda: [self.link]).steps("link of clients")

    def kill(self, generator: random.Random):
        self.daemon.kill()
        broken(generator)
        self.daemon.start()

    def stop(self, generator: random.Random):
        assert self.daemon.stop() == 0
        broken(generator)
        self.daemon.start()

    def pause(self, generator: random.Random):
        self.daemon.pause()
        broken(generator)
        self.daemon.resume()

    def close(self):
        assert self.daemon.panics() == []
        self.daemon.close()


@pytest.mark.timeout(0)
def test_a_broker_on_the_local_store_keeps_its_word():
    number = seed()
    print(f"PEEKLOCK_NEMESIS_SEED={number}")
    with contextlib.ExitStack() as stack:
        alone = Alone(stack.enter_context(Proxies()))
        stack.callback(alone.close)
        workload = Workload(alone.connection_string, number)
        workload.start()
        Nemesis(alone.steps(), workload, number).run(60 * minutes(MINUTES))
        finish(workload)


@pytest.mark.timeout(0)
def test_a_broker_that_forgets_is_found_out():
    """Its data are those of some time before: what was accepted since is gone, what was settled since is back."""
    with contextlib.ExitStack() as stack:
        alone = Alone(stack.enter_context(Proxies()))
        stack.callback(alone.close)
        data, earlier = alone.daemon.path / "data", alone.daemon.path / "earlier"
        workload = Workload(alone.connection_string, seed())
        workload.start()
        nemesis = Nemesis({"broker forgets": lambda generator: forget(alone.daemon, data, earlier)}, workload, 0)
        nemesis.run(0)
        assert alone.daemon.stop() == 0
        shutil.copytree(data, earlier)
        alone.daemon.start()
        nemesis.wait_for_service("the copy", time.time() + 2)
        nemesis.take("broker forgets")
        with pytest.raises(AssertionError, match="violations"):
            finish(workload)
        rules = {violation.rule for violation in violations(workload.ledger)}
        assert {"lost", "came back"} <= rules


@pytest.mark.timeout(0)
@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_unmodified_clients_notice_a_restart_as_a_pause():
    with contextlib.ExitStack() as stack:
        proxies = stack.enter_context(Proxies())
        daemon = Daemon(entities_text(unmodified.QUEUES)).start()
        stack.callback(daemon.close)
        node = lambda: Node(("127.0.0.1", daemon.amqp_port), ("127.0.0.1", daemon.http_port))
        balancer = proxies.balancer("clients", lambda: [node()])
        applications = unmodified.Applications(CONNECTION_STRING.format(port=balancer.port))
        applications.wait_until_served()
        began = time.time()
        daemon.kill()
        daemon.start()
        applications.wait_until_served()
        applications.ledger.add(Fault("the broker was killed", began, time.time()))
        applications.finish()


def forget(daemon: Daemon, data, earlier):
    daemon.kill()
    shutil.rmtree(data)
    earlier.rename(data)
    daemon.start()
