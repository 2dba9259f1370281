"""With `amqp.link_idle_time_out` and `amqp.no_link_time_out` the broker ends unused links and connections, as Service Bus does after ten
and five minutes (azure-sdk-for-python 10127, 18795 and 36677); the SDK recovers.
"""

import asyncio
import re
import urllib.request

import pytest
from azure.servicebus import ServiceBusMessage

from bus import PATIENCE_SECS, Bus, bodies, body, until
from daemon import entities_text

QUEUE = "idle"
CONFIG = '[amqp]\nlink_idle_time_out = "PT1S"\nno_link_time_out = "PT1S"\n' + entities_text({QUEUE: {}})
DETACHED, CLOSED = "amqp:link:detach-forced", "amqp:connection:forced"


@pytest.fixture
def idle_daemon(start_daemon):
    return start_daemon(CONFIG)


@pytest.fixture
async def patient(idle_daemon, flavour):
    """A bus whose client retries, as clients do by default."""
    async with Bus(flavour, idle_daemon.connection_string) as bus:
        async with bus.new_client(retry_total=3, retry_backoff_factor=0.1) as bus.client:
            yield bus


def count(daemon, condition: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=10) as answer:
        found = re.search(rf'^peeklock_operations_refused_total{{error_type="{condition}"}} (\d+)', answer.read().decode(), re.MULTILINE)
    return int(found[1]) if found else 0


async def ended(daemon, condition: str, more_than: int = 0):
    async def has_more():
        return count(daemon, condition) > more_than

    await until(has_more, condition)


async def test_a_sender_sends_after_its_link_and_its_connection_were_ended(patient, idle_daemon):
    sender = await patient.open_sender(QUEUE)
    for number in range(3):
        await sender.send_messages(ServiceBusMessage(f"{number}"))
        await ended(idle_daemon, DETACHED, number)
        await ended(idle_daemon, CLOSED, number)
    assert bodies(await patient.drain(QUEUE, 3)) == [b"0", b"1", b"2"]


async def test_a_receiver_that_waits_goes_on_after_its_link_was_detached(patient, idle_daemon):
    receiver = await patient.open_receiver(QUEUE)

    async def first():
        async for message in receiver:
            await receiver.complete_message(message)
            return body(message)

    waiting = asyncio.create_task(first())
    await ended(idle_daemon, DETACHED, 1)
    async with patient.sender(QUEUE) as sender:
        await sender.send_messages(ServiceBusMessage(b"awaited"))
    assert await asyncio.wait_for(waiting, PATIENCE_SECS) == b"awaited"
    assert await patient.peek(QUEUE) == []
