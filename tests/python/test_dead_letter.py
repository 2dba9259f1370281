"""The dead-letter queue is a queue for receiving, browsing and settling; but no message leaves it by itself."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from bus import DEAD_LETTER, RECEIVE_AND_DELETE, bodies, body, nothing, one, take


async def dead_letter(bus, queue, *messages):
    await bus.send(queue, *messages)
    async with bus.receiver(queue) as receiver:
        for message in await take(receiver, len(messages)):
            await receiver.dead_letter_message(message, reason="test")


async def test_receive_and_complete(bus, queue):
    await dead_letter(bus, queue, *[ServiceBusMessage(f"{n}") for n in range(5)])
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    messages = await take(receiver, 5)
    assert bodies(messages) == [b"%d" % n for n in range(5)]
    for message in messages:
        await receiver.complete_message(message)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_receive_and_delete(bus, queue):
    await dead_letter(bus, queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER, receive_mode=RECEIVE_AND_DELETE)
    await one(receiver)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_no_number_of_tries_removes_a_message(bus, queues):
    queue = queues.take("one_try")
    await dead_letter(bus, queue, ServiceBusMessage(b"stays"))
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    first = await one(receiver)
    await receiver.abandon_message(first)
    for _ in range(3):
        message = await one(receiver)
        assert body(message) == b"stays"
        assert message.delivery_count == first.delivery_count
        await receiver.abandon_message(message)


async def test_a_dead_letter_cannot_be_dead_lettered_again(bus, queue):
    await dead_letter(bus, queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    message = await one(receiver)
    with pytest.raises(ServiceBusError):
        await receiver.dead_letter_message(message, reason="again")
    # The lock is kept. The SDK has closed the receiver for this error, so another one completes.
    other = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    assert await nothing(other)
    await other.complete_message(message)
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_the_main_queue_goes_on_beside_it(bus, queue):
    await dead_letter(bus, queue, ServiceBusMessage(b"dead"))
    await bus.send(queue, ServiceBusMessage(b"alive"))
    main = await bus.open_receiver(queue)
    assert body(await one(main)) == b"alive"
    assert await nothing(main)
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    assert body(await one(dead)) == b"dead"


async def test_sending_to_it_is_refused(bus, queue):
    with pytest.raises(ServiceBusError):
        async with bus.new_client(retry_total=0) as client:
            async with client.get_queue_sender(f"{queue}/$DeadLetterQueue") as sender:
                await sender.send_messages(ServiceBusMessage(b""))
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_a_lock_on_a_dead_letter_is_renewed(bus, queue, traveller):
    await dead_letter(bus, queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    message = await one(receiver)
    end = message.locked_until_utc
    traveller.advance(seconds=1)
    assert await receiver.renew_message_lock(message) > end


async def test_a_dead_letter_does_not_expire(bus, queue, traveller):
    await dead_letter(bus, queue, ServiceBusMessage(b"old", time_to_live=datetime.timedelta(hours=1)))
    receiver = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    traveller.advance(days=1)
    assert body(await one(receiver)) == b"old"


async def test_a_dead_letter_is_sent_again(bus, queue):
    """The steps of an operator: receive it, send it to the queue, complete it."""
    await dead_letter(bus, queue, ServiceBusMessage(b"fixed"))
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    message = await one(dead)
    await bus.send(queue, ServiceBusMessage(body(message)))
    await dead.complete_message(message)
    assert bodies(await bus.drain(queue, 1)) == [b"fixed"]
