"""Fixtures: a daemon for each worker, fresh queues, and a client of either flavour."""

import collections
import contextlib
import datetime
import socket
import uuid

import pytest

from bus import Bus
from daemon import Daemon, Topic, is_on_postgres, queue_names, topic_names
from rules import Stage, administration


def pytest_collection_modifyitems(items):
    if is_on_postgres():
        for item in items:
            for marker in item.iter_markers("local_store"):
                item.add_marker(pytest.mark.skip(reason=f"on the local store only: {marker.args[0]}"))


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
    # Far from the SDK's own clock: the SDK refuses to settle or renew, without a request, once a lock has expired by its clock.
    if _traveller.now() < datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1):
        _traveller.advance(days=1)
    return _traveller


@pytest.fixture
def own_daemon():
    """A daemon for this test alone, which it may kill."""
    daemon = Daemon().start()
    yield daemon
    assert daemon.panics() == []
    daemon.close()


@pytest.fixture(scope="session")
def amqps_address(worker_id):
    """A loopback address of this worker alone, where the port of AMQPS, 5671, is free."""
    address = f"127.0.0.{100 + int(worker_id.removeprefix('gw') if worker_id != 'master' else 99)}"
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind((address, 5671))
        except OSError as error:
            pytest.skip(f"{address}:5671 can't be listened on: {error}")
    return address


@pytest.fixture
def start_daemon():
    """Starts daemons of this test alone, with the arguments of `Daemon`; see `daemon.entities_text`."""
    with contextlib.ExitStack() as stack:

        def start(*args, **kwargs) -> Daemon:
            daemon = Daemon(*args, **kwargs)
            stack.callback(daemon.close)
            return daemon.start()

        yield start


class Fresh:
    """Returns each declared queue or topic once."""

    def __init__(self, names_of, default: str):
        self._names_of = names_of
        self._default = default
        self._left = collections.defaultdict(list)
        self._known = set()

    def take(self, kind: str | None = None) -> str:
        kind = kind or self._default
        if kind not in self._known:
            self._known.add(kind)
            self._left[kind] = self._names_of(kind)[::-1]
        assert self._left[kind], f"declare more of the kind {kind} in daemon.py"
        return self._left[kind].pop()


@pytest.fixture(scope="session")
def queues():
    return Fresh(queue_names, "plain")


@pytest.fixture(scope="session")
def topics():
    return Fresh(topic_names, "topic")


@pytest.fixture
def queue(queues):
    return queues.take()


@pytest.fixture
def topic(topics):
    """A topic with the subscriptions `one` and `two`, which get all messages."""
    return topics.take()


@pytest.fixture(params=["sync", "aio"])
def flavour(request):
    return request.param


def daemon_of(request) -> Daemon:
    travels = "traveller" in request.fixturenames
    return request.getfixturevalue("traveller" if travels else "daemon")


@pytest.fixture
async def bus(request, flavour):
    async with Bus(flavour, daemon_of(request).connection_string) as bus:
        yield bus


@pytest.fixture
async def stage(request, bus, flavour):
    """A topic of this test alone, on the daemon of `bus`; its subscriptions have the rules that the test gives."""
    daemon, topic = daemon_of(request), Topic(f"stage-{uuid.uuid4()}")
    async with administration(daemon, flavour) as admin:
        await admin.create_topic(topic)
        yield Stage(daemon, bus, admin, topic)
