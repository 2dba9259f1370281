"""`peeklock store backup` of a running broker and `store restore`, as the SDK sees the outcome."""

import json
import subprocess

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from daemon import Daemon, binary, entities_text

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("a backup of its files")

CONFIG = entities_text({"orders": {}}, {"news": {"subscriptions": [{"name": "all"}]}})


def store(command: str, daemon: Daemon, directory) -> dict:
    """Runs `peeklock store backup` or `restore` on the data directory of `daemon`, and returns its report."""
    arguments = [binary(), "store", command, "--json", "--data-dir", daemon.path / "data", directory]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)


def client(daemon: Daemon) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(daemon.connection_string)


def received(receiver, count: int) -> list:
    messages = []
    while len(messages) < count:
        batch = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=30)
        assert batch, f"only {len(messages)} of {count} came"
        messages += batch
    return messages


@pytest.fixture
def pair():
    """A daemon, and one that has not been started."""
    daemons = Daemon(CONFIG).start(), Daemon(CONFIG)
    yield daemons
    for daemon in daemons:
        daemon.close()


def test_messages_completed_after_the_backup_return(pair):
    running, restored = pair
    with client(running) as sdk, sdk.get_queue_sender("orders") as orders, sdk.get_topic_sender("news") as news:
        orders.send_messages([ServiceBusMessage(str(number), message_id=str(number)) for number in range(100)])
        news.send_messages([ServiceBusMessage(str(number)) for number in range(10)])
        report = store("backup", running, running.path / "backup")
        assert report["running"] and report["complete"]
        with sdk.get_queue_receiver("orders") as receiver:
            for message in received(receiver, 50):
                receiver.complete_message(message)
        orders.send_messages(ServiceBusMessage("later"))
    report = store("restore", restored, running.path / "backup")
    assert (report["entities"], report["messages"]) == (2, 120 - 10)
    restored.start()
    with client(restored) as sdk:
        with sdk.get_queue_receiver("orders") as receiver:
            messages = received(receiver, 100)
            assert [str(message) for message in messages] == [str(number) for number in range(100)]
            assert [message.sequence_number for message in messages] == list(range(1, 101))
            assert receiver.peek_messages(sequence_number=101) == []
        with sdk.get_subscription_receiver("news", "all") as receiver:
            assert [str(message) for message in received(receiver, 10)] == [str(number) for number in range(10)]
