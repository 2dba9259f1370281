"""Scheduled messages: numbers, activation, cancelling, browsing."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError

from bus import Bus, bodies, body, nothing, one, told_end
from daemon import entities_text

UTC = datetime.timezone.utc


def from_now(seconds: float) -> datetime.datetime:
    moment = datetime.datetime.now(UTC) + datetime.timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def hours_ahead(traveller, hours: float) -> datetime.datetime:
    """By the daemon's clock, which is far ahead of the client's."""
    return traveller.now() + datetime.timedelta(hours=hours)


async def test_scheduling_returns_a_number_for_each_message(bus, queue):
    async with bus.sender(queue) as sender:
        numbers = await sender.schedule_messages([ServiceBusMessage(f"{n}") for n in range(5)], from_now(600))
        (single,) = await sender.schedule_messages(ServiceBusMessage(b"one"), from_now(600))
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 5
    assert single > numbers[-1]
    seen = await bus.peek(queue)
    assert [m.sequence_number for m in seen] == [*numbers, single]
    assert {m.state.name for m in seen} == {"SCHEDULED"}


async def test_a_scheduled_message_comes_at_its_time_with_a_new_number(bus, queue, traveller):
    when = hours_ahead(traveller, 1)
    async with bus.sender(queue) as sender:
        (number,) = await sender.schedule_messages(ServiceBusMessage(b"due", message_id="id"), when)
    receiver = await bus.open_receiver(queue)
    assert await nothing(receiver)
    traveller.advance_to(when)
    message = await one(receiver)
    assert (body(message), message.message_id) == (b"due", "id")
    assert message.sequence_number > number
    assert message.enqueued_time_utc >= when
    assert message.scheduled_enqueue_time_utc == when
    assert (message.delivery_count, message.state.name) == (0, "SCHEDULED")
    await receiver.complete_message(message)


async def test_a_message_that_carries_its_time_is_scheduled(bus, queue, traveller):
    when = hours_ahead(traveller, 1)
    await bus.send(queue, ServiceBusMessage(b"carried", scheduled_enqueue_time_utc=when))
    receiver = await bus.open_receiver(queue)
    assert await nothing(receiver)
    traveller.advance_to(when)
    message = await one(receiver)
    assert body(message) == b"carried"
    assert message.enqueued_time_utc >= when


async def test_a_batch_of_scheduled_messages(bus, queue, traveller):
    when = hours_ahead(traveller, 1)
    await bus.send(queue, [ServiceBusMessage(f"{n}", scheduled_enqueue_time_utc=when) for n in range(5)])
    traveller.advance_to(when)
    messages = await bus.drain(queue, 5)
    assert bodies(messages) == [b"%d" % n for n in range(5)]
    assert all(m.enqueued_time_utc >= when for m in messages)


async def test_messages_come_in_the_order_of_their_times(bus, queue, traveller):
    async with bus.sender(queue) as sender:
        await sender.schedule_messages(ServiceBusMessage(b"second"), hours_ahead(traveller, 3))
        await sender.schedule_messages(ServiceBusMessage(b"first"), hours_ahead(traveller, 2))
    traveller.advance(hours=4)
    assert bodies(await bus.drain(queue, 2)) == [b"first", b"second"]


async def test_a_time_in_the_past_means_now(bus, queue):
    async with bus.sender(queue) as sender:
        await sender.schedule_messages(ServiceBusMessage(b"late"), from_now(-600))
    assert bodies(await bus.drain(queue, 1)) == [b"late"]


async def test_a_cancelled_message_never_comes(bus, queue, traveller):
    async with bus.sender(queue) as sender:
        when = hours_ahead(traveller, 1)
        numbers = await sender.schedule_messages([ServiceBusMessage(f"{n}") for n in range(3)], when)
        await sender.cancel_scheduled_messages(numbers[1])
        traveller.advance_to(when)
        assert bodies(await bus.drain(queue, 2)) == [b"0", b"2"]
        await sender.send_messages(ServiceBusMessage(b"after"))
    assert bodies(await bus.drain(queue, 1)) == [b"after"]


async def test_cancelling_several(bus, queue):
    async with bus.sender(queue) as sender:
        numbers = await sender.schedule_messages([ServiceBusMessage(f"{n}") for n in range(3)], from_now(600))
        await sender.cancel_scheduled_messages(numbers)
    assert await bus.peek(queue) == []


async def test_cancelling_an_unknown_number_fails(bus, queue):
    async with bus.sender(queue) as sender:
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(4711)


async def test_cancelling_is_all_or_nothing(bus, queue):
    async with bus.sender(queue) as sender:
        numbers = await sender.schedule_messages([ServiceBusMessage(b"")], from_now(600))
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages([*numbers, 4711])
    assert [m.sequence_number for m in await bus.peek(queue)] == numbers


async def test_an_active_message_cannot_be_cancelled(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    async with bus.sender(queue) as sender:
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(1)
    assert len(await bus.peek(queue)) == 1


async def test_the_old_number_is_dead_after_activation(bus, queue, traveller):
    async with bus.sender(queue) as sender:
        (number,) = await sender.schedule_messages(ServiceBusMessage(b""), hours_ahead(traveller, 1))
        receiver = await bus.open_receiver(queue)
        traveller.advance(hours=1)
        message = await one(receiver)
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(number)
        with pytest.raises(MessageNotFoundError):
            await receiver.receive_deferred_messages(number)
        await receiver.complete_message(message)


async def test_time_to_live_counts_from_activation(bus, queue, traveller):
    """S-9."""
    when = hours_ahead(traveller, 1)
    ttl = datetime.timedelta(minutes=5)
    async with bus.sender(queue) as sender:
        await sender.schedule_messages(ServiceBusMessage(b"", time_to_live=ttl), when)
    (waiting,) = await bus.peek(queue)
    assert told_end(waiting) == when + ttl
    traveller.advance_to(when)
    (message,) = await bus.drain(queue, 1)
    assert message.expires_at_utc >= when + ttl
    assert message.expires_at_utc == message.enqueued_time_utc + ttl


async def test_a_scheduled_message_outlives_a_shorter_time_to_live(bus, queue, traveller):
    """S-9: a time to live of half a minute does not run while the message waits for an hour."""
    ttl = datetime.timedelta(seconds=30)
    async with bus.sender(queue) as sender:
        await sender.schedule_messages(ServiceBusMessage(b"", time_to_live=ttl), hours_ahead(traveller, 1))
    receiver = await bus.open_receiver(queue)
    traveller.advance(minutes=59)
    assert await nothing(receiver)
    traveller.advance(minutes=1)
    assert (await one(receiver)).time_to_live == ttl


async def test_a_scheduled_message_carries_the_number_of_a_deferred_one(bus, queue, traveller):
    """S-42: a reminder with the number of the deferred message."""
    await bus.send(queue, ServiceBusMessage(b"work"))
    receiver = await bus.open_receiver(queue)
    work = await one(receiver)
    await receiver.defer_message(work)
    reminder = ServiceBusMessage(b"reminder", application_properties={"number": work.sequence_number})
    async with bus.sender(queue) as sender:
        await sender.schedule_messages(reminder, hours_ahead(traveller, 1))
    traveller.advance(hours=1)
    reminded = await one(receiver)
    (found,) = await receiver.receive_deferred_messages(reminded.application_properties[b"number"])
    assert body(found) == b"work"


async def test_a_reminder_and_the_deferred_message_that_it_is_for_survive_sigkill(flavour, start_daemon):
    """S-40 to S-43, S-9."""
    daemon = start_daemon(entities_text({"q": {}}), time_travel=True)
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("q", ServiceBusMessage(b"work"))
        receiver = await bus.open_receiver("q")
        work = await one(receiver)
        await receiver.defer_message(work)
        minute = datetime.timedelta(minutes=1)
        reminder = ServiceBusMessage(f"{work.sequence_number}", time_to_live=minute)
        async with bus.sender("q") as sender:
            await sender.schedule_messages(reminder, hours_ahead(daemon, 1))
        daemon.kill()
    daemon.start()
    daemon.advance(hours=1)
    async with Bus(flavour, daemon.connection_string) as bus:
        receiver = await bus.open_receiver("q")
        reminded = await one(receiver)
        (found,) = await receiver.receive_deferred_messages(int(body(reminded)))
        assert (body(found), found.state.name) == (b"work", "DEFERRED")
        for message in (found, reminded):
            await receiver.complete_message(message)
        assert await bus.peek("q") == []
