"""Duplicate detection: a message whose id was accepted recently is accepted and dropped."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError

from bus import Bus, bodies
from daemon import Topic, entities_text

WINDOW = {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "PT1H"}


def message(text: str, message_id: str | None = "id", **properties) -> ServiceBusMessage:
    return ServiceBusMessage(text, message_id=message_id, **properties)


async def test_a_duplicate_is_accepted_and_dropped_whatever_the_outcome_of_the_first(bus, queues):
    queue = queues.take("duplicates")
    await bus.send(queue, message("first"), message("again"), message("other", "ID"))
    assert bodies(await bus.drain(queue, 2)) == [b"first", b"other"]
    await bus.send(queue, message("received already"), message("new", "new"))
    assert bodies(await bus.peek(queue)) == [b"new"]


async def test_a_batch_may_hold_duplicates(bus, queues):
    queue = queues.take("duplicates")
    await bus.send(queue, message("0", "a"))
    await bus.send(queue, [message("1", "a"), message("2", "b"), message("3", "b"), message("4", "c")])
    assert bodies(await bus.peek(queue)) == [b"0", b"2", b"4"]


async def test_messages_without_an_id_are_never_duplicates(bus, queues):
    queue = queues.take("duplicates")
    await bus.send(queue, *[message("same", None) for _ in range(3)])
    assert len(await bus.peek(queue)) == 3


async def test_an_id_is_free_again_when_the_window_is_over(bus, queues, traveller):
    queue = queues.take("duplicates")
    await bus.send(queue, message("first"))
    (first,) = await bus.peek(queue)
    end = first.enqueued_time_utc + datetime.timedelta(hours=1)
    # The margin covers the seconds that this takes.
    traveller.advance_to(end - datetime.timedelta(minutes=1))
    await bus.send(queue, message("within"))
    assert len(await bus.peek(queue)) == 1
    traveller.advance_to(end)
    await bus.send(queue, message("after"))
    assert bodies(await bus.peek(queue)) == [b"first", b"after"]


async def test_a_message_scheduled_again_has_the_number_of_the_first(bus, queues, traveller):
    queue = queues.take("duplicates")
    due = traveller.now() + datetime.timedelta(hours=3)
    async with bus.sender(queue) as sender:
        (number,) = await sender.schedule_messages(message("scheduled"), due)
        assert await sender.schedule_messages(message("again"), due) == [number]
        await sender.send_messages(message("at once"))
        assert bodies(await bus.peek(queue)) == [b"scheduled"]
        await sender.cancel_scheduled_messages(number)
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(number)
        await sender.send_messages(message("after it was cancelled"))
    assert await bus.peek(queue) == []


async def test_a_normal_message_makes_a_scheduled_one_a_duplicate(bus, queues, traveller):
    queue = queues.take("duplicates")
    async with bus.sender(queue) as sender:
        await sender.send_messages(message("normal"))
        await sender.schedule_messages(message("scheduled"), traveller.now() + datetime.timedelta(minutes=5))
    traveller.advance(minutes=6)
    assert bodies(await bus.peek(queue)) == [b"normal"]


async def test_ids_are_one_for_all_sessions(bus, queues):
    queue = queues.take("duplicates_session")
    await bus.send(queue, message("first", session_id="a"), message("again", session_id="b"))
    assert bodies(await bus.peek(queue, session_id="a")) == [b"first"]
    assert await bus.peek(queue, session_id="b") == []


async def test_a_duplicate_reaches_no_subscription(bus, topics):
    topic = topics.take("topic_duplicates")
    await bus.send(topic, message("first"), message("again"))
    for name in ("one", "two"):
        assert bodies(await bus.drain(topic / name, 1)) == [b"first"]
    await bus.send(topic, message("once more"))
    assert await bus.peek(topic / "one") == []


async def test_ids_are_remembered_across_a_crash(start_daemon, flavour):
    topics = {"news": WINDOW | {"subscriptions": [{"name": "all"}]}}
    daemon = start_daemon(entities_text({"orders": WINDOW}, topics))
    targets = [("orders", "orders"), ("news", Topic("news") / "all")]
    async with Bus(flavour, daemon.connection_string) as bus:
        for target, source in targets:
            await bus.send(target, message("first"), message("settled", "settled"))
            await bus.drain(source, 1)
    daemon.kill()
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        for target, source in targets:
            await bus.send(target, message("again"), message("settled again", "settled"), message("new", "new"))
            assert bodies(await bus.peek(source)) == [b"settled", b"new"]
