"""Lock renewal and lock loss."""

import asyncio
import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from bus import DEAD_LETTER, body, nothing, one, take

UTC = datetime.timezone.utc
SECOND = datetime.timedelta(seconds=1)


async def test_a_lock_lasts_as_long_as_the_queue_says(bus, queues):
    queue = queues.take("brief_lock")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    before = datetime.datetime.now(UTC)
    message = await one(receiver)
    after = datetime.datetime.now(UTC)
    assert before + 4 * SECOND < message.locked_until_utc < after + 6 * SECOND


async def test_renewing_moves_the_end_of_the_lock(bus, queue, traveller):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    first_end = message.locked_until_utc
    moved = traveller.advance(seconds=30)
    renewed = await receiver.renew_message_lock(message)
    assert renewed == message.locked_until_utc
    assert renewed > first_end
    # Not additive: from the renewal, not from the old end.
    assert moved + 60 * SECOND <= renewed <= traveller.now() + 60 * SECOND
    await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_a_renewed_message_outlives_its_first_lock(bus, queue, traveller):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    message = await one(receiver)
    for _ in range(3):
        traveller.advance(seconds=40)
        await receiver.renew_message_lock(message)
    assert await nothing(other)
    await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_another_connection_may_renew(bus, queue, traveller):
    await bus.send(queue, ServiceBusMessage(b""))
    holder = await bus.open_receiver(queue)
    message = await one(holder)
    first_end = message.locked_until_utc
    other = await bus.open_receiver(queue)
    traveller.advance(seconds=1)
    assert await other.renew_message_lock(message) > first_end


async def test_the_auto_renewer_keeps_a_message(bus, queues):
    """In real time: the renewer uses the client's clock to determine when a lock is about to end."""
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


async def test_a_lost_lock_counts_and_frees_the_message(bus, queue, traveller):
    await bus.send(queue, ServiceBusMessage(b"slow"))
    receiver = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    message = await one(receiver)
    traveller.advance(minutes=1)
    again = await one(other)
    assert (body(again), again.delivery_count) == (b"slow", 1)
    assert again.sequence_number == message.sequence_number
    assert again.lock_token != message.lock_token
    await other.complete_message(again)
    assert await bus.peek(queue) == []


@pytest.mark.parametrize("operation", ["complete", "abandon", "defer", "dead_letter"])
async def test_settling_with_a_lost_lock_fails_on_the_link(bus, queue, traveller, operation):
    """The broker decides: by the SDK's own clock the lock lasts for another day."""
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    traveller.advance(minutes=1)
    assert not message._lock_expired
    with pytest.raises(MessageLockLostError):
        await getattr(receiver, f"{operation}_message")(message)
    (kept,) = await bus.peek(queue)
    assert kept.state.name == "ACTIVE"


@pytest.mark.parametrize("operation", ["complete", "renew"])
async def test_a_lost_lock_fails_in_management_too(bus, queue, traveller, operation):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    traveller.advance(minutes=1)
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


async def test_lost_locks_use_up_the_tries(bus, queues, traveller):
    queue = queues.take("two_tries")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    await one(receiver)
    traveller.advance(minutes=1)
    last = await one(receiver)
    assert last.delivery_count == 1
    traveller.advance(minutes=1)
    (found,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert found.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert await bus.peek(queue) == []


async def test_hundreds_of_renewals_at_once(bus, queues):
    """As a lock renewer does it: the blocking client's threads share a link without a lock, so that several
    requests have the same delivery-id. They also break each other's connections occasionally, and each attempt begins
    again; on a busy machine that takes more than the usual minute."""
    queue = queues.take("long_lock")
    await bus.send(queue, [ServiceBusMessage(b"") for _ in range(300)])
    receiver = await bus.open_receiver(queue)
    messages = await take(receiver, 300)
    threads = asyncio.Semaphore(5)

    async def renew(message):
        async with threads:
            first_end = message.locked_until_utc
            assert await receiver.renew_message_lock(message) >= first_end

    for _ in range(2):
        await asyncio.gather(*map(renew, messages))
    for message in messages:
        await receiver.complete_message(message)
    assert await bus.peek(queue) == []
