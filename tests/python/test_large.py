"""Messages of 100 MB, with the default of every setting except their size."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus._pyamqp import _transport
from azure.servicebus.exceptions import MessageSizeExceededError

from bus import DEAD_LETTER, RECEIVE_AND_DELETE
from daemon import entities_text

KILOBYTE = 1024
LARGEST = {"max_message_size_in_kilobytes": 102_400}
#: With what the SDK writes around it, the message has 100 MB.
BODY_BYTES = 102_400 * KILOBYTE - KILOBYTE
#: For tests in which the largest size would only take longer; it exceeds the body cache.
LARGE_BYTES = 40 * KILOBYTE * KILOBYTE
#: Time-out for a message of this size on a busy machine.
PATIENCE_SECS = 120
LOCK = {"lock_duration": "PT5M"}


@pytest.fixture(autouse=True)
def patient_sockets(monkeypatch):
    """The SDK lets the system end a connection that is not read from for a second, which happens on a busy machine."""
    monkeypatch.setitem(_transport.DEFAULT_SOCKET_SETTINGS, "TCP_USER_TIMEOUT", PATIENCE_SECS * 1_000)


def content(number: int, size=LARGE_BYTES) -> bytes:
    """All parts differ, so that exchanged or repeated parts are detected."""
    block = b"".join(position.to_bytes(8, "big") for position in range(1 << 14))
    parts = (number.to_bytes(4, "big") + part.to_bytes(4, "big") + block for part in range(size // len(block) + 1))
    return b"".join(parts)[:size]


def connect(daemon) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(daemon.connection_string, retry_total=0)


def open_sender(client, queue):
    # By default a write may take 0.2 s, which is too short for the SDK's own work on a message of this size.
    return client.get_queue_sender(queue, socket_timeout=PATIENCE_SECS)


def send(client, queue, body):
    with open_sender(client, queue) as sender:
        sender.send_messages(ServiceBusMessage(body))


def body(message) -> bytes:
    return b"".join(message.body)


def receive(client, queue, **options) -> bytes:
    with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE, **options) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=PATIENCE_SECS)
        return body(message)


def test_a_large_message_is_stored_and_received(start_daemon):
    daemon = start_daemon(entities_text({"large": LARGEST}))
    with connect(daemon) as client:
        send(client, "large", content(1, BODY_BYTES))
        daemon.kill()
        daemon.start()
    with connect(daemon) as client:
        assert receive(client, "large") == content(1, BODY_BYTES)
        with open_sender(client, "large") as sender, pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * (BODY_BYTES + 2 * KILOBYTE)))
        with client.get_queue_sender("large") as sender:
            sender.send_messages(ServiceBusMessage(b"after"))
        assert receive(client, "large") == b"after"


def test_a_large_message_is_browsed_deferred_and_dead_lettered_over_restarts(start_daemon):
    daemon = start_daemon(entities_text({"large": LARGEST | LOCK}))
    expected = content(2)
    with connect(daemon) as client:
        send(client, "large", expected)
        with client.get_queue_receiver("large") as receiver:
            (browsed,) = receiver.peek_messages()
            assert body(browsed) == expected
            (message,) = receiver.receive_messages(max_wait_time=PATIENCE_SECS)
            receiver.defer_message(message)
            number = message.sequence_number
    daemon.kill()
    daemon.start()
    with connect(daemon) as client:
        with client.get_queue_receiver("large") as receiver:
            (message,) = receiver.receive_deferred_messages(number)
            assert body(message) == expected
            receiver.dead_letter_message(message, reason="large")
    daemon.kill()
    daemon.start()
    with connect(daemon) as client:
        assert receive(client, "large", sub_queue=DEAD_LETTER) == expected


def test_a_large_message_is_forwarded(start_daemon):
    queues = {"target": LARGEST, "source": LARGEST | {"forward_to": "target"}, "small": {"forward_to": "target"}}
    daemon = start_daemon(entities_text(queues))
    with connect(daemon) as client:
        send(client, "source", content(3))
        assert receive(client, "target") == content(3)
        with client.get_queue_sender("small") as sender, pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * (KILOBYTE * KILOBYTE + 1)))


def test_a_topic_copies_a_large_message_without_its_body(start_daemon):
    subscriptions = [{"name": "one"}, {"name": "two"}]
    daemon = start_daemon(entities_text({}, {"news": LARGEST | {"subscriptions": subscriptions}}))
    with connect(daemon) as client:
        with client.get_topic_sender("news", socket_timeout=PATIENCE_SECS) as sender:
            sender.send_messages(ServiceBusMessage(content(4)))
        for name in ("one", "two"):
            with client.get_subscription_receiver("news", name, receive_mode=RECEIVE_AND_DELETE) as receiver:
                (message,) = receiver.receive_messages(max_wait_time=PATIENCE_SECS)
                assert body(message) == content(4)


def test_a_batch_has_at_most_a_megabyte(start_daemon):
    """As in Service Bus, regardless of the maximum message size."""
    daemon = start_daemon(entities_text({"large": LARGEST}))
    half = b"x" * (500 * KILOBYTE)
    with connect(daemon) as client, client.get_queue_sender("large") as sender:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage(half))
        batch.add_message(ServiceBusMessage(half))
        with pytest.raises(ValueError, match="1048576"):
            batch.add_message(ServiceBusMessage(half))
        sender.send_messages(batch)
        # A list is sent as a batch, also a list of one message.
        for messages in ([ServiceBusMessage(half)] * 3, [ServiceBusMessage(b"x" * (2 * KILOBYTE * KILOBYTE))]):
            with pytest.raises((MessageSizeExceededError, ValueError)):
                sender.send_messages(messages)
        with client.get_queue_receiver("large") as receiver:
            assert len(receiver.receive_messages(10, max_wait_time=PATIENCE_SECS)) == 2
