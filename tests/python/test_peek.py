"""Browsing: pages, starting points, states; it changes nothing."""

import datetime

from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, bodies, body, one, take


async def test_peeking_an_empty_queue(bus, queue):
    receiver = await bus.open_receiver(queue)
    assert await receiver.peek_messages(10) == []


async def test_peeking_goes_on_from_the_last_message(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(7)])
    receiver = await bus.open_receiver(queue)
    pages = [bodies(await receiver.peek_messages(3)) for _ in range(4)]
    assert pages == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"], []]


async def test_peeking_from_a_number(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(7)])
    receiver = await bus.open_receiver(queue)
    messages = await receiver.peek_messages(2, sequence_number=4)
    assert [m.sequence_number for m in messages] == [4, 5]
    assert await receiver.peek_messages(2, sequence_number=8) == []


async def test_peeking_neither_locks_nor_counts(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"seen", message_id="id", subject="s", application_properties={"a": 1}))
    for _ in range(3):
        (seen,) = await bus.peek(queue)
        assert (body(seen), seen.message_id, seen.subject) == (b"seen", "id", "s")
        assert seen.application_properties == {b"a": 1}
        assert (seen.delivery_count, seen.state.name) == (0, "ACTIVE")
        assert seen.enqueued_time_utc is not None
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    assert message.delivery_count == 0


async def test_locked_messages_are_seen(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(3)])
    receiver = await bus.open_receiver(queue)
    await take(receiver, 2)
    assert bodies(await bus.peek(queue)) == [b"0", b"1", b"2"]


async def test_every_state_is_seen_in_the_order_of_the_numbers(bus, queue):
    """S-39 for the deferred one."""
    await bus.send(queue, ServiceBusMessage(b"deferred"), ServiceBusMessage(b"dead"), ServiceBusMessage(b"locked"))
    receiver = await bus.open_receiver(queue)
    deferred, dead, _locked = [await one(receiver) for _ in range(3)]
    await receiver.defer_message(deferred)
    await receiver.dead_letter_message(dead)
    async with bus.sender(queue) as sender:
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        await sender.schedule_messages(ServiceBusMessage(b"scheduled"), later)
        await sender.send_messages(ServiceBusMessage(b"active"))
    seen = [(body(m), m.state.name, m.delivery_count) for m in await bus.peek(queue)]
    assert seen == [
        (b"deferred", "DEFERRED", 1),
        (b"locked", "ACTIVE", 0),
        (b"scheduled", "SCHEDULED", 0),
        (b"active", "ACTIVE", 0),
    ]
    assert bodies(await bus.peek(queue, sub_queue=DEAD_LETTER)) == [b"dead"]


async def test_a_thousand_messages_are_browsed_in_pages(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(1000)])
    assert bodies(await bus.peek(queue)) == [b"%d" % n for n in range(1000)]


async def test_at_most_250_messages_are_browsed_at_a_time(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(300)])
    receiver = await bus.open_receiver(queue)
    pages = [await receiver.peek_messages(1000, sequence_number=first) for first in (1, 251)]
    assert [bodies(page) for page in pages] == [[b"%d" % n for n in range(250)], [b"%d" % n for n in range(250, 300)]]


async def test_large_messages_are_browsed_although_they_do_not_fit_one_answer(bus, queue):
    sent = [bytes([n]) * 700_000 for n in range(4)]
    await bus.send(queue, *[ServiceBusMessage(each) for each in sent])
    assert bodies(await bus.peek(queue)) == sent
