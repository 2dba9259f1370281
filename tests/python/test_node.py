"""Brokers on PostgreSQL while the database fails, and on one that has lost accepted messages."""

import concurrent.futures
import contextlib
import json
import signal
import subprocess

import postgres
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusServerBusyError
from nodes import Node

#: Exit code for a store that is damaged or has lost data.
DATA_LOST = 3


@pytest.fixture
def server():
    postgres.require()
    with contextlib.closing(postgres.Single()) as single:
        yield single.server


@pytest.fixture
def node(server):
    node = Node(server.url(server.create_database()), "a")
    node.launch()
    postgres.until(node.is_ready, "it serves")
    yield node
    assert node.panics() == []
    node.close()


def send(node: Node, *texts: str):
    with ServiceBusClient.from_connection_string(node.connection_string, retry_total=0) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage(text) for text in texts])


def received(node: Node) -> list[str]:
    with ServiceBusClient.from_connection_string(node.connection_string) as client:
        with client.get_queue_receiver("orders") as receiver:
            return [str(message) for message in receiver.receive_messages(max_message_count=10, max_wait_time=10)]


def health(node: Node) -> tuple[int, dict]:
    status, text = node.get("/health/ready")
    return status, json.loads(text)


@contextlib.contextmanager
def pending_send(node: Node):
    """A send that is not answered within `with`, and may fail after it."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, node, "pending")
        yield sent
        with contextlib.suppress(ServiceBusError):
            sent.result(timeout=postgres.PATIENCE_SECS)


def test_a_lone_node_ends_though_its_database_does_not_answer(node, server):
    """Nobody else could finish for it: the next start decides what is stored."""
    send(node, "accepted")
    server.pause()
    try:
        with pending_send(node):
            postgres.until(lambda: "connection dropped" in node.log.read_text(), "the append is in doubt")
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(timeout=40) == 0
    finally:
        server.resume()
    assert "some requests could not be answered" in node.log.read_text()
    node.launch()
    postgres.until(node.is_ready, "it serves again")
    assert "accepted" in received(node)


def test_a_log_that_can_not_be_written_for_long_is_reported_and_refuses_sends(node, server):
    """The leases are renewed, so the node serves on. At first sends wait, as during a fail-over of the database."""
    (database,) = server.sql("select datname from pg_database where datname like 'test_%'").splitlines()
    server.sql(f"alter table peeklock.log owner to {postgres.ADMINISTRATOR}", database)
    failing = {"status": "ready", "degraded": True, "sends_refused": "storage failing"}
    with pending_send(node) as sent:
        postgres.until(lambda: "sends and settlements wait" in node.log.read_text(), "the failure is logged")
        assert health(node) == (200, {"status": "ready"})
        postgres.until(lambda: health(node) == (200, failing), "the failure is reported")
        with pytest.raises(ServiceBusServerBusyError):
            send(node, "refused")
        server.sql(f"alter table peeklock.log owner to {postgres.ROLE}", database)
        postgres.until(lambda: health(node) == (200, {"status": "ready"}), "the end is reported")
        sent.result(timeout=postgres.PATIENCE_SECS)
    send(node, "accepted")


def known_record(node: Node) -> int:
    """The number of the last record that the node knows to be durable; 0 without one."""
    lines = (line.split() for line in node.get("/metrics")[1].splitlines())
    return next((int(line[1]) for line in lines if line[:1] == ["peeklock_cluster_known_record"]), 0)


class Backup:
    """A copy of a server's data, which then replaces the data, as a careless restore does."""

    def __init__(self, server: postgres.Server):
        self.server = server
        self.copy = server.path / "backup"
        server.stop()
        subprocess.run(["cp", "-a", server.data, self.copy], check=True)
        server.start()

    def restore(self):
        self.server.stop()
        self.server.data.rename(self.server.path / "lost")
        self.copy.rename(self.server.data)
        self.server.start()


def test_a_node_whose_database_lost_accepted_messages_ends_and_a_restart_takes_what_is_there(node, server):
    send(node, "kept")
    backup = Backup(server)
    postgres.until(lambda: sends(node), "it is connected again")
    backup.restore()
    with pending_send(node):
        assert node.process.wait(timeout=postgres.PATIENCE_SECS) == DATA_LOST
    assert "was acknowledged, and the log has lost it" in node.log.read_text()
    node.launch()
    postgres.until(node.is_ready, "it serves what is there")
    assert received(node) == ["kept"]


def sends(node: Node) -> bool:
    with contextlib.suppress(ServiceBusError):
        send(node, "lost")
        return True
    return False


def test_a_standby_does_not_take_over_from_a_database_that_lost_what_it_has_seen(node, server):
    """The node that accepted the messages is gone, so nobody else could notice."""
    standby = Node(node.environment["PEEKLOCK_STORAGE_URL"], "b")
    standby.launch()
    try:
        send(node, "kept")
        backup = Backup(server)
        postgres.until(lambda: sends(node), "it is connected again")
        accepted = known_record(node)
        postgres.until(lambda: known_record(standby) >= accepted, "the standby has seen the accepted messages")
        node.kill()
        backup.restore()
        assert standby.process.wait(timeout=postgres.PATIENCE_SECS) == DATA_LOST
        assert "was acknowledged, and the log has lost it" in standby.log.read_text()
        standby.launch()
        postgres.until(standby.is_ready, "it serves what is there")
        assert received(standby) == ["kept"]
    finally:
        standby.close()
