"""Selectors and browsers of Qpid Proton, across SIGKILL and a restart."""

import proton
import pytest
from proton.reactor import Copy, Selector
from proton.utils import BlockingConnection, LinkDetached

from test_proton import IDENTITY, TIMEOUT_SECS

QUEUE = "plain-0"


def connect(daemon):
    return BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY)


def receive(connection, count, *options):
    receiver = connection.create_receiver(QUEUE, credit=count, options=list(options))
    bodies = []
    for _ in range(count):
        bodies.append(receiver.receive(TIMEOUT_SECS).body)
        # Deliveries to a browser are settled.
        if receiver.fetcher.unsettled:
            receiver.accept()
    receiver.close()
    return bodies


def test_messages_are_selected_after_a_restart(own_daemon):
    connection = connect(own_daemon)
    sender = connection.create_sender(QUEUE)
    for size in range(30):
        sender.send(proton.Message(f"{size}", properties={"size": size}))
    own_daemon.kill()
    own_daemon.start()
    connection = connect(own_daemon)
    assert receive(connection, 30, Copy()) == [f"{size}" for size in range(30)]
    assert receive(connection, 3, Selector("size BETWEEN 7 AND 9")) == ["7", "8", "9"]
    assert receive(connection, 27) == [f"{size}" for size in range(30) if size not in (7, 8, 9)]
    connection.close()


def test_a_selector_that_is_not_valid_is_refused(own_daemon):
    connection = connect(own_daemon)
    with pytest.raises(LinkDetached, match="invalid-field"):
        connection.create_receiver(QUEUE, options=Selector("size ="))
    connection.close()
