"""One broker on PostgreSQL, without another that could take over: what it does while its database fails, and afterwards."""

import concurrent.futures
import contextlib
import json
import re
import shutil
import signal

import postgres
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from nodes import Node

#: Exit code for a store that is damaged or has lost data.
DATA_LOST = 3


@pytest.fixture
def server():
    postgres.require()
    single = postgres.Single()
    yield single.server
    single.close()


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
    with ServiceBusClient.from_connection_string(node.connection_string) as client:
        with client.get_queue_receiver("orders") as receiver:
            assert "accepted" in map(str, receiver.receive_messages(max_message_count=10, max_wait_time=10))
