"""Refusals are reported by the SDK's own exception types, and nothing else is affected."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from bus import RECEIVE_AND_DELETE, bodies, nothing, one

UNKNOWN = "no-such-queue"

# An unknown queue is reported by the answer 404 to its token, for which the SDK raises a ServiceBusAuthenticationError.


async def test_sending_to_an_unknown_queue(bus):
    async with bus.new_client() as client:
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_sender(UNKNOWN) as sender:
                await sender.send_messages(ServiceBusMessage(b""))


@pytest.mark.parametrize("sub_queue", [None, ServiceBusSubQueue.DEAD_LETTER])
async def test_receiving_from_an_unknown_queue(bus, sub_queue):
    async with bus.new_client() as client:
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_receiver(UNKNOWN, sub_queue=sub_queue) as receiver:
                await receiver.receive_messages(1, max_wait_time=1)


async def test_browsing_an_unknown_queue(bus):
    async with bus.new_client() as client:
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_receiver(UNKNOWN) as receiver:
                await receiver.peek_messages(1)


async def test_a_session_receiver_on_a_plain_queue(bus, queue):
    async with bus.new_client(retry_total=0) as client:
        with pytest.raises(ServiceBusError) as error:
            async with client.get_queue_receiver(queue, session_id="s") as receiver:
                await receiver.receive_messages(1, max_wait_time=1)
    assert "session" in str(error.value).lower()


@pytest.mark.parametrize("size_mb", [2, 20])
async def test_a_message_that_is_too_large(bus, queue, size_mb):
    sender = await bus.open_sender(queue)
    with pytest.raises(MessageSizeExceededError):
        await sender.send_messages(ServiceBusMessage(b"x" * (size_mb * 1024 * 1024)))
    assert await bus.peek(queue) == []
    # The same sender continues.
    await sender.send_messages(ServiceBusMessage(b"small"))
    assert bodies(await bus.drain(queue, 1)) == [b"small"]


async def test_a_list_that_is_too_large(bus, queue):
    sender = await bus.open_sender(queue)
    with pytest.raises(MessageSizeExceededError):
        await sender.send_messages([ServiceBusMessage(b"x" * 300_000) for _ in range(10)])
    assert await bus.peek(queue) == []


async def test_an_error_harms_no_neighbour(bus, queue):
    receiver = await bus.open_receiver(queue)
    sender = await bus.open_sender(queue)
    for _ in range(3):
        with pytest.raises(ServiceBusAuthenticationError):
            await bus.send(UNKNOWN, ServiceBusMessage(b""))
    await sender.send_messages(ServiceBusMessage(b"fine"))
    await receiver.complete_message(await one(receiver))
    assert await nothing(receiver)


async def test_receive_and_delete_messages_have_no_lock_to_renew(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    message = await one(receiver)
    with pytest.raises(ValueError):
        await receiver.renew_message_lock(message)
