"""A database on a full disk: sends are refused, waiting messages are received and completed, and then sends are accepted again."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import postgres
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError
from daemon import Daemon

DISK_BYTES = 64 << 20
BODY_BYTES = 250_000
CONFIG = """
[storage]
engine = "postgres"
url = "{url}"
durability = "service"

[[queues]]
name = "orders"
"""


@contextlib.contextmanager
def small_disk():
    """A directory on a file system of its own; the test is skipped where none can be mounted."""
    with tempfile.TemporaryDirectory(prefix="peeklock-disk-") as path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", path]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as missing:
            pytest.skip(f"no file system can be mounted: {missing}")
        except subprocess.CalledProcessError as refused:
            pytest.skip(f"no file system can be mounted: {refused.stderr.strip()}")
        try:
            yield pathlib.Path(path)
        finally:
            subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture
def url():
    """The URL of a database whose tables are on a small disk, but not the server's log."""
    postgres.require()
    with small_disk() as disk:
        # The broker itself frees the space of deleted rows.
        single = postgres.Single({"autovacuum": "off"})
        try:
            space = disk / "space"
            space.mkdir()
            if owner := postgres.account():
                os.chown(space, owner["user"], owner["group"])
            single.server.sql(f"create tablespace small location '{space}'")
            name = single.server.create_database()
            single.server.sql(f"alter database {name} set tablespace small")
            yield single.server.url(name)
        finally:
            single.close()


def send_until_refused(sender) -> list[str]:
    """The ids that were accepted."""
    accepted = []
    with pytest.raises(ServiceBusQuotaExceededError):
        while len(accepted) * BODY_BYTES < DISK_BYTES:
            name = str(len(accepted))
            sender.send_messages(ServiceBusMessage(os.urandom(BODY_BYTES), message_id=name))
            accepted.append(name)
    return accepted


def receive_all(client, count: int) -> list[str]:
    ids = []
    with client.get_queue_receiver("orders") as receiver:
        while len(ids) < count and (batch := receiver.receive_messages(10, max_wait_time=30)):
            for message in batch:
                receiver.complete_message(message)
                ids.append(message.message_id)
    return ids


@pytest.mark.timeout(300)
def test_a_full_disk_refuses_sends_takes_settlements_and_recovers(url):
    daemon = Daemon(CONFIG.format(url=url), environment={"PEEKLOCK_STORAGE_URL": url}).start()
    try:
        with ServiceBusClient.from_connection_string(daemon.connection_string, retry_total=0) as client:
            for _ in range(2):
                with client.get_queue_sender("orders") as sender:
                    accepted = send_until_refused(sender)
                    assert len(accepted) * BODY_BYTES > DISK_BYTES / 3
                    with pytest.raises(ServiceBusQuotaExceededError):
                        sender.send_messages(ServiceBusMessage("one more"))
                assert sorted(receive_all(client, len(accepted)), key=int) == accepted
                postgres.until(lambda: sends_again(client), "a message is accepted again")
                assert receive_all(client, 1) == ["again"]
    finally:
        daemon.close()


def sends_again(client) -> bool:
    with client.get_queue_sender("orders") as sender, contextlib.suppress(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage("x", message_id="again"))
        return True
    return False
