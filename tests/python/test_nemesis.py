"""Clients with a ledger while a broker on the local store is killed, stopped, paused and cut off; see `checker.py` for the rules."""

import contextlib
import random
import shutil
import time
import urllib.request

import pytest

import unmodified
from checker import violations
from daemon import CONNECTION_STRING, Daemon, entities_text
from ledger import Fault
from nemesis import LinkFaults, Nemesis, broken, finish, minutes, seed
from proxies import Node, Proxies, Way
from workload import QUEUES, TOPICS, Workload

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("test_cluster.py has the same for PostgreSQL")

#: Enough for a few of the steps; PEEKLOCK_NEMESIS_MINUTES sets longer runs.
MINUTES = 0.5
#: For an application that always has a message to settle. With the SDK's own times its retries would last for minutes.
JS_BACKLOG = 500
JS_OPTIONS = {"workMs": 50, "retryOptions": {"timeoutInMs": 2_000, "retryDelayInMs": 500}}


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
    """Its data is set back to an earlier state: messages accepted since are lost, messages settled since are back."""
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
        daemon, balancer = behind_balancer(stack)
        applications = unmodified.Applications(CONNECTION_STRING.format(port=balancer.port))
        applications.wait_until_served()
        began = time.time()
        daemon.kill()
        daemon.start()
        applications.wait_until_served()
        applications.ledger.add(Fault("the broker was killed", began, time.time()))
        applications.finish()


@pytest.mark.timeout(0)
@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_a_settlement_whose_answer_is_lost_is_in_doubt_and_costs_nothing():
    """The broker is killed after settlements whose answers are still in flight."""
    with contextlib.ExitStack() as stack:
        daemon, balancer = behind_balancer(stack)
        connection_string = CONNECTION_STRING.format(port=balancer.port)
        applications = unmodified.Applications(connection_string, js_backlog=JS_BACKLOG, js_options=JS_OPTIONS)
        applications.wait_until_served()
        began, deadline = time.time(), time.monotonic() + unmodified.SERVICE_SECS
        while not hold_an_answer(daemon, balancer):
            balancer.heal()
            assert time.monotonic() < deadline, f"nothing is settled: {applications.ledger.errors}"
        daemon.kill()
        daemon.start()
        balancer.reset()
        balancer.heal()
        applications.wait_until_served()
        applications.ledger.add(Fault("answers held, then the broker killed", began, time.time()))
        applications.finish()
        failed = [one for one in applications.ledger.settlements if one.errors]
        attempts = [error for one in failed if one.delivery.place == "js" for error in one.errors]
        assert any(unmodified.NO_ANSWER.search(error) for error in attempts), failed


def behind_balancer(stack: contextlib.ExitStack):
    """A broker for unmodified clients, and the balancer through which they reach it, also after a restart."""
    proxies = stack.enter_context(Proxies())
    daemon = Daemon(entities_text(unmodified.QUEUES)).start()
    stack.callback(daemon.close)
    node = lambda: Node(("127.0.0.1", daemon.amqp_port), ("127.0.0.1", daemon.http_port))
    return daemon, proxies.balancer("clients", lambda: [node()])


def hold_an_answer(daemon: Daemon, link) -> bool:
    """Holds the broker's output; returns whether it has settled a message since, without an answer."""
    link.hold(Way.DOWN)
    before = settled(daemon)
    deadline = time.monotonic() + 1
    while settled(daemon) == before and time.monotonic() < deadline:
        time.sleep(0.01)
    return settled(daemon) > before


def settled(daemon: Daemon) -> float:
    """Messages of the JavaScript client that the broker has settled."""
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    name = "peeklock_messages_settled_total"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and 'entity="js"' in line)


def forget(daemon: Daemon, data, earlier):
    daemon.kill()
    shutil.rmtree(data)
    earlier.rename(data)
    daemon.start()
