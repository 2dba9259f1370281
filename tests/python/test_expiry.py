"""Time to live: on the message, by default, as a cap; dropped or dead-lettered (S-1 to S-22)."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, body, nothing, one

HOUR = datetime.timedelta(hours=1)
#: Shorter than the lock of a minute.
BRIEF = datetime.timedelta(seconds=30)


async def expire(bus, queue, traveller):
    """Moves the clock to the end of life of the first message, as the broker announces it."""
    (message, *_) = await bus.peek(queue)
    traveller.advance_to(message.expires_at_utc)


async def test_an_expired_message_is_not_received_and_dropped(bus, queue, traveller):
    """S-4, S-18."""
    await bus.send(queue, ServiceBusMessage(b"short", time_to_live=HOUR), ServiceBusMessage(b"long"))
    await expire(bus, queue, traveller)
    receiver = await bus.open_receiver(queue)
    assert body(await one(receiver)) == b"long"
    assert len(await bus.peek(queue)) == 1
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_an_expired_message_is_dead_lettered(bus, queues, traveller):
    """S-17, S-19, S-22."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"short", message_id="m", time_to_live=HOUR))
    await expire(bus, queue, traveller)
    receiver = await bus.open_receiver(queue)
    assert await nothing(receiver)
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (dead.message_id, body(dead)) == ("m", b"short")
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.application_properties[b"DeadLetterReason"] == b"TTLExpiredException"
    assert dead.dead_letter_error_description == "The message expired and was dead lettered."
    assert await bus.peek(queue) == []


async def test_without_a_receiver_nothing_expires(bus, queues, traveller):
    """S-3: still there, and browsing shows it."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"unheard", time_to_live=HOUR))
    await expire(bus, queue, traveller)
    assert [body(m) for m in await bus.peek(queue)] == [b"unheard"]
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_a_dead_letter_receiver_is_no_listener_of_the_queue(bus, queues, traveller):
    """S-3: only receivers of the queue itself count."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=HOUR))
    await expire(bus, queue, traveller)
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    assert await nothing(dead)
    assert len(await bus.peek(queue)) == 1


@pytest.mark.parametrize("operation", ["complete", "defer", "dead_letter", "renew"])
async def test_a_locked_message_outlives_its_time(bus, queues, operation, traveller):
    """S-5, S-7, S-21."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await expire(bus, queue, traveller)
    if operation == "renew":
        await receiver.renew_message_lock(message)
        operation = "complete"
    await getattr(receiver, f"{operation}_message")(message)
    main = [m.state.name for m in await bus.peek(queue)]
    dead = [m.dead_letter_reason for m in await bus.peek(queue, sub_queue=DEAD_LETTER)]
    assert main == (["DEFERRED"] if operation == "defer" else [])
    assert len(dead) == (1 if operation == "dead_letter" else 0)
    assert "TTLExpiredException" not in dead


async def test_abandoned_after_its_time_it_is_dead_lettered(bus, queues, traveller):
    """S-6, S-20."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await expire(bus, queue, traveller)
    await receiver.abandon_message(message)
    assert await nothing(receiver)
    (dead,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert dead.dead_letter_reason == "TTLExpiredException"


async def test_abandoned_after_its_time_it_is_dropped(bus, queue, traveller):
    """S-6, S-18."""
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await expire(bus, queue, traveller)
    await receiver.abandon_message(message)
    assert await nothing(receiver)
    assert await bus.peek(queue) == []
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_lock_loss_after_its_time_dead_letters_it(bus, queues, traveller):
    """S-6, S-20."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    await one(receiver)
    await expire(bus, queue, traveller)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == [], "S-5: not while it is locked"
    traveller.advance(minutes=1)
    (found,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert found.dead_letter_reason == "TTLExpiredException"
    assert await bus.peek(queue) == []


async def test_a_deferred_message_never_expires(bus, queues, traveller):
    """S-36."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"set aside", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.defer_message(message)
    await expire(bus, queue, traveller)
    assert await nothing(receiver)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []
    (found,) = await receiver.receive_deferred_messages(message.sequence_number)
    assert body(found) == b"set aside"
    await receiver.complete_message(found)


async def test_the_default_applies_when_a_message_sets_none(bus, queues, traveller):
    """S-10, S-12."""
    queue = queues.take("default_ttl")
    await bus.send(queue, ServiceBusMessage(b""))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live == HOUR
    await expire(bus, queue, traveller)
    assert await bus.drain_nothing(queue)
    assert await bus.peek(queue) == []


async def test_the_default_caps_longer_times(bus, queues):
    """S-13: silently reduced; the reduced value is what comes back."""
    queue = queues.take("default_ttl")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=25 * HOUR))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live == HOUR
    assert seen.expires_at_utc == seen.enqueued_time_utc + HOUR


async def test_a_shorter_time_beats_the_default(bus, queues):
    queue = queues.take("default_ttl")
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=BRIEF))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live == BRIEF


async def test_the_default_dead_letters_too(bus, queues, traveller):
    """S-12, S-17."""
    queue = queues.take("default_ttl_dead_letter")
    await bus.send(queue, ServiceBusMessage(b""))
    await expire(bus, queue, traveller)
    assert await bus.drain_nothing(queue)
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert dead.dead_letter_reason == "TTLExpiredException"


async def test_a_tiny_time_to_live_is_accepted(bus, queue):
    """S-8. The SDK rounds down to seconds: this one arrives with a time to live of 0."""
    await bus.send(queue, ServiceBusMessage(b"blink", time_to_live=datetime.timedelta(milliseconds=1)))
    await bus.send(queue, ServiceBusMessage(b"stays"))
    receiver = await bus.open_receiver(queue)
    assert body(await one(receiver)) == b"stays"


async def test_without_a_time_to_live_a_message_does_not_end(bus, queue):
    """S-14, S-15."""
    await bus.send(queue, ServiceBusMessage(b""))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live is None
    assert seen.expires_at_utc is None
