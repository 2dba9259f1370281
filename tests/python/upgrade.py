"""A data directory with data of every kind, written by one version of the broker and verified with another.

To write one with a released binary, which no later version may fail to open:

    PEEKLOCK_BIN=path/to/peeklock python upgrade.py ../fixtures/broker-VERSION
"""

import datetime
import pathlib
import shutil
import signal
import sys

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from daemon import Daemon, entities_text

#: As small as segments may be; the zeros at their ends are left out of a fixture.
SEGMENT_BYTES = 1 << 20
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
#: Far enough away for every run of the tests.
SCHEDULED = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)

SUBSCRIPTIONS = [
    {"name": "all"},
    {"name": "red", "rules": [{"name": "red", "correlation": {"label": "red"}}]},
    {"name": "large", "rules": [{"name": "large", "sql": "size > 5", "action": "SET grade = 'A'"}]},
]
CONFIG = '[storage]\nsegment_size = "1 MiB"\nreserve = "1 MiB"\n' + entities_text(
    {
        "plain": {"max_delivery_count": 7},
        "baskets": {"requires_session": True},
        "once": {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "P7D"},
    },
    {"news": {"subscriptions": SUBSCRIPTIONS}},
)
#: The configuration of a later version: it declares nothing, so that all entities must come from the directory.
UNDECLARED = '[storage]\nsegment_size = "1 MiB"\nreserve = "1 MiB"\n'


def client(daemon: Daemon) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(daemon.connection_string)


def received(receiver, count: int) -> list:
    messages = []
    while len(messages) < count:
        batch = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=30)
        assert batch, f"only {len(messages)} of {count} came"
        messages += batch
    return messages


def fill(daemon: Daemon):
    """Creates data of every kind."""
    with client(daemon) as sdk:
        with sdk.get_queue_sender("plain") as sender:
            for name in ("deferred", "dead", "abandoned", "waiting", "completed"):
                properties = {"name": name, "number": 7}
                sender.send_messages(
                    ServiceBusMessage(name, message_id=name, subject="s", application_properties=properties)
                )
            sender.schedule_messages(ServiceBusMessage("scheduled"), SCHEDULED)
            sender.send_messages(ServiceBusMessage("x" * 30_000, message_id="large"))
        with sdk.get_queue_receiver("plain") as receiver:
            deferred, dead, abandoned, _, completed, _ = received(receiver, 6)
            receiver.defer_message(deferred)
            receiver.dead_letter_message(dead, reason="unusable", error_description="as a test")
            receiver.abandon_message(abandoned)
            receiver.complete_message(completed)
        with sdk.get_queue_sender("baskets") as sender:
            for session, name in (("a", "a1"), ("a", "a2"), ("b", "b1")):
                sender.send_messages(ServiceBusMessage(name, session_id=session))
        with sdk.get_queue_receiver("baskets", session_id="a") as receiver:
            receiver.session.set_state(b"state of a")
        with sdk.get_queue_sender("once") as sender:
            for _ in range(3):
                sender.send_messages(ServiceBusMessage("once", message_id="once"))
        with sdk.get_topic_sender("news") as sender:
            for subject, size in (("red", 1), ("blue", 9), ("red", 9)):
                properties = {"size": size}
                sender.send_messages(ServiceBusMessage(subject, subject=subject, application_properties=properties))


def verify(daemon: Daemon):
    """Checks all data of `fill`, and uses it."""
    with client(daemon) as sdk:
        verify_plain(sdk)
        for session, names in (("a", ["a1", "a2"]), ("b", ["b1"])):
            with sdk.get_queue_receiver("baskets", session_id=session) as receiver:
                assert receiver.session.get_state() == (b"state of a" if session == "a" else None)
                assert [str(message) for message in received(receiver, len(names))] == names
        with sdk.get_queue_receiver("once") as receiver:
            assert [str(message) for message in receiver.peek_messages(10)] == ["once"]
        copies = {"all": ["red", "blue", "red"], "red": ["red", "red"], "large": ["blue", "red"]}
        for name, subjects in copies.items():
            with sdk.get_subscription_receiver("news", name) as receiver:
                messages = received(receiver, len(subjects))
                assert [message.subject for message in messages] == subjects
                grades = [message.application_properties.get(b"grade") for message in messages]
                assert grades == [b"A" if name == "large" else None] * len(subjects)
        # The rules apply to new messages.
        with sdk.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("new", subject="blue", application_properties={"size": 6}))
        with sdk.get_subscription_receiver("news", "large") as receiver:
            assert receiver.peek_messages(10)[-1].application_properties[b"grade"] == b"A"
        with sdk.get_subscription_receiver("news", "red") as receiver:
            assert len(receiver.peek_messages(10)) == 2


def verify_plain(sdk: ServiceBusClient):
    with sdk.get_queue_receiver("plain") as receiver:
        shown = {str(message)[:9]: message for message in receiver.peek_messages(20)}
        assert sorted(shown) == ["abandoned", "deferred", "scheduled", "waiting", "xxxxxxxxx"]
        assert shown["scheduled"].scheduled_enqueue_time_utc == SCHEDULED
        number = shown["deferred"].sequence_number
        (deferred,) = receiver.receive_deferred_messages([number])
        assert str(deferred) == "deferred" and deferred.application_properties == {b"name": b"deferred", b"number": 7}
        messages = {str(message)[:9]: message for message in received(receiver, 3)}
        assert len(str(messages["xxxxxxxxx"])) == 30_000
        assert messages["abandoned"].delivery_count == 1
        for message in [deferred, *messages.values()]:
            receiver.complete_message(message)
        assert [str(message) for message in receiver.peek_messages(20, sequence_number=1)] == ["scheduled"]
    with sdk.get_queue_receiver("plain", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (dead,) = received(receiver, 1)
        assert (str(dead), dead.dead_letter_reason) == ("dead", "unusable")


def save(data: pathlib.Path, fixture: pathlib.Path):
    """Copies the relevant files of a data directory, without the zeros at the ends of segments."""
    fixture.mkdir(parents=True)
    for file in data.iterdir():
        if file.suffix in (".segment", ".hint") or file.name == "MANIFEST":
            content = file.read_bytes()
            (fixture / file.name).write_bytes(content.rstrip(b"\0") if file.suffix == ".segment" else content)


def unpack(fixture: pathlib.Path, data: pathlib.Path):
    """Creates a data directory from a fixture."""
    shutil.copytree(fixture, data)
    for file in data.glob("*.segment"):
        file.write_bytes(file.read_bytes().ljust(SEGMENT_BYTES, b"\0"))


def main():
    daemon = Daemon(CONFIG).start()
    fill(daemon)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait(60)
    save(daemon.path / "data", pathlib.Path(sys.argv[1]))
    daemon.close()


if __name__ == "__main__":
    main()
