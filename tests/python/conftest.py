"""Fixtures: a daemon for each worker, fresh queues, and a client of either flavour."""

import collections
import datetime

import pytest

from bus import Bus
from daemon import Daemon, queue_names


def watched(daemon):
    yield daemon.start()
    assert daemon.process.poll() is None, f"the daemon died:\n{daemon.log.read_text()}"
    assert daemon.panics() == []
    daemon.close()


@pytest.fixture(scope="session")
def daemon():
    yield from watched(Daemon())


@pytest.fixture(scope="session")
def _traveller():
    yield from watched(Daemon(time_travel=True))


@pytest.fixture
def traveller(_traveller):
    """A daemon whose clock the test may move; `bus` and `queue` of such a test are on this daemon."""
    # Far from the SDK's own clock: it refuses to settle or renew once a lock is over by that, without asking.
    if _traveller.now() < datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1):
        _traveller.advance(days=1)
    return _traveller


@pytest.fixture
def own_daemon():
    """A daemon of this test alone, to be killed."""
    daemon = Daemon().start()
    yield daemon
    assert daemon.panics() == []
    daemon.close()


class Queues:
    """Hands out each declared queue once."""

    def __init__(self):
        self._left = collections.defaultdict(list)
        self._known = set()

    def take(self, kind: str = "plain") -> str:
        if kind not in self._known:
            self._known.add(kind)
            self._left[kind] = queue_names(kind)[::-1]
        assert self._left[kind], f"declare more queues of the kind {kind} in daemon.py"
        return self._left[kind].pop()


@pytest.fixture(scope="session")
def queues():
    return Queues()


@pytest.fixture
def queue(queues):
    return queues.take()


@pytest.fixture(params=["sync", "aio"])
def flavour(request):
    return request.param


@pytest.fixture
async def bus(request, flavour):
    travels = "traveller" in request.fixturenames
    daemon = request.getfixturevalue("traveller" if travels else "daemon")
    async with Bus(flavour, daemon.connection_string) as bus:
        yield bus
