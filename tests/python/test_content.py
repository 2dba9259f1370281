"""Parts of a message that Service Bus does not return as the sender wrote them, and messages that it refuses."""

import datetime
import decimal

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageProperties
from azure.servicebus.exceptions import ServiceBusError

from bus import DEAD_LETTER, one, take

UTC = datetime.timezone.utc
HOUR = datetime.timedelta(hours=1)
DAY_MS = 24 * 3600 * 1000
DECIMALS = ["1.2345", "-1.2345", "0", "7", "0.00001", "99999999", "1E+3"]


def now_ms() -> int:
    return round(datetime.datetime.now(UTC).timestamp() * 1000)


async def round_trip(bus, queue, message):
    await bus.send(queue, message)
    (received,) = await bus.drain(queue, 1)
    return received


@pytest.mark.parametrize("text", DECIMALS)
async def test_a_decimal_property_comes_back(bus, queue, text):
    """The SDK reads only decimals as .NET, and with it the service, encodes them."""
    value = decimal.Decimal(text)
    received = await round_trip(bus, queue, ServiceBusMessage(b"", application_properties={"decimal": value}))
    assert received.application_properties == {b"decimal": value}


async def test_decimals_of_annotations_and_footers_come_back(bus, queue):
    value = decimal.Decimal("1.2345")
    await bus.send(queue, AmqpAnnotatedMessage(data_body=b"", annotations={"noted": value}, footer={"foot": value}))
    receiver = await bus.open_receiver(queue)
    raw = (await one(receiver)).raw_amqp_message
    assert (raw.annotations[b"noted"], raw.footer) == (value, {b"foot": value})


@pytest.mark.parametrize("text", ["1E-29", "1E+30", str(2**96)])
async def test_a_decimal_beyond_those_of_dotnet_is_refused(bus, queue, text):
    message = ServiceBusMessage(b"", application_properties={"decimal": decimal.Decimal(text)})
    with pytest.raises(ServiceBusError, match="A decimal must have at most 28 digits"):
        await bus.send(queue, message)
    assert await bus.peek(queue) == []


@pytest.mark.parametrize("value", [[1, 2], {"key": 1}], ids=["list", "map"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
async def test_an_application_property_that_is_no_simple_value_is_refused(bus, queue, value, alone):
    bad = ServiceBusMessage(b"bad", application_properties={"key": value})
    good = ServiceBusMessage(b"good")
    with pytest.raises(ServiceBusError, match="an application property that is a list, a map or an array"):
        await bus.send(queue, bad if alone else [good, bad, good])
    assert await bus.peek(queue) == [], "nothing of the batch is there"
    await bus.send(queue, good)
    assert len(await bus.drain(queue, 1)) == 1


async def test_two_timestamps_without_a_time_to_live_come_back_as_they_were_sent(bus, queue):
    expiry_ms, creation_ms = now_ms() - 5 * DAY_MS, now_ms() - 6 * DAY_MS
    properties = AmqpMessageProperties(absolute_expiry_time=expiry_ms, creation_time=creation_ms)
    received = await round_trip(bus, queue, AmqpAnnotatedMessage(data_body=b"", properties=properties))
    found = received.raw_amqp_message.properties
    assert (found.absolute_expiry_time, found.creation_time) == (expiry_ms, creation_ms)
    assert received.time_to_live is None


@pytest.mark.parametrize("life", [HOUR / 2, None], ids=["of its own", "of the queue"])
async def test_a_life_shows_its_beginning_and_its_end(bus, queues, life):
    """.NET uses the difference of the two as the time to live, also if it is the queue's default."""
    queue = queues.take("default_ttl")
    received = await round_trip(bus, queue, ServiceBusMessage(b"", time_to_live=life))
    properties = received.raw_amqp_message.properties
    shown = datetime.timedelta(milliseconds=properties.absolute_expiry_time - properties.creation_time)
    assert shown == (life or HOUR)
    assert properties.creation_time == round(received.enqueued_time_utc.timestamp() * 1000)


async def test_a_browsed_message_has_a_lock_that_is_none(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"browsed"))
    (seen,) = await bus.peek(queue)
    assert b"x-opt-locked-until" in seen.raw_amqp_message.annotations
    assert seen.locked_until_utc == datetime.datetime.min.replace(tzinfo=UTC)
    receiver = await bus.open_receiver(queue)
    assert (await one(receiver)).locked_until_utc > datetime.datetime.now(UTC)


async def test_a_message_that_was_scheduled_says_so_when_it_is_received(bus, queue, topic):
    for target, source in [(queue, queue), (topic, topic / "one")]:
        async with bus.sender(target) as sender:
            await sender.schedule_messages(
                ServiceBusMessage(b"scheduled"), datetime.datetime.now(UTC) + datetime.timedelta(seconds=1)
            )
        receiver = await bus.open_receiver(source)
        message = await one(receiver)
        assert message.state.name == "SCHEDULED"
        (seen,) = await bus.peek(source)
        assert seen.state.name == "ACTIVE"
        await receiver.abandon_message(message)
        message = await one(receiver)
        assert (message.state.name, message.delivery_count) == ("SCHEDULED", 1)
        await receiver.defer_message(message)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        assert deferred.state.name == "DEFERRED"
        await receiver.complete_message(deferred)


async def test_a_message_sent_with_a_time_in_the_past_was_not_scheduled(bus, queue):
    past = datetime.datetime.now(UTC) - HOUR
    received = await round_trip(bus, queue, ServiceBusMessage(b"", scheduled_enqueue_time_utc=past))
    assert received.state.name == "ACTIVE"


async def test_the_delivery_count_stays_in_the_dead_letter_queue(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"dead"))
    receiver = await bus.open_receiver(queue)
    await receiver.abandon_message(await one(receiver))
    await receiver.dead_letter_message(await one(receiver))
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    for _ in range(3):
        message = await one(dead)
        assert message.delivery_count == 1
        await dead.abandon_message(message)
    await dead.defer_message(await one(dead))
    (deferred,) = await dead.receive_deferred_messages(message.sequence_number)
    assert deferred.delivery_count == 1


async def test_an_empty_session_state_is_none(bus, queues):
    """Go clears a state with empty bytes."""
    receiver = await bus.open_receiver(queues.take("session"), session_id="s")
    await receiver.session.set_state(b"kept")
    await receiver.session.set_state(b"")
    assert await receiver.session.get_state() is None


async def test_the_empty_session_takes_any_partition_key(bus, queues):
    queue = queues.take("session")
    annotations = {"x-opt-partition-key": "key"}
    properties = AmqpMessageProperties(group_id="")
    await bus.send(queue, AmqpAnnotatedMessage(data_body=b"", properties=properties, annotations=annotations))
    receiver = await bus.open_receiver(queue, session_id="")
    (message,) = await take(receiver, 1)
    assert (message.session_id, message.partition_key) == ("", "key")
    other = AmqpAnnotatedMessage(data_body=b"", properties=AmqpMessageProperties(group_id="s"), annotations=annotations)
    with pytest.raises(ServiceBusError, match="The partition key differs from the session id"):
        await bus.send(queue, other)
