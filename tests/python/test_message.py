"""Every property and every body is received as it was sent."""

import datetime
import uuid

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties

from bus import body, one

UTC = datetime.timezone.utc
BROKER_PROPERTIES = {
    "message_id": "message-1",
    "session_id": "session-1",
    "content_type": "application/json",
    "correlation_id": "correlation-1",
    "subject": "subject-1",
    "to": "to-1",
    "reply_to": "reply-to-1",
    "reply_to_session_id": "reply-session-1",
    "partition_key": "session-1",
}
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
APPLICATION_VALUES = {
    "string": ("text", b"text"),
    "empty string": ("", b""),
    "unicode": ("žluťoučký 🐎", "žluťoučký 🐎".encode()),
    # The SDK treats bytes as UTF-8 text here; real binary is below.
    "bytes": (b"bytes", b"bytes"),
    "true": (True, True),
    "false": (False, False),
    "zero": (0, 0),
    "negative": (-1, -1),
    "int32 least": (-(2**31), -(2**31)),
    "int32 most": (2**31 - 1, 2**31 - 1),
    "double": (1.5e300, 1.5e300),
    "uuid": (uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF), uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF)),
    "datetime": (MOMENT, int(MOMENT.timestamp() * 1000)),
    "null": (None, None),
}
#: AMQP types that the SDK writes only if they are given explicitly.
TYPED_VALUES = {
    "UBYTE": 255,
    "BYTE": -128,
    "USHORT": 65535,
    "SHORT": -32768,
    "UINT": 2**32 - 1,
    "ULONG": 2**64 - 1,
    "LONG": -(2**63),
    "FLOAT": 0.5,
    "SYMBOL": b"symbol",
    "BINARY": b"\x00\xff",
}


async def round_trip(bus, queue, message):
    await bus.send(queue, message)
    (received,) = await bus.drain(queue, 1)
    return received


async def test_broker_properties_come_back(bus, queue):
    received = await round_trip(bus, queue, ServiceBusMessage(b"", **BROKER_PROPERTIES))
    assert {name: getattr(received, name) for name in BROKER_PROPERTIES} == BROKER_PROPERTIES


async def test_a_partition_key_needs_no_session(bus, queue):
    received = await round_trip(bus, queue, ServiceBusMessage(b"", partition_key="key"))
    assert received.partition_key == "key"
    assert received.session_id is None


async def test_properties_that_were_not_set_stay_unset(bus, queue):
    received = await round_trip(bus, queue, ServiceBusMessage(b""))
    names = ["session_id", "content_type", "correlation_id", "subject", "to", "reply_to", "reply_to_session_id"]
    names += ["partition_key", "scheduled_enqueue_time_utc", "dead_letter_reason", "dead_letter_source", "time_to_live"]
    assert {name: getattr(received, name) for name in names} == dict.fromkeys(names)


async def test_the_broker_sets_its_own_properties(bus, queue):
    before = datetime.datetime.now(UTC) - datetime.timedelta(seconds=1)
    received = await round_trip(bus, queue, ServiceBusMessage(b""))
    assert before < received.enqueued_time_utc < datetime.datetime.now(UTC) + datetime.timedelta(seconds=1)
    assert received.delivery_count == 0
    assert received.sequence_number == 1
    assert received.state.name == "ACTIVE"


@pytest.mark.parametrize("name", APPLICATION_VALUES)
async def test_application_properties_keep_type_and_value(bus, queue, name):
    sent, expected = APPLICATION_VALUES[name]
    received = await round_trip(bus, queue, ServiceBusMessage(b"", application_properties={name: sent}))
    value = received.application_properties[name.encode()]
    assert value == expected
    assert type(value) is type(expected)


async def test_application_properties_of_every_amqp_type(bus, queue):
    typed = {name: {"TYPE": name, "VALUE": value} for name, value in TYPED_VALUES.items()}
    received = await round_trip(bus, queue, ServiceBusMessage(b"", application_properties=typed))
    assert received.application_properties == {name.encode(): value for name, value in TYPED_VALUES.items()}


async def test_sixty_application_properties(bus, queue):
    properties = {f"key-{n}": f"value-{n}" * 20 for n in range(60)}
    received = await round_trip(bus, queue, ServiceBusMessage(b"", application_properties=properties))
    assert received.application_properties == {k.encode(): v.encode() for k, v in properties.items()}


@pytest.mark.parametrize("sent", [b"", b"bytes", "text", "ü", bytes(range(256))], ids=repr)
async def test_a_data_body(bus, queue, sent):
    received = await round_trip(bus, queue, ServiceBusMessage(sent))
    assert received.body_type == AmqpMessageBodyType.DATA
    assert body(received) == (sent.encode() if isinstance(sent, str) else sent)


async def test_a_message_without_a_body(bus, queue):
    received = await round_trip(bus, queue, ServiceBusMessage(None, message_id="bodiless"))
    assert received.message_id == "bodiless"


async def test_several_data_sections_stay_apart(bus, queue):
    received = await round_trip(bus, queue, AmqpAnnotatedMessage(data_body=[b"one", b"", b"three"]))
    assert list(received.raw_amqp_message.body) == [b"one", b"", b"three"]


@pytest.mark.parametrize(
    "sent, expected",
    [
        ("text", b"text"),
        (12, 12),
        (1.5, 1.5),
        (b"bytes", b"bytes"),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        ([1, "two", None], [1, b"two", None]),
        ({"key": ["nested", {"deep": 1}]}, {b"key": [b"nested", {b"deep": 1}]}),
    ],
    ids=repr,
)
async def test_a_value_body(bus, queue, sent, expected):
    received = await round_trip(bus, queue, AmqpAnnotatedMessage(value_body=sent))
    assert received.body_type == AmqpMessageBodyType.VALUE
    assert received.raw_amqp_message.body == expected


async def test_a_sequence_body(bus, queue):
    received = await round_trip(bus, queue, AmqpAnnotatedMessage(sequence_body=[[1, "two", 3.0], [b"four", None]]))
    assert received.body_type == AmqpMessageBodyType.SEQUENCE
    assert list(received.raw_amqp_message.body) == [[1, b"two", 3.0], [b"four", None]]


async def test_every_section_of_an_annotated_message_comes_back(bus, queue):
    creation = int(MOMENT.timestamp() * 1000)
    sent = AmqpAnnotatedMessage(
        data_body=b"all",
        header=AmqpMessageHeader(durable=True, priority=7),
        properties=AmqpMessageProperties(
            message_id="id",
            user_id=b"user",
            to="to",
            subject="subject",
            reply_to="reply",
            correlation_id="correlation",
            content_type="type",
            content_encoding="encoding",
            creation_time=creation,
            group_id="group",
            group_sequence=3,
            reply_to_group_id="reply-group",
        ),
        application_properties={"application": 1},
        annotations={"x-opt-custom": "annotation", "custom": 2},
        footer={"foot": "note"},
    )
    await bus.send(queue, sent)
    (received,) = await bus.drain(queue, 1)
    raw = received.raw_amqp_message
    assert (raw.header.durable, raw.header.priority) == (True, 7)
    found = {name: getattr(raw.properties, name) for name in ("message_id", "user_id", "to", "subject", "reply_to")}
    assert found == {"message_id": b"id", "user_id": b"user", "to": b"to", "subject": b"subject", "reply_to": b"reply"}
    assert (raw.properties.correlation_id, raw.properties.content_type) == (b"correlation", b"type")
    assert (raw.properties.content_encoding, raw.properties.creation_time) == (b"encoding", creation)
    assert (raw.properties.group_id, raw.properties.group_sequence) == (b"group", 3)
    assert raw.properties.reply_to_group_id == b"reply-group"
    assert raw.application_properties == {b"application": 1}
    assert raw.annotations[b"x-opt-custom"] == b"annotation"
    assert raw.annotations[b"custom"] == 2
    assert raw.footer == {b"foot": b"note"}


async def test_delivery_annotations_come_through(bus, queue):
    """The SDK writes them after all other sections."""
    sent = AmqpAnnotatedMessage(data_body=b"body", delivery_annotations={"hop": 1}, footer={"foot": "note"})
    received = await round_trip(bus, queue, sent)
    assert body(received) == b"body"
    assert received.raw_amqp_message.delivery_annotations[b"hop"] == 1
    assert received.raw_amqp_message.footer == {b"foot": b"note"}


async def test_a_locked_message_has_its_lock_token_among_its_delivery_annotations(bus, queue):
    sent = AmqpAnnotatedMessage(data_body=b"", delivery_annotations={"x-opt-lock-token": "forged"})
    await bus.send(queue, sent)
    receiver = await bus.open_receiver(queue)
    received = await one(receiver)
    assert received.raw_amqp_message.delivery_annotations == {b"x-opt-lock-token": received.lock_token}
    assert isinstance(received.lock_token, uuid.UUID)
    await receiver.complete_message(received)


async def test_a_message_received_and_deleted_has_empty_delivery_annotations(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    (received,) = await bus.drain(queue, 1)
    assert received.raw_amqp_message.delivery_annotations == {}


async def test_a_message_received_and_deleted_has_no_delivery_tag(bus, queue):
    """As in `test_message_backcompat_receive_and_delete_databody`, a test that the SDK runs against the service."""
    await bus.send(queue, ServiceBusMessage(b"deleted"))
    (received,) = await bus.drain(queue, 1)
    assert received.message.delivery_tag is None
    await bus.send(queue, ServiceBusMessage(b"locked"))
    receiver = await bus.open_receiver(queue)
    received = await one(receiver)
    assert received.message.delivery_tag == received.lock_token.bytes_le


async def test_a_sender_cannot_forge_properties_that_the_broker_sets(bus, queue):
    forged = AmqpAnnotatedMessage(
        data_body=b"",
        annotations={"x-opt-sequence-number": 4711, "x-opt-message-state": 1, "x-opt-enqueued-time": 1},
        header=AmqpMessageHeader(delivery_count=9),
    )
    received = await round_trip(bus, queue, forged)
    assert received.sequence_number == 1
    assert received.state.name == "ACTIVE"
    assert received.delivery_count == 0
    assert received.enqueued_time_utc.year >= 2026


async def test_a_time_to_live_comes_back_with_its_end(bus, queue):
    """S-2: the expiry is the enqueued time plus the time to live."""
    ttl = datetime.timedelta(minutes=10)
    received = await round_trip(bus, queue, ServiceBusMessage(b"", time_to_live=ttl))
    assert received.time_to_live == ttl
    assert received.expires_at_utc == received.enqueued_time_utc + ttl
    absolute = received.raw_amqp_message.properties.absolute_expiry_time
    assert absolute == round(received.expires_at_utc.timestamp() * 1000)


@pytest.mark.parametrize("size", [1, 255, 256, 65_536, 262_144, 900 * 1024])
async def test_bodies_of_every_size_arrive_whole(bus, queue, size):
    sent = (bytes(range(256)) * (size // 256 + 1))[:size]
    received = await round_trip(bus, queue, ServiceBusMessage(sent, message_id=f"{size}"))
    assert body(received) == sent


async def test_large_messages_are_locked_completed_and_peeked(bus, queue):
    sent = [bytes([n]) * (900 * 1024) for n in range(4)]
    await bus.send(queue, *[ServiceBusMessage(each) for each in sent])
    assert [body(m) for m in await bus.peek(queue)] == sent
    receiver = await bus.open_receiver(queue)
    for each in sent:
        (message,) = await receiver.receive_messages(1, max_wait_time=30)
        assert body(message) == each
        await receiver.complete_message(message)
    assert await bus.peek(queue) == []
