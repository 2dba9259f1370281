"""Receiving: both modes, counts, prefetch, waiting, iterating, closing."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage

from bus import PATIENCE_SECS, RECEIVE_AND_DELETE, bodies, body, nothing, one, take, until


async def test_peek_lock_keeps_the_message_until_it_is_completed(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"kept"))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    assert message.lock_token is not None
    assert message.locked_until_utc > message.enqueued_time_utc
    assert len(await bus.peek(queue)) == 1
    await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_receive_and_delete_removes_the_message_at_once(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"gone"))
    receiver = await bus.open_receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    message = await one(receiver)
    assert message.lock_token is None
    assert await bus.peek(queue) == []
    with pytest.raises(ValueError):
        await receiver.complete_message(message)


async def test_a_receive_on_an_empty_queue_returns_nothing_and_loses_nothing(bus, queue):
    receiver = await bus.open_receiver(queue)
    for n in range(3):
        assert await nothing(receiver)
        await bus.send(queue, ServiceBusMessage(f"{n}"))
        message = await one(receiver)
        assert body(message) == b"%d" % n
        assert message.delivery_count == 0
        await receiver.complete_message(message)


async def test_a_waiting_receive_gets_a_message_that_is_sent_meanwhile(bus, queue):
    receiver = await bus.open_receiver(queue)
    waiting = asyncio.create_task(receiver.receive_messages(1, max_wait_time=30))
    await bus.send(queue, ServiceBusMessage(b"awaited"))
    assert bodies(await waiting) == [b"awaited"]


async def test_a_receive_returns_early_with_fewer_than_asked(bus, queue):
    await bus.send(queue, [ServiceBusMessage(b"") for _ in range(3)])
    receiver = await bus.open_receiver(queue)
    messages = await asyncio.wait_for(receiver.receive_messages(10, max_wait_time=300), PATIENCE_SECS)
    assert 1 <= len(messages) <= 3


async def test_a_receive_returns_no_more_than_asked(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(10)])
    receiver = await bus.open_receiver(queue)
    messages = await take(receiver, 4)
    assert bodies(messages) == [b"0", b"1", b"2", b"3"]


async def test_messages_requested_but_not_wanted_go_back_uncounted(bus, queue):
    """`released` adds nothing to the delivery count."""
    receiver = await bus.open_receiver(queue)
    assert await receiver.receive_messages(50, max_wait_time=0.3) == []
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(20)])
    # Management calls make the idle receiver read, and release, the messages for its old credit.
    for _ in range(5):
        await receiver.peek_messages(1, sequence_number=1)
    other = await bus.open_receiver(queue)
    await receiver.close()
    messages = await take(other, 20)
    assert sorted(bodies(messages), key=int) == [b"%d" % n for n in range(20)]
    assert {m.delivery_count for m in messages} == {0}


async def test_prefetch_fills_the_buffer_and_keeps_the_order(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(100)])
    receiver = await bus.open_receiver(queue, prefetch_count=40)
    received = []
    while len(received) < 100:
        message = await one(receiver)
        received.append(body(message))
        await receiver.complete_message(message)
    assert received == [b"%d" % n for n in range(100)]
    assert await bus.peek(queue) == []


async def test_closing_a_receiver_gives_prefetched_messages_back_uncounted(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(30)])
    receiver = await bus.open_receiver(queue, prefetch_count=30)
    first = await one(receiver)
    await receiver.complete_message(first)
    await receiver.close()
    other = await bus.open_receiver(queue)
    messages = await take(other, 29)
    assert sorted(bodies(messages), key=int) == [b"%d" % n for n in range(1, 30)]
    assert {m.delivery_count for m in messages} == {0}


async def test_prefetch_with_receive_and_delete(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(60)])
    receiver = await bus.open_receiver(queue, receive_mode=RECEIVE_AND_DELETE, prefetch_count=20)
    messages = await take(receiver, 60)
    assert bodies(messages) == [b"%d" % n for n in range(60)]


async def test_iterating_ends_when_nothing_comes(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(12)])
    received = []
    async with bus.receiver(queue, max_wait_time=1) as receiver:
        async for message in receiver:
            received.append(body(message))
            await receiver.complete_message(message)
    assert received == [b"%d" % n for n in range(12)]
    assert await bus.peek(queue) == []


async def test_iterating_gets_messages_that_are_sent_meanwhile(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"0"))
    received = []
    async with bus.receiver(queue, max_wait_time=20) as receiver:
        async for message in receiver:
            received.append(body(message))
            await receiver.complete_message(message)
            if len(received) == 5:
                break
            await bus.send(queue, ServiceBusMessage(f"{len(received)}"))
    assert received == [b"%d" % n for n in range(5)]


@pytest.mark.parametrize("mode", ["peeklock", "receiveanddelete"])
async def test_competing_receivers_share_the_messages_without_repeats(bus, queue, mode):
    count = 200
    received = []

    async def consume():
        async with bus.receiver(queue, receive_mode=mode) as receiver:
            while len(received) < count:
                for message in await receiver.receive_messages(7, max_wait_time=1):
                    received.append(body(message))
                    if mode == "peeklock":
                        await receiver.complete_message(message)

    consumers = [asyncio.create_task(consume()) for _ in range(8)]
    await bus.send(queue, *[[ServiceBusMessage(f"{k}:{n}") for n in range(20)] for k in range(10)])
    await asyncio.gather(*consumers)
    assert len(received) == len(set(received)) == count

    async def empty():
        return await bus.peek(queue) == []

    await until(empty, "an empty queue")


async def test_a_locked_message_is_invisible_to_others(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"first"), ServiceBusMessage(b"second"))
    mine = await bus.open_receiver(queue)
    other = await bus.open_receiver(queue)
    assert body(await one(mine)) == b"first"
    assert body(await one(other)) == b"second"
    assert await nothing(other)


async def test_many_receivers_wait_and_each_gets_one(bus, queue):
    receivers = [await bus.open_receiver(queue) for _ in range(10)]
    waiting = [asyncio.create_task(receiver.receive_messages(1, max_wait_time=30)) for receiver in receivers]
    await bus.send(queue, *[ServiceBusMessage(f"{n}") for n in range(10)])
    received = [body(message) for messages in await asyncio.gather(*waiting) for message in messages]
    assert sorted(received) == [b"%d" % n for n in range(10)]


async def test_one_client_serves_many_queues(bus, queues):
    names = [queues.take() for _ in range(4)]
    await asyncio.gather(*(bus.send(name, ServiceBusMessage(name)) for name in names))
    drained = await asyncio.gather(*(bus.drain(name, 1) for name in names))
    assert [body(messages[0]).decode() for messages in drained] == names
