"""Partitioned entities: the upper 16 bits of a sequence number are the partition of the message's key."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from administration import administration_client
from bus import DEAD_LETTER, RECEIVE_AND_DELETE, Bus, bodies, body, one, take
from daemon import Topic, entities_text
from rest import Rest

#: Keys and the partitions to which they belong, pinned as in `crates/engine/src/key_partition.rs`.
KEYS = {"1": 2, "2": 7, "order-7": 5, "session-1": 14}
LATER = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=300)


def partition(number: int) -> int:
    return number >> 48


def counted(number: int) -> int:
    """The number without its partition: the order in which the entity accepted the messages."""
    return number & (1 << 48) - 1


def moved(number: int) -> int:
    """The number that a message would have in another partition."""
    return (partition(number) + 1) % 16 << 48 | counted(number)


def annotated_partition(message) -> int:
    return message.raw_amqp_message.annotations[b"x-opt-partition-id"]


def keyed(key: str, text: str | None = None, **properties) -> ServiceBusMessage:
    return ServiceBusMessage(text or key, partition_key=key, **properties)


async def test_a_number_names_the_partition_of_the_key(bus, queues):
    queue = queues.take("partitioned")
    await bus.send(queue, *[keyed(key) for key in KEYS] * 2)
    messages = await bus.drain(queue, 8)
    # Stronger than Service Bus promises: the order is that of all partitions, not only of each key.
    assert bodies(messages) == [key.encode() for key in KEYS] * 2
    numbers = [message.sequence_number for message in messages]
    assert [partition(number) for number in numbers] == list(KEYS.values()) * 2
    assert [annotated_partition(message) for message in messages] == list(KEYS.values()) * 2
    assert [counted(number) for number in numbers] == list(range(1, 9))


async def test_messages_without_a_key_use_all_partitions_and_a_batch_one(bus, queues):
    queue = queues.take("partitioned")
    await bus.send(queue, *[ServiceBusMessage(b"x") for _ in range(16)])
    numbers = [message.sequence_number for message in await bus.drain(queue, 16)]
    assert {partition(number) for number in numbers} == set(range(16))
    await bus.send(queue, [ServiceBusMessage(b"x") for _ in range(5)])
    assert len({partition(message.sequence_number) for message in await bus.drain(queue, 5)}) == 1


async def test_an_entity_without_partitions_shows_none(bus, queue):
    await bus.send(queue, keyed("1"))
    message = await one(await bus.open_receiver(queue))
    assert message.sequence_number == 1
    assert b"x-opt-partition-id" not in message.raw_amqp_message.annotations
    receiver = await bus.open_receiver(queue)
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages(2 << 48 | 1)
    assert await receiver.peek_messages(sequence_number=2 << 48) == []


async def test_browsing_in_pages_goes_through_all_partitions(bus, queues):
    queue = queues.take("partitioned")
    texts = [f"{n}" for n in range(20)]
    await bus.send(queue, *[keyed(f"key-{text}", text) for text in texts])
    receiver = await bus.open_receiver(queue)
    pages = [await receiver.peek_messages(3) for _ in range(8)]
    assert [text.decode() for page in pages for text in bodies(page)] == texts
    assert pages[7] == []
    # Browsing from the number of a message begins with it; from an unknown partition it returns nothing.
    (_, third, *_) = pages[1]
    found = await receiver.peek_messages(2, sequence_number=third.sequence_number)
    assert bodies(found) == [b"4", b"5"]
    assert await receiver.peek_messages(2, sequence_number=16 << 48 | 1) == []
    assert bodies(await receiver.peek_messages(1, sequence_number=-(1 << 48))) == [b"0"]


async def test_scheduling_answers_with_the_number_to_cancel_by(bus, queues):
    queue = queues.take("partitioned")
    async with bus.sender(queue) as sender:
        numbers = await sender.schedule_messages([keyed("1", f"{n}") for n in range(2)], LATER)
        (other,) = await sender.schedule_messages(keyed("2"), LATER)
        assert [partition(number) for number in [*numbers, other]] == [2, 2, 7]
        assert [message.sequence_number for message in await bus.peek(queue)] == [*numbers, other]
        for wrong in (moved(other), counted(other), 16 << 48 | counted(other)):
            with pytest.raises(MessageNotFoundError):
                await sender.cancel_scheduled_messages([numbers[0], wrong])
        with pytest.raises(ServiceBusError):
            await sender.cancel_scheduled_messages(-other)
        assert len(await bus.peek(queue)) == 3
        # Service Bus accepts the numbers of one partition at a time.
        await sender.cancel_scheduled_messages([numbers[0], other])
    assert [message.sequence_number for message in await bus.peek(queue)] == numbers[1:]


async def test_a_scheduled_message_stays_in_its_partition(bus, queues, traveller):
    queue = queues.take("partitioned")
    when = traveller.now() + datetime.timedelta(hours=1)
    async with bus.sender(queue) as sender:
        (by_key,) = await sender.schedule_messages(keyed("2"), when)
        (in_turn,) = await sender.schedule_messages(ServiceBusMessage(b"x"), when)
    traveller.advance_to(when)
    messages = await bus.drain(queue, 2)
    numbers = [message.sequence_number for message in messages]
    assert [partition(number) for number in numbers] == [7, partition(in_turn)]
    assert counted(numbers[0]) > counted(by_key)


async def test_deferred_messages_are_found_by_the_number_that_was_shown(bus, queues):
    queue = queues.take("partitioned")
    await bus.send(queue, *[keyed(key) for key in KEYS])
    receiver = await bus.open_receiver(queue)
    messages = await take(receiver, 4)
    for message in messages:
        await receiver.defer_message(message)
    numbers = [message.sequence_number for message in messages]
    for wrong in (moved(numbers[1]), counted(numbers[1]), 16 << 48 | counted(numbers[1])):
        with pytest.raises(MessageNotFoundError):
            await receiver.receive_deferred_messages([numbers[0], wrong])
    with pytest.raises(ServiceBusError):
        await receiver.receive_deferred_messages(-numbers[0])
    again = await receiver.receive_deferred_messages(numbers)
    assert [message.sequence_number for message in again] == numbers
    assert [annotated_partition(message) for message in again] == list(KEYS.values())
    for message in again:
        await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_dead_letters_keep_their_number(bus, queues):
    queue = queues.take("partitioned")
    await bus.send(queue, keyed("1"), keyed("2"))
    receiver = await bus.open_receiver(queue)
    messages = await take(receiver, 2)
    for message in messages:
        await receiver.dead_letter_message(message, reason="r")
    numbers = [message.sequence_number for message in messages]
    assert [message.sequence_number for message in await bus.peek(queue, sub_queue=DEAD_LETTER)] == numbers
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    first, second = await take(dead, 2)
    await dead.defer_message(second)
    with pytest.raises(MessageNotFoundError):
        await dead.receive_deferred_messages(moved(second.sequence_number))
    (again,) = await dead.receive_deferred_messages(second.sequence_number)
    assert (again.sequence_number, again.dead_letter_reason) == (numbers[1], "r")
    await dead.complete_message(first)


async def test_a_session_is_the_key_of_its_messages(bus, queues):
    queue = queues.take("partitioned_session")
    texts = [f"{n}" for n in range(4)]
    await bus.send(queue, [ServiceBusMessage(text, session_id="session-1") for text in texts])
    await bus.send(queue, ServiceBusMessage(b"other", session_id="2"), ServiceBusMessage(b"4", session_id="SESSION-1"))
    session = await bus.open_receiver(queue, session_id="session-1")
    seen = await session.peek_messages(10, sequence_number=1)
    assert bodies(seen) == [b"0", b"1", b"2", b"3", b"4"]
    assert {partition(message.sequence_number) for message in seen} == {14}
    messages = await take(session, 5)
    assert [message.sequence_number for message in messages] == [message.sequence_number for message in seen]
    await session.defer_message(messages[0])
    with pytest.raises(MessageNotFoundError):
        await session.receive_deferred_messages(moved(messages[0].sequence_number))
    (again,) = await session.receive_deferred_messages(messages[0].sequence_number)
    assert body(again) == b"0"


async def test_a_batch_has_one_key(bus, queues):
    queue = queues.take("partitioned")
    words = "Batching brokered messages with distinct SessionId or PartitionKey is not supported"
    for batch in ([keyed("1"), keyed("2")], [keyed("1"), ServiceBusMessage(b"none")]):
        with pytest.raises(ServiceBusError, match=words) as refused:
            await bus.send(queue, batch)
        assert "not-allowed" in str(refused.value).lower() or "NotAllowed" in str(refused.value)
    async with bus.sender(queue) as sender:
        with pytest.raises(ServiceBusError, match=words):
            await sender.schedule_messages([keyed("1"), keyed("2")], LATER)
    assert await bus.peek(queue) == []
    await bus.send(queue, [keyed("1", "a"), keyed("1", "b")])
    assert bodies(await bus.peek(queue)) == [b"a", b"b"]


async def test_duplicates_have_the_same_id_and_key(bus, queues):
    queue = queues.take("partitioned_duplicates")
    await bus.send(
        queue,
        keyed("1", "a", message_id="m"),
        keyed("1", "again", message_id="m"),
        keyed("2", "of another key", message_id="m"),
        ServiceBusMessage(b"of no key", message_id="m"),
        ServiceBusMessage(b"again", message_id="m"),
        keyed("1", "without an id"),
    )
    assert bodies(await bus.peek(queue)) == [b"a", b"of another key", b"of no key", b"without an id"]
    words = "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId"
    with pytest.raises(ServiceBusError, match=words):
        await bus.send(queue, [ServiceBusMessage(f"{n}", message_id=f"{n}") for n in range(2)])
    await bus.send(queue, [keyed("2", f"{n}", message_id=f"{n}") for n in range(2)])
    assert len(await bus.peek(queue)) == 6


def test_where_duplicates_are_detected_a_message_needs_a_key(daemon, queues):
    """Over HTTP, since the SDK gives every message an id."""
    rest, queue = Rest(daemon), queues.take("partitioned_duplicates")
    words = b"Message to a partitioned entity with duplicate detection enabled must have either PartitionKey or MessageId"
    refused = rest.send(queue, b"x")
    assert refused.status == 405 and words in refused.body
    assert rest.send(queue, b"x", {"MessageId": "m"}).status == 201
    assert rest.send(queue, b"x", {"PartitionKey": "1"}).status == 201


async def test_copies_belong_to_the_partition_of_their_message(bus, topics):
    topic = topics.take("topic_partitioned")
    await bus.send(topic, keyed("1"), keyed("2"))
    async with bus.sender(topic) as sender:
        (number,) = await sender.schedule_messages(keyed("order-7"), LATER)
        assert partition(number) == 5
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(moved(number))
        await sender.cancel_scheduled_messages(number)
    for subscription in (topic / "one", topic / "two"):
        messages = await bus.drain(subscription, 2)
        assert [partition(message.sequence_number) for message in messages] == [2, 7]
        assert [annotated_partition(message) for message in messages] == [2, 7]
        first = [message.enqueued_sequence_number for message in messages]
        assert first == [2 << 48 | 1, 7 << 48 | 2], "those of the topic"


async def test_rules_see_the_number_that_is_shown(flavour, start_daemon):
    rules = [{"name": "seven", "sql": f"sys.SequenceNumber >= {7 << 48} AND sys.EnqueuedSequenceNumber >= {7 << 48}"}]
    topics = {"t": {"enable_partitioning": True, "subscriptions": [{"name": "seven", "rules": rules}]}}
    daemon = start_daemon(entities_text({}, topics))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(Topic("t"), keyed("1"), keyed("2"), keyed("order-7"), keyed("session-1"))
        assert bodies(await bus.peek(Topic("t") / "seven")) == [b"2", b"session-1"]


async def test_forwarding_between_partitioned_and_other_entities(flavour, start_daemon):
    """The target of forwarding chooses the partition again; the first number is unchanged."""
    queues = {
        "partitioned": {"enable_partitioning": True},
        "plain": {"forward_to": "partitioned"},
        "end": {},
        "partitioned-source": {"enable_partitioning": True, "forward_to": "end"},
    }
    daemon = start_daemon(entities_text(queues))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("plain", keyed("1"), ServiceBusMessage(b"session-1", session_id="session-1"))
        messages = await bus.drain("partitioned", 2)
        assert [message.sequence_number for message in messages] == [2 << 48 | 1, 14 << 48 | 2]
        assert [message.enqueued_sequence_number for message in messages] == [1, 2]
        await bus.send("partitioned-source", keyed("2"))
        (message,) = await bus.drain("end", 1)
        assert (message.sequence_number, message.enqueued_sequence_number) == (1, 7 << 48 | 1)


async def test_numbers_survive_a_kill(own_daemon, flavour):
    queue = "partitioned-0"
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(queue, *[keyed(key) for key in KEYS], ServiceBusMessage(b"no key"))
        receiver = await bus.open_receiver(queue)
        deferred = await one(receiver)
        await receiver.defer_message(deferred)
        async with bus.sender(queue) as sender:
            (scheduled,) = await sender.schedule_messages(keyed("2", "later"), LATER)
        before = [message.sequence_number for message in await bus.peek(queue)]
    own_daemon.kill()
    own_daemon.start()
    async with Bus(flavour, own_daemon.connection_string) as bus:
        assert [message.sequence_number for message in await bus.peek(queue)] == before
        receiver = await bus.open_receiver(queue)
        (again,) = await receiver.receive_deferred_messages(deferred.sequence_number)
        assert body(again) == b"1"
        async with bus.sender(queue) as sender:
            await sender.cancel_scheduled_messages(scheduled)
        await bus.send(queue, keyed("1", "after"))
        (*_, last) = await bus.peek(queue)
        assert last.sequence_number == 2 << 48 | counted(scheduled) + 1


def test_over_http_the_number_is_the_same(daemon, queues):
    rest, queue = Rest(daemon), queues.take("partitioned")
    assert rest.send(queue, b"x", {"PartitionKey": "2"}).status == 201
    locked = rest.peek_lock(queue)
    assert (locked.broker["SequenceNumber"], locked.broker["EnqueuedSequenceNumber"]) == (7 << 48 | 1, 0)
    assert f"/messages/{7 << 48 | 1}/" in locked.location
    assert rest.at("DELETE", locked.location).status == 200
    batch = [{"Body": "a", "BrokerProperties": {"PartitionKey": key}} for key in ("1", "2")]
    refused = rest.send_batch(queue, batch)
    assert refused.status == 405 and b"Batching brokered messages with distinct" in refused.body


async def test_entities_created_by_administration_are_partitioned(bus, daemon):
    with administration_client(daemon) as admin:
        created = admin.create_queue("made-partitioned-" + bus.flavour, enable_partitioning=True, enable_express=True)
        assert (created.enable_partitioning, created.enable_express) == (True, True)
        queue = created.name
        await bus.send(queue, keyed("2"))
        (message,) = await bus.drain(queue, 1)
        assert message.sequence_number == 7 << 48 | 1
        created.enable_express = False
        admin.update_queue(created)
        assert admin.get_queue(queue).enable_express is False
        created.enable_partitioning = False
        with pytest.raises(Exception, match="SubCode=40000. Partitioning cannot be changed for Queue"):
            admin.update_queue(created)
