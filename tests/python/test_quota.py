"""Full queues and a full store refuse sends with the SDK's quota error, lose nothing and recover."""

import asyncio
import datetime
import resource

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError, ServiceBusServerBusyError

from bus import Bus, bodies, log_line, one, take
from daemon import Daemon, Topic

#: The minimum limit of the store, and a queue that may grow beyond it.
SMALL_STORE = """
[storage]
segment_size = "1 MiB"
size_max = "8 MiB"

[[queues]]
name = "small-store"

[[topics]]
name = "news"
[[topics.subscriptions]]
name = "one"
[[topics.subscriptions]]
name = "two"
"""
SUBSCRIPTIONS = [Topic("news") / "one", Topic("news") / "two"]


async def test_a_full_queue_refuses_until_there_is_room(bus, queues):
    """In the words of Service Bus: azure-service-bus 683 and 199."""
    queue = queues.take("one_megabyte")
    large = b"x" * 600_000
    sender = await bus.open_sender(queue)
    await sender.send_messages(ServiceBusMessage(large))
    text = "The maximum entity size has been reached or exceeded.*QuotaType: EntitySize"
    with pytest.raises(ServiceBusQuotaExceededError, match=text):
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


@pytest.mark.local_store("it can be limited to less than a database")
async def test_messages_scheduled_on_a_topic_wait_while_the_store_is_full(flavour):
    daemon = Daemon(SMALL_STORE, time_travel=True).start()
    try:
        async with Bus(flavour, daemon.connection_string) as bus:
            news = await bus.open_sender(Topic("news"))
            due = daemon.now() + datetime.timedelta(hours=1)
            kept, cancelled = await news.schedule_messages([ServiceBusMessage(b"kept"), ServiceBusMessage(b"never")], due)
            accepted = await fill(bus)
            daemon.advance(hours=2)
            assert [await bus.peek(subscription) for subscription in SUBSCRIPTIONS] == [[], []]
            await news.cancel_scheduled_messages(cancelled)
            receiver = await bus.open_receiver("small-store")
            for _ in range(accepted):
                await receiver.complete_message(await one(receiver))
            for subscription in SUBSCRIPTIONS:
                (message,) = await bus.drain(subscription, 1)
                assert bodies([message]) == [b"kept"]
                assert message.enqueued_time_utc - due >= datetime.timedelta(minutes=59), "when there was room"
        assert daemon.panics() == []
    finally:
        daemon.close()


@pytest.mark.local_store("its segments are files")
async def test_a_store_that_cannot_be_extended_asks_senders_to_repeat_and_recovers(flavour):
    """Without a file descriptor for the next segment."""
    daemon = Daemon(SMALL_STORE).start()
    try:
        async with Bus(flavour, daemon.connection_string) as bus:
            sender = await bus.open_sender("small-store")
            await sender.send_messages(ServiceBusMessage(b"first"))
            before = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
            accepted = 0
            with pytest.raises(ServiceBusServerBusyError):
                while accepted < 100:
                    await sender.send_messages(ServiceBusMessage(b"x" * 250_000))
                    accepted += 1
            await log_line(daemon, "the store can't be extended; sends are refused")
            await log_line(daemon, "no segment can be prepared")
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, before)
            for _ in range(30):
                try:
                    await sender.send_messages(ServiceBusMessage(b"last"))
                    break
                except ServiceBusServerBusyError:
                    await asyncio.sleep(0.2)
            else:
                raise AssertionError("sends are still refused")
            assert bodies(await bus.drain("small-store", accepted + 2))[-1] == b"last"
        assert daemon.panics() == []
    finally:
        daemon.close()


async def fill(bus) -> int:
    """Sends until the store is full, and returns the number of accepted messages."""
    sender = await bus.open_sender("small-store")
    for number in range(1_000):
        try:
            await sender.send_messages(ServiceBusMessage(b"x" * 250_000, message_id=f"{number}"))
        except ServiceBusQuotaExceededError:
            return number
    raise AssertionError("the store took 250 MB")
