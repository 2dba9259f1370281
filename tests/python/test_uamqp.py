"""uamqp, the AMQP library of `azure-servicebus` before 7.11, which later versions use on request."""

import os

import pytest
from azure.servicebus import ServiceBusClient

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
