"""Limits on the rate of messages: refused with the text of Service Bus, and the SDK's retry succeeds."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from bus import Bus, bodies

CONFIG = """
[[throttling.entities]]
name = "Slow"
messages_per_second = 1

[[queues]]
name = "slow"

[[queues]]
name = "neighbour"
"""


def batch(count: int) -> list:
    return [ServiceBusMessage(str(number)) for number in range(count)]


@pytest.fixture
async def bus(flavour, start_daemon):
    async with Bus(flavour, start_daemon(CONFIG).connection_string) as bus:
        yield bus


async def test_a_throttled_entity_answers_as_service_bus_does_and_its_neighbour_is_not_affected(bus):
    async with bus.sender("slow") as sender, bus.sender("neighbour") as neighbour:
        # A batch is accepted as a whole and delays later messages.
        await sender.send_messages(batch(50))
        with pytest.raises(ServiceBusServerBusyError, match="being throttled. Error code : 50009"):
            await sender.send_messages(ServiceBusMessage("too soon"))
        with pytest.raises(ServiceBusServerBusyError):
            await bus.peek("slow")
        for number in range(20):
            await neighbour.send_messages(ServiceBusMessage(str(number)))
    assert len(await bus.drain("neighbour", 20)) == 20
    # Stored messages are delivered and settled at any rate.
    assert len(await bus.drain("slow", 50)) == 50


async def test_each_message_of_a_request_to_schedule_counts(bus):
    async with bus.sender("slow") as sender:
        await sender.schedule_messages(batch(50), datetime.now(UTC) + timedelta(hours=1))
        with pytest.raises(ServiceBusServerBusyError, match="being throttled"):
            await sender.send_messages(ServiceBusMessage("too soon"))


async def test_the_retry_of_the_sdk_gets_through(bus):
    async with bus.new_client(retry_total=5) as client, client.get_queue_sender("slow") as sender:
        await sender.send_messages(batch(4))
        await sender.send_messages(ServiceBusMessage("patient"))
    assert bodies(await bus.drain("slow", 5))[-1] == b"patient"
