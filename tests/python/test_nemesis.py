"""Clients with a ledger while a broker on the local store is killed, stopped, paused and cut off; see `checker.py` for the rules."""

import contextlib
import os
import random

import pytest

from daemon import CONNECTION_STRING, Daemon, entities_text
from nemesis import LinkFaults, Nemesis, broken, finish, minutes, seed
from proxies import Proxies
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
