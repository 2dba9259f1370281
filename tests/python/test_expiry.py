"""Time to live: on the message, by default, as a cap; dropped or dead-lettered (S-1 to S-22)."""

import asyncio
import datetime

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError

from bus import DEAD_LETTER, Bus, bodies, body, nothing, one, told_end, until
from daemon import entities_text

HOUR = datetime.timedelta(hours=1)
#: Shorter than the lock of a minute.
BRIEF = datetime.timedelta(seconds=30)


async def expire(bus, queue, traveller):
    """Moves the clock to the expiry of the first message, as sent by the broker."""
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


async def test_a_deferred_message_expires_only_when_it_is_requested(bus, queues, traveller):
    """S-36; azure-sdk-for-net 30252."""
    queue = queues.take("dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"set aside", time_to_live=BRIEF))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.defer_message(message)
    # Its lock ends after its time-to-live, and it is deferred again.
    await receiver.receive_deferred_messages(message.sequence_number)
    traveller.advance(minutes=2)
    assert await nothing(receiver)
    (seen,) = await bus.peek(queue)
    assert seen.state == ServiceBusMessageState.DEFERRED
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages(message.sequence_number)
    assert await bus.peek(queue) == []
    (dead,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"set aside", "TTLExpiredException")


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


async def test_without_a_time_to_live_a_message_does_not_end(bus, queue, traveller):
    """S-14, S-15."""
    await bus.send(queue, ServiceBusMessage(b"old"))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live is None
    assert seen.expires_at_utc is None
    traveller.advance(days=3650)
    assert bodies(await bus.drain(queue, 1)) == [b"old"]


async def test_the_end_of_a_life_is_measured_by_the_brokers_clock(bus, queue, traveller):
    """S-1, S-2: a duration when sent, a time of expiry once enqueued; the SDK's own clock is a day behind."""
    before = traveller.now()
    await bus.send(queue, ServiceBusMessage(b"", time_to_live=HOUR))
    (seen,) = await bus.peek(queue)
    assert seen.time_to_live == HOUR
    assert before <= seen.enqueued_time_utc <= traveller.now()
    assert seen.expires_at_utc == told_end(seen) == seen.enqueued_time_utc + HOUR


async def test_the_least_of_message_topic_and_subscription_counts(bus, topics):
    """S-10, S-12, S-13, S-16."""
    topic = topics.take("topic_ttl")
    asked = [None, 25 * HOUR, 1.5 * HOUR, 0.75 * HOUR, HOUR / 6]
    await bus.send(topic, *(ServiceBusMessage(b"", time_to_live=ttl) for ttl in asked))
    expected = {"none": [60, 60, 60, 45, 10], "shorter": [30, 30, 30, 30, 10], "longer": [60, 60, 60, 45, 10]}
    for name, minutes in expected.items():
        seen = await bus.peek(topic / name)
        lives = [datetime.timedelta(minutes=each) for each in minutes]
        assert [m.time_to_live for m in seen] == lives
        assert [told_end(m) - m.enqueued_time_utc for m in seen] == lives


async def test_copies_expire_each_in_its_subscription(bus, topics, traveller):
    """S-3, S-16 to S-19."""
    topic = topics.take("topic_ttl")
    await bus.send(topic, ServiceBusMessage(b""))

    async def left(*names, **options):
        return [len(await bus.peek(topic / name, **options)) for name in names]

    traveller.advance(minutes=45)
    assert await bus.drain_nothing(topic / "shorter")
    assert await left("none", "shorter", "longer") == [1, 0, 1]
    traveller.advance(hours=1)
    assert await left("none", "longer") == [1, 1], "no receiver"
    for name in ("none", "longer"):
        assert await bus.drain_nothing(topic / name)
    assert await left("none", "longer") == [0, 0]
    assert await left("none", "shorter", "longer", sub_queue=DEAD_LETTER) == [0, 0, 1]
    (dead,) = await bus.peek(topic / "longer", sub_queue=DEAD_LETTER)
    assert dead.dead_letter_reason == "TTLExpiredException"


async def test_on_a_topic_a_scheduled_messages_life_begins_when_it_is_published(bus, topics, traveller):
    """S-9, S-16."""
    topic = topics.take("topic_ttl")
    due = traveller.now() + 10 * HOUR
    await bus.send(topic, ServiceBusMessage(b"", scheduled_enqueue_time_utc=due))
    traveller.advance_to(due)
    (message,) = await bus.drain(topic / "shorter", 1)
    assert message.enqueued_time_utc >= due
    assert message.expires_at_utc == message.enqueued_time_utc + HOUR / 2


async def test_a_changed_default_counts_for_later_messages(flavour, start_daemon):
    """S-11: by the file and a restart."""
    daemon = start_daemon(entities_text({"q": {"default_message_time_to_live": "PT1H"}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("q", ServiceBusMessage(b""))
    daemon.kill()
    daemon.config.write_text(entities_text({"q": {"default_message_time_to_live": "PT2H"}}))
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("q", ServiceBusMessage(b""))
        assert [m.time_to_live for m in await bus.peek("q")] == [HOUR, 2 * HOUR]


async def test_sigkill_during_expiry_leaves_each_message_in_one_place(flavour, start_daemon):
    """S-22: in the queue or in its dead-letter queue, never in both or none."""
    config = entities_text({"q": {"dead_lettering_on_message_expiration": True}})
    daemon = start_daemon(config, time_travel=True)
    sent = [b"%d" % n for n in range(3000)]
    async with Bus(flavour, daemon.connection_string) as bus:
        for start in range(0, 3000, 1000):
            await bus.send("q", [ServiceBusMessage(text, time_to_live=HOUR) for text in sent[start : start + 1000]])
        daemon.advance(hours=2)
        receiver = await bus.open_receiver("q")
        dead = await bus.open_receiver("q", sub_queue=DEAD_LETTER)
        waiting = asyncio.ensure_future(receiver.receive_messages(1, max_wait_time=5))
        await until(lambda: dead.peek_messages(1, sequence_number=1), "the first dead letter")
        daemon.kill()
        await asyncio.wait([waiting])
        assert waiting.exception() or waiting.result() == []
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        found = await bus.peek("q") + await bus.peek("q", sub_queue=DEAD_LETTER)
        assert sorted(bodies(found)) == sorted(sent)
