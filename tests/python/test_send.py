"""Sending: one, lists, batches, many senders; accepted messages are stored, numbered and in order."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from bus import Bus, bodies, body
from daemon import entities_text


async def test_one_message_arrives(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"hello"))
    (message,) = await bus.drain(queue, 1)
    assert body(message) == b"hello"
    assert message.sequence_number == 1
    assert message.enqueued_sequence_number is None, "it has one number only"


async def test_a_list_is_sent_as_a_batch_in_order(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(100)])
    messages = await bus.drain(queue, 100)
    assert bodies(messages) == [b"%d" % n for n in range(100)]
    assert [m.sequence_number for m in messages] == list(range(1, 101))


async def test_a_message_batch_keeps_ids_and_properties_of_each_message(bus, queue):
    async with bus.sender(queue) as sender:
        batch = await sender.create_message_batch()
        for n in range(10):
            batch.add_message(
                ServiceBusMessage(f"body {n}", message_id=f"id-{n}", subject=f"s{n}", application_properties={"n": n})
            )
        await sender.send_messages(batch)
    messages = await bus.drain(queue, 10)
    assert [m.message_id for m in messages] == [f"id-{n}" for n in range(10)]
    assert [m.subject for m in messages] == [f"s{n}" for n in range(10)]
    assert [m.application_properties[b"n"] for m in messages] == list(range(10))
    assert bodies(messages) == [b"body %d" % n for n in range(10)]


async def test_one_property_has_at_most_32_kb(bus, queue):
    """The service refuses a larger one: NServiceBus.Transport.AzureServiceBus 171 and 1460, azure-sdk-for-net 15325."""
    most = 32 * 1024
    larger = ServiceBusMessage(b"m", application_properties={"small": 1, "large": "." * (most + 1)})
    async with bus.sender(queue) as sender:
        with pytest.raises(MessageSizeExceededError, match="application property 'large' takes 32769 bytes"):
            await sender.send_messages(larger)
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages([ServiceBusMessage(b"beside"), larger])
        await sender.send_messages(ServiceBusMessage(b"m", application_properties={"large": "." * most}))
    (message,) = await bus.drain(queue, 1)
    assert len(message.application_properties[b"large"]) == most


async def test_a_batch_knows_the_limit_of_the_link(bus, queue):
    async with bus.sender(queue) as sender:
        batch = await sender.create_message_batch()
        assert batch.max_size_in_bytes >= 256 * 1024
        with pytest.raises(MessageSizeExceededError):
            for _ in range(100):
                batch.add_message(ServiceBusMessage(b"x" * 100_000))
        await sender.send_messages(batch)
        accepted = len(await bus.peek(queue))
    assert 0 < accepted < 100
    assert len(await bus.drain(queue, accepted)) == accepted


async def test_a_batch_of_a_thousand_messages(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(1000)])
    assert bodies(await bus.drain(queue, 1000)) == [b"%d" % n for n in range(1000)]


async def test_messages_of_one_sender_keep_their_order(bus, queue):
    await bus.send(queue, *[ServiceBusMessage(f"{n}") for n in range(50)])
    messages = await bus.drain(queue, 50)
    assert bodies(messages) == [b"%d" % n for n in range(50)]
    assert [m.sequence_number for m in messages] == list(range(1, 51))


async def test_ten_senders_at_once_lose_and_repeat_nothing(bus, queue):
    async def send_as(sender_number: int):
        await bus.send(queue, *[ServiceBusMessage(f"{sender_number}:{n}") for n in range(20)])

    await asyncio.gather(*(send_as(number) for number in range(10)))
    messages = await bus.drain(queue, 200)
    assert sorted(m.sequence_number for m in messages) == list(range(1, 201))
    for sender_number in range(10):
        own = [b for b in bodies(messages) if b.startswith(b"%d:" % sender_number)]
        assert own == [b"%d:%d" % (sender_number, n) for n in range(20)]


async def test_a_sender_can_be_used_after_it_was_idle_between_messages(bus, queue):
    async with bus.sender(queue) as sender:
        for n in range(3):
            await sender.send_messages(ServiceBusMessage(f"{n}"))
            (message,) = await bus.drain(queue, 1)
            assert body(message) == b"%d" % n


async def test_a_queue_is_found_whatever_the_letter_case(bus, queue):
    await bus.send(queue.upper(), ServiceBusMessage(b"loud"))
    (message,) = await bus.drain(queue, 1)
    assert body(message) == b"loud"


async def test_a_queue_name_may_contain_slashes(bus, queues):
    queue = queues.take("path/with/slashes")
    await bus.send(queue, ServiceBusMessage(b"deep"))
    assert len(await bus.peek(queue)) == 1
    (message,) = await bus.drain(queue, 1)
    assert body(message) == b"deep"


async def test_a_sender_learns_how_large_a_batch_may_be(start_daemon, flavour):
    """Without that, the SDK guesses 256 KB where a message may have less than 1 MiB."""
    sizes_kb = {"small": 200, "medium": 512, "large": 4096}
    queues = {name: {"max_message_size_in_kilobytes": size_kb} for name, size_kb in sizes_kb.items()}
    daemon = start_daemon(entities_text(queues))
    async with Bus(flavour, daemon.connection_string) as bus:
        for name, size_kb in sizes_kb.items():
            sender = await bus.open_sender(name)
            batch = await sender.create_message_batch()
            assert batch.max_size_in_bytes == min(size_kb, 1024) * 1024
