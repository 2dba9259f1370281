"""Lock renewal and lock loss. The shortest lock lasts five seconds of real time."""

import asyncio
import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from bus import DEAD_LETTER, body, nothing, one, until

UTC = datetime.timezone.utc


async def lock_has_ended(message):
    """Awaits the end of the lock as the broker announced it."""
    end = message.locked_until_utc
    await asyncio.sleep(max(0, (end - datetime.datetime.now(UTC)).total_seconds()) + 0.2)


async def test_a_lock_lasts_as_long_as_the_queue_says(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    before = datetime.datetime.now(UTC)
    message = await one(receiver)
    after = datetime.datetime.now(UTC)
    second = datetime.timedelta(seconds=1)
    assert before + 4 * second < message.locked_until_utc < after + 6 * second


async def test_renewing_moves_the_end_of_the_lock(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    first_end = message.locked_until_utc
    await asyncio.sleep(1.5)
    renewed = await receiver.renew_message_lock(message)
    assert renewed == message.locked_until_utc
    assert renewed > first_end
    # Not additive: from the renewal, not from the old end.
    assert renewed < datetime.datetime.now(UTC) + datetime.timedelta(seconds=6)
    await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_a_renewed_message_outlives_its_first_lock(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    message = await one(receiver)
    first_end = message.locked_until_utc
    while datetime.datetime.now(UTC) < first_end + datetime.timedelta(seconds=1):
        await asyncio.sleep(1)
        await receiver.renew_message_lock(message)
    assert await nothing(other)
    await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_another_connection_may_renew(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    holder = await bus.open_receiver(queue)
    message = await one(holder)
    first_end = message.locked_until_utc
    other = await bus.open_receiver(queue)
    await asyncio.sleep(0.1)
    assert await other.renew_message_lock(message) > first_end


async def test_the_auto_renewer_keeps_a_message(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    renewer = bus.lock_renewer(max_lock_renewal_duration=60)
    message = await one(receiver)
    first_end = message.locked_until_utc
    renewer.register(receiver, message, max_lock_renewal_duration=60)
    while datetime.datetime.now(UTC) < first_end + datetime.timedelta(seconds=1):
        assert await nothing(other)
    assert message.auto_renew_error is None
    assert message.locked_until_utc > first_end
    await receiver.complete_message(message)
    await renewer.close()
    assert await bus.peek(queue) == []


async def test_a_lost_lock_counts_and_frees_the_message(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b"slow"))
    receiver = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    message = await one(receiver)
    again = await one(other)
    assert (body(again), again.delivery_count) == (b"slow", 1)
    assert again.sequence_number == message.sequence_number
    assert again.lock_token != message.lock_token
    await other.complete_message(again)
    assert await bus.peek(queue) == []


@pytest.mark.parametrize("operation", ["complete", "abandon", "defer", "dead_letter"])
async def test_settling_with_a_lost_lock_fails_on_the_link(bus, queues, operation):
    """The broker is asked: the SDK's own check of the clock is put aside."""
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await lock_has_ended(message)
    message._expiry = datetime.datetime.now(UTC) + datetime.timedelta(hours=1)
    with pytest.raises(MessageLockLostError):
        await getattr(receiver, f"{operation}_message")(message)
    (kept,) = await bus.peek(queue)
    assert kept.state.name == "ACTIVE"


@pytest.mark.parametrize("operation", ["complete", "renew"])
async def test_a_lost_lock_fails_in_management_too(bus, queues, operation):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await lock_has_ended(message)
    message._expiry = datetime.datetime.now(UTC) + datetime.timedelta(hours=1)
    other = await bus.open_receiver(queue)
    with pytest.raises(MessageLockLostError):
        if operation == "renew":
            await other.renew_message_lock(message)
        else:
            await other.complete_message(message)
    assert len(await bus.peek(queue)) == 1


async def test_renewing_a_settled_message_elsewhere_fails(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.complete_message(message)
    message._settled = False
    with pytest.raises(MessageLockLostError):
        await receiver.renew_message_lock(message)


async def test_lost_locks_use_up_the_tries(bus, queues):
    queue = queues.take("brief_lock_two_tries")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    await one(receiver)
    last = await one(receiver)
    assert last.delivery_count == 1

    async def dead():
        return await bus.peek(queue, sub_queue=DEAD_LETTER)

    (found,) = await until(dead, "the dead-lettered message")
    assert found.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert await bus.peek(queue) == []
