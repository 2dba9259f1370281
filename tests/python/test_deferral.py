"""Deferred messages: received by their sequence number, by any receiver (S-34 to S-43)."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from bus import DEAD_LETTER, RECEIVE_AND_DELETE, bodies, body, nothing, one, take


async def defer(bus, queue, count: int) -> list[int]:
    """Sends and defers `count` messages, and returns their sequence numbers."""
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(count)])
    async with bus.receiver(queue) as receiver:
        messages = await take(receiver, count)
        for message in messages:
            await receiver.defer_message(message)
    return [message.sequence_number for message in messages]


async def test_any_receiver_gets_them_by_number(bus, queue):
    """S-40, S-41: on another connection, in the requested order."""
    numbers = await defer(bus, queue, 5)
    receiver = await bus.open_receiver(queue)
    messages = await receiver.receive_deferred_messages(numbers)
    assert [m.sequence_number for m in messages] == numbers
    assert bodies(messages) == [b"%d" % n for n in range(5)]
    assert {m.delivery_count for m in messages} == {1}
    assert {m.state.name for m in messages} == {"DEFERRED"}
    for message in messages:
        assert message.lock_token
        assert message.locked_until_utc > message.enqueued_time_utc
        await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_a_single_number(bus, queue):
    (number,) = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(number)
    assert message.sequence_number == number


async def test_receive_and_delete_removes_a_deferred_message(bus, queue):
    numbers = await defer(bus, queue, 2)
    receiver = await bus.open_receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    assert bodies(await receiver.receive_deferred_messages(numbers)) == [b"0", b"1"]
    assert await bus.peek(queue) == []
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages(numbers)


async def test_a_missing_number_fails_the_whole_request(bus, queue):
    numbers = await defer(bus, queue, 3)
    receiver = await bus.open_receiver(queue)
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages([numbers[0], 99_999])
    assert len(await receiver.receive_deferred_messages(numbers)) == 3


async def test_an_active_message_is_not_found_by_number(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages(1)


async def test_a_deferred_message_that_is_locked_is_not_found(bus, queue):
    numbers = await defer(bus, queue, 1)
    holder = await bus.open_receiver(queue)
    await holder.receive_deferred_messages(numbers)
    other = await bus.open_receiver(queue)
    with pytest.raises(MessageNotFoundError):
        await other.receive_deferred_messages(numbers)


@pytest.mark.parametrize("operation", ["abandon", "defer"])
async def test_abandoned_and_deferred_again_it_stays_deferred_and_counts(bus, queue, operation):
    numbers = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(numbers)
    await getattr(receiver, f"{operation}_message")(message)
    assert await nothing(receiver)
    (again,) = await receiver.receive_deferred_messages(numbers)
    assert again.delivery_count == 2
    assert again.lock_token != message.lock_token


async def test_a_deferral_at_the_last_allowed_delivery_dead_letters(bus, queues):
    """azure-service-bus 375: with max_delivery_count = 2 the second deferral moves the message."""
    queue = queues.take("two_tries")
    numbers = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(numbers)
    await receiver.defer_message(message)
    assert await bus.peek(queue) == []
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (dead.dead_letter_reason, dead.delivery_count) == ("MaxDeliveryCountExceeded", 2)
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages(numbers)


async def test_with_one_try_a_deferral_dead_letters(bus, queues):
    queue = queues.take("one_try")
    await defer(bus, queue, 1)
    assert await bus.peek(queue) == []
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


async def test_a_deferred_message_can_be_dead_lettered(bus, queue):
    numbers = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(numbers)
    await receiver.dead_letter_message(message, reason="r", error_description="d")
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason, dead.dead_letter_error_description) == (b"0", "r", "d")


async def test_the_lock_of_a_deferred_message_can_be_renewed(bus, queues):
    queue = queues.take("brief_lock")
    numbers = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(numbers)
    end = message.locked_until_utc
    assert await receiver.renew_message_lock(message) >= end
    await receiver.complete_message(message)


async def test_a_dead_letter_queue_defers_too(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    await receiver.dead_letter_message(await one(receiver))
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    message = await one(dead)
    await dead.defer_message(message)
    assert await nothing(dead)
    (again,) = await dead.receive_deferred_messages(message.sequence_number)
    await dead.complete_message(again)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_unknown_lock_tokens_are_refused_in_management(bus, queue):
    numbers = await defer(bus, queue, 1)
    receiver = await bus.open_receiver(queue)
    (message,) = await receiver.receive_deferred_messages(numbers)
    await receiver.complete_message(message)
    message._settled = False
    with pytest.raises(ServiceBusError):
        await receiver.complete_message(message)
