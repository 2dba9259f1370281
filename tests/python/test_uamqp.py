"""uamqp, the AMQP library of `azure-servicebus` before 7.11, which later versions use on request."""

import os

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageHeader, AmqpMessageProperties

from bus import RECEIVE_AND_DELETE

uamqp = pytest.importorskip("uamqp", reason="uamqp has no wheel for this Python or system")

WAIT_SECS = 20
#: One frame of 64 KiB, several frames, the largest message.
SIZES = [60_000, 100_000, 1_000_000]


@pytest.fixture
def authentication(daemon):
    return uamqp.authentication.SASLPlain(
        "localhost", "RootManageSharedAccessKey", "SAS_KEY_VALUE", port=daemon.amqp_port, verify=daemon.ca
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_many_frames_is_sent_and_received(daemon, queue, authentication, size):
    """uamqp can't encode frames larger than those that it accepts itself, 64 KiB."""
    body = os.urandom(size)
    client = uamqp.SendClient(f"amqps://localhost/{queue}", auth=authentication)
    client.queue_message(uamqp.Message(body))
    assert client.send_all_messages() == [uamqp.constants.MessageState.SendComplete]
    with ServiceBusClient.from_connection_string(daemon.connection_string) as sdk:
        with sdk.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
            (message,) = receiver.receive_messages(max_wait_time=WAIT_SECS)
            assert b"".join(message.body) == body


@pytest.mark.parametrize("batched", [False, True])
def test_annotations_of_every_section_come_back(daemon, queue, batched):
    """azure-sdk-for-python's live test `test_queue_send_amqp_annotated_message`: uamqp writes footer and delivery
    annotations before the body."""
    message = AmqpAnnotatedMessage(
        data_body=b"body",
        header=AmqpMessageHeader(priority=7),
        properties=AmqpMessageProperties(subject="subject"),
        application_properties={"application": 1},
        annotations={"annotation": 2},
        delivery_annotations={"delivery": 3},
        footer={"footer": 4},
    )
    connection = f"Endpoint=sb://localhost:{daemon.amqp_port};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
    with ServiceBusClient.from_connection_string(
        connection,
        uamqp_transport=True,
        custom_endpoint_address=f"sb://localhost:{daemon.amqp_port}",
        connection_verify=daemon.ca,
    ) as sdk:
        with sdk.get_queue_sender(queue) as sender:
            sender.send_messages([message, message] if batched else message)
    with ServiceBusClient.from_connection_string(daemon.connection_string) as sdk:
        with sdk.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
            received = receiver.receive_messages(max_message_count=2, max_wait_time=WAIT_SECS)
    raw = received[0].raw_amqp_message
    assert b"".join(raw.body) == b"body"
    assert (raw.header.priority, raw.properties.subject) == (7, b"subject")
    assert raw.application_properties == {b"application": 1}
    assert raw.annotations[b"annotation"] == 2
    assert raw.delivery_annotations[b"delivery"] == 3
    assert raw.footer == {b"footer": 4}
