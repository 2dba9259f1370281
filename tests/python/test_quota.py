"""Full queues and a full store refuse sends with the SDK's quota error, lose nothing and recover."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from bus import Bus, bodies, one, take
from daemon import Daemon

#: The least that the store can be limited to, and a queue that may grow beyond it.
SMALL_STORE = """
[storage]
segment_size = "1 MiB"
size_max = "8 MiB"

[[queues]]
name = "small-store"
"""


async def test_a_full_queue_refuses_until_there_is_room(bus, queues):
    queue = queues.take("one_megabyte")
    large = b"x" * 600_000
    sender = await bus.open_sender(queue)
    await sender.send_messages(ServiceBusMessage(large))
    with pytest.raises(ServiceBusQuotaExceededError):
        await sender.send_messages(ServiceBusMessage(large))
    assert bodies(await bus.peek(queue)) == [large]
    receiver = await bus.open_receiver(queue)
    await receiver.complete_message(await one(receiver))
    await sender.send_messages(ServiceBusMessage(b"there is room again"))
    assert bodies(await bus.drain(queue, 1)) == [b"there is room again"]


@pytest.mark.local_store("it can be limited to less than a database")
async def test_a_full_store_refuses_loses_nothing_and_recovers(flavour):
    daemon = Daemon(SMALL_STORE).start()
    try:
        async with Bus(flavour, daemon.connection_string) as bus:
            accepted = await fill(bus)
            assert accepted > 2
            receiver = await bus.open_receiver("small-store")
            for number in range(accepted):
                (message,) = await take(receiver, 1)
                assert message.message_id == f"{number}"
                # Settling works although sending does not.
                await receiver.complete_message(message)
            await bus.send("small-store", ServiceBusMessage(b"there is room again"))
            assert bodies(await bus.drain("small-store", 1)) == [b"there is room again"]
        assert daemon.panics() == []
    finally:
        daemon.close()


async def fill(bus) -> int:
    """Sends until the store is full; how many messages were accepted."""
    sender = await bus.open_sender("small-store")
    for number in range(1_000):
        try:
            await sender.send_messages(ServiceBusMessage(b"x" * 250_000, message_id=f"{number}"))
        except ServiceBusQuotaExceededError:
            return number
    raise AssertionError("the store took 250 MB")
