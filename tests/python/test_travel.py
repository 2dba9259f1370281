"""Time travel: hours pass in milliseconds."""

import datetime

from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, body, one

HOUR = datetime.timedelta(hours=1)


async def test_a_time_to_live_of_an_hour_and_a_lock_of_five_minutes_pass_at_once(bus, queues, traveller):
    """The time limit of a test is shorter than either, so the test does not really wait."""
    queue = queues.take("long_lock_dead_letter_on_expiry")
    await bus.send(queue, ServiceBusMessage(b"slow"), ServiceBusMessage(b"short", time_to_live=HOUR))
    receiver = await bus.open_receiver(queue)
    slow = await one(receiver)
    assert slow.locked_until_utc - traveller.now() > datetime.timedelta(minutes=4)
    traveller.advance(minutes=5)
    again = await one(receiver)
    assert (body(again), again.delivery_count) == (b"slow", 1)
    traveller.advance(hours=1)
    last = await one(receiver)
    assert (body(last), last.delivery_count) == (b"slow", 2), "the later message is gone"
    (dead,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"short", "TTLExpiredException")


async def test_connections_do_not_notice(bus, queue, traveller):
    """A day passes for messages, but not for the idle time-outs of clients."""
    sender = await bus.open_sender(queue)
    receiver = await bus.open_receiver(queue)
    for text in (b"before", b"after"):
        await sender.send_messages(ServiceBusMessage(text))
        message = await one(receiver)
        assert body(message) == text
        await receiver.complete_message(message)
        traveller.advance(days=1)


async def test_messages_that_become_available_on_the_way_live_from_then_on(bus, queues, traveller):
    """Scheduled in five minutes, with a time-to-live of ten: after a jump of an hour it has expired, as if the hour had passed."""
    queue = queues.take("dead_letter_on_expiry")
    life = datetime.timedelta(minutes=10)
    sender = await bus.open_sender(queue)
    due = traveller.now() + datetime.timedelta(minutes=5)
    await sender.schedule_messages(ServiceBusMessage(b"brief", time_to_live=life), due)
    await bus.send(queue, ServiceBusMessage(b"first"))
    traveller.advance(hours=1)
    receiver = await bus.open_receiver(queue)
    assert body(await one(receiver)) == b"first"
    assert await receiver.receive_messages(max_wait_time=1) == []
    (dead,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"brief", "TTLExpiredException")
    assert abs(dead.enqueued_time_utc - due) < datetime.timedelta(minutes=1), "not at the end of the jump"
