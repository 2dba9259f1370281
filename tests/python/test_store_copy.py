"""`peeklock store copy`: a broker on the copy serves the same messages, in a database and back in a directory."""

import datetime
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import postgres
import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage

from bus import DEAD_LETTER, Bus, bodies, body, take
from daemon import ROOT, Daemon, Subscription, binary, entities_text

UTC = datetime.timezone.utc
QUEUES = {
    "q": {},
    "sessions": {"requires_session": True},
    "once": {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "PT1H"},
}
TOPICS = {
    "t": {
        "subscriptions": [
            {"name": "all"},
            {"name": "red", "rules": [{"name": "red", "correlation": {"label": "red"}, "action": "SET n = 7"}]},
        ]
    }
}


@pytest.fixture
def daemons():
    """Creates daemons that end with the test."""
    made = []

    def make(*arguments, **options) -> Daemon:
        made.append(Daemon(*arguments, **options))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def database():
    postgres.require()
    trio = postgres.Trio(standbys=1)
    trio.primary.sql(f"grant pg_monitor to {postgres.ROLE}")
    yield trio.primary.url(trio.create_database())
    trio.close()


def copy(source, target, *arguments, **options) -> subprocess.CompletedProcess:
    command = [binary(), "store", "copy", "--from", str(source), "--to", str(target), "--json", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PEEKLOCK_")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, **options)


def copied(source, target) -> dict:
    done = copy(source, target)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


async def fill(bus: Bus, later: datetime.datetime) -> int:
    """Creates messages in every state, and returns the number of the deferred one."""
    await bus.send("q", *[ServiceBusMessage(name) for name in ["deferred", "dead", "abandoned", "locked"]])
    await bus.send("q", ServiceBusMessage(b"x" * 900_000, application_properties={"n": 1}))
    receiver = await bus.open_receiver("q")
    deferred, dead, abandoned = await take(receiver, 3)
    await receiver.defer_message(deferred)
    await receiver.dead_letter_message(dead, reason="r", error_description="d")
    await receiver.abandon_message(abandoned)
    async with bus.sender("q") as sender:
        await sender.schedule_messages(ServiceBusMessage(b"scheduled"), later)
    await bus.send("sessions", *[ServiceBusMessage(f"{n}", session_id="s") for n in range(3)])
    session = await bus.open_receiver("sessions", session_id="s")
    await session.session.set_state(b"state")
    await bus.send("once", ServiceBusMessage(b"first", message_id="id"))
    await bus.send("t", ServiceBusMessage("red", subject="red"), ServiceBusMessage("blue", subject="blue"))
    return deferred.sequence_number


async def check(bus: Bus, deferred: int):
    """Checks that a broker serves the messages of `fill`; changes nothing."""
    seen = [(body(m)[:9], m.state.name, m.sequence_number) for m in await bus.peek("q")]
    assert seen == [
        (b"deferred", "DEFERRED", 1),
        (b"abandoned", "ACTIVE", 3),
        (b"locked", "ACTIVE", 4),
        (b"x" * 9, "ACTIVE", 5),
        (b"scheduled", "SCHEDULED", 6),
    ]
    assert deferred == 1
    (dead,) = await bus.peek("q", sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"dead", "r")
    receiver = await bus.open_receiver("sessions", session_id="s")
    assert await receiver.session.get_state() == b"state"
    assert bodies(await receiver.peek_messages(max_message_count=10)) == [b"0", b"1", b"2"]
    await bus.send("once", ServiceBusMessage(b"second", message_id="id"))
    assert bodies(await bus.peek("once")) == [b"first"]
    assert bodies(await bus.peek(Subscription("t", "all"))) == [b"red", b"blue"]
    (red,) = await bus.peek(Subscription("t", "red"))
    assert red.application_properties[b"n"] == 7


def metrics(daemon: Daemon) -> set[str]:
    """The families of nodes on the page, as docs/metrics.md calls them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=30) as answer:
        types = re.findall(r"^# TYPE (peeklock_(?:postgres|cluster)_\w+) (\w+)$", answer.read().decode(), re.MULTILINE)
    return {name + "_total" * (kind == "counter") for name, kind in types}


def documented_metrics() -> set[str]:
    document = (ROOT / "docs" / "metrics.md").read_text()
    return set(re.findall(r"^\| `(peeklock_(?:postgres|cluster)_\w+)`", document, re.MULTILINE))


@pytest.mark.local_store("a copy of its files")
@pytest.mark.timeout(600)
async def test_a_broker_on_the_copy_serves_the_same_there_and_back(database, daemons, tmp_path):
    flavour = "aio"
    config = entities_text(QUEUES, TOPICS)
    later = datetime.datetime.now(UTC) + datetime.timedelta(hours=1)
    first = daemons(config).start()
    data = first.path / "data"
    async with Bus(flavour, first.connection_string) as bus:
        deferred = await fill(bus, later)
    in_use = copy(data, database)
    assert in_use.returncode == 3 and "in use" in json.loads(in_use.stdout)["message"]
    assert first.stop() == 0
    report = copied(data, database)
    assert (report["complete"], report["resumed"], report["entities"]) == (True, False, 4)
    assert "not-a-secret" not in json.dumps(report)
    again = copy(data, database)
    assert again.returncode == 2 and "not empty" in json.loads(again.stdout)["message"]

    second = daemons(config, environment={"PEEKLOCK_STORAGE_URL": database}).start()
    async with Bus(flavour, second.connection_string) as bus:
        await check(bus, deferred)
    postgres.until(lambda: documented_metrics() <= metrics(second), "all documented metrics are there")
    used = copy(database, tmp_path / "back")
    assert used.returncode == 3 and "a broker uses it (node " in json.loads(used.stdout)["message"]
    assert second.stop() == 0
    named = tmp_path / "store.toml"
    named.write_text(f'[storage]\nengine = "postgres"\nurl = "{database}"\n')
    back = copied(named, tmp_path / "back")
    assert back["body"] == report["body"]

    third = daemons(config)
    (tmp_path / "back").rename(third.path / "data")
    third.start()
    async with Bus(flavour, third.connection_string) as bus:
        await check(bus, deferred)
        receiver = await bus.open_receiver("q")
        assert bodies(await receiver.receive_deferred_messages(deferred)) == [b"deferred"]
        assert [len(m) for m in bodies(await take(receiver, 3))] == [9, 6, 900_000]
        session = await bus.open_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION)
        assert bodies(await take(session, 3)) == [b"0", b"1", b"2"]


@pytest.mark.local_store("a copy of its files")
@pytest.mark.timeout(600)
def test_a_copy_that_is_killed_goes_on_and_is_not_served_before(database, daemons):
    config = entities_text({"q": {}})
    source = daemons(config).start()
    command = [binary(), "send", "q", "--body", "x" * 20_000, "--repeat", "2000"]
    environment = {"PEEKLOCK_CONNECTION": source.connection_string}
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, timeout=120)
    assert source.stop() == 0
    command = [binary(), "store", "copy", "--from", source.path / "data", "--to", database, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(1.5)
        process.send_signal(signal.SIGKILL)
    stopped = daemons(config, environment={"PEEKLOCK_STORAGE_URL": database})
    if process.returncode == -signal.SIGKILL:
        stopped.launch()
        outcome = postgres.until(
            lambda: stopped.ready.exists() and "served" or stopped.process.poll(), "the broker decides"
        )
        if outcome != "served":
            assert outcome == 3 and "is an unfinished copy of" in stopped.log.read_text()
        stopped.process.kill()
        stopped.process.wait()
        stopped.ready.unlink(missing_ok=True)
    done = copy(source.path / "data", database)
    report = json.loads(done.stdout)
    if done.returncode == 0:
        assert report["head"]["values"] == 2000
    else:
        # It was killed before it began, and the broker created its entities; or after it was complete.
        assert "not empty" in report["message"]
