"""The examples print what examples/README.md shows, exit with 0, and leave their queues as it says."""

import os
import re
import subprocess
import sys

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from daemon import ROOT, Daemon

EXAMPLES = ROOT / "examples"
#: A section of the README that ends its heading with the name of an example, up to the output that it shows.
SECTION = re.compile(r"^## [^\n]*`(\w+)`\n.*?^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = {name: output.splitlines() for name, output in SECTION.findall((EXAMPLES / "README.md").read_text())}
ACCOUNTS = ["Ada", "Bob", "Cleo", "Dan"]
#: Seconds for one run on a busy machine.
RUN_SECS = 80


@pytest.fixture
def broker(start_daemon) -> Daemon:
    return start_daemon((EXAMPLES / "peeklock.toml").read_text())


def printed(name: str, broker: Daemon) -> list[str]:
    """The lines that an example prints, run as a reader runs it."""
    environment = os.environ | {
        "SERVICEBUS_CONNECTION_STRING": broker.connection_string,
        "PEEKLOCK_HTTP": f"127.0.0.1:{broker.http_port}",
    }
    command = [sys.executable, EXAMPLES / "python" / f"{name}.py"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_SECS)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()


def by_account(lines: list[str]) -> dict[str, list[str]]:
    """The output for each account, of any worker."""
    return {account: [text for line in lines if (text := said_of(account, line))] for account in ACCOUNTS}


def said_of(account: str, line: str) -> str | None:
    match = re.fullmatch(rf"worker [123], {account}: (.*)", line)
    return match and match[1]


def assert_left_empty(broker: Daemon, queue: str, sessions: list[str] = []):
    """Browsing shows no message in any state, there or among its dead letters; its sessions have no state."""
    places = [{"session_id": session} for session in sessions] or [{}]
    with ServiceBusClient.from_connection_string(broker.connection_string) as client:
        for place in places + [{"sub_queue": ServiceBusSubQueue.DEAD_LETTER}]:
            with client.get_queue_receiver(queue, **place) as receiver:
                assert receiver.peek_messages(10, sequence_number=1) == []
                assert not receiver.session or not receiver.session.get_state()


def test_expiry(broker):
    assert printed("expiry", broker) == SHOWN["expiry"]
    assert_left_empty(broker, "offers")
    broker.advance(hours=1)
    assert printed("expiry", broker) == SHOWN["expiry"], "again, and with a clock of its own"


def test_deferral(broker):
    assert printed("deferral", broker) == SHOWN["deferral"]
    assert_left_empty(broker, "orders", sessions=["order-7"])
    broker.advance(hours=1)
    later = {"number 1": "number 5", "number 3": "number 7"}
    again = [re.sub(r"number \d", lambda match: later[match[0]], line) for line in SHOWN["deferral"]]
    assert printed("deferral", broker) == again, "again, and with a clock of its own"


def test_sessions(broker):
    for _ in range(2):
        lines = printed("sessions", broker)
        assert by_account(lines) == by_account(SHOWN["sessions"])
        assert all(by_account(lines).values())
        assert (len(lines), lines[-1]) == (len(SHOWN["sessions"]), SHOWN["sessions"][-1])
        assert_left_empty(broker, "bookings", sessions=ACCOUNTS)
        broker.advance(hours=1)


def test_routing(broker):
    for _ in range(2):
        assert printed("routing", broker) == SHOWN["routing"]
        with ServiceBusClient.from_connection_string(broker.connection_string) as client:
            for subscription in ("audit", "customs", "dispatch"):
                for place in ({}, {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}):
                    with client.get_subscription_receiver("shipments", subscription, **place) as receiver:
                        assert receiver.peek_messages(10, sequence_number=1) == []


def test_request_reply(broker):
    for _ in range(2):
        assert printed("request_reply", broker) == SHOWN["request_reply"]
        assert_left_empty(broker, "questions")
        with pytest.raises(ServiceBusAuthenticationError):
            assert_left_empty(broker, "answers")
        assert broker.stop() == 0
        broker.start()


def test_every_example_is_here_in_both_languages():
    found = {file.stem for file in (EXAMPLES / "python").glob("*.py")}
    assert found == {file.stem for file in (EXAMPLES / "js").glob("*.mjs")} == SHOWN.keys()
    assert all(f"test_{name}" in globals() for name in found)


def test_they_need_the_versions_that_are_tested():
    needed = (EXAMPLES / "python" / "requirements.txt").read_text().split()
    assert needed and set(needed) <= set((ROOT / "tests/python/requirements.txt").read_text().split())
