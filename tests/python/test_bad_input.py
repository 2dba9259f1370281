"""Bad input: each mistake is reported by the SDK's own exception type, and has no other effect."""

import datetime
import uuid

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    SessionLockLostError,
)

from bus import DEAD_LETTER, bodies, body, nothing, one, take
from daemon import Subscription, Topic

SETTLEMENTS = ["complete", "abandon", "defer", "dead_letter"]
TOO_LONG = "x" * 129
HOUR = datetime.timedelta(hours=1)


async def refused(awaitable, kind: type = ServiceBusError, text: str | None = None):
    """The exact type: a subclass would be another answer."""
    with pytest.raises(kind, match=text) as error:
        await awaitable
    assert type(error.value) is kind, repr(error.value)


def message(text="m", session_id="s") -> ServiceBusMessage:
    return ServiceBusMessage(text, session_id=session_id)


@pytest.fixture
def session_queue(queues):
    return queues.take("session")


@pytest.fixture
def session_topic(topics):
    return topics.take("topic_sessions")


# Receivers that are unsuitable for their entity.


async def test_a_receiver_without_a_session_where_one_is_required(bus, session_queue, session_topic):
    text = "not possible for an entity that requires sessions"
    await refused(bus.open_receiver(session_queue), text=text)
    await refused(bus.open_receiver(session_topic / "session"), text=text)
    # The dead-letter queue has no sessions.
    assert await nothing(await bus.open_receiver(session_queue, sub_queue=DEAD_LETTER))


@pytest.mark.parametrize("session_id", ["s", "", NEXT_AVAILABLE_SESSION], ids=["named", "empty", "next"])
async def test_a_session_receiver_where_there_are_none(bus, queue, session_queue, session_topic, session_id):
    text = "does not require sessions"
    await refused(bus.open_receiver(queue, session_id=session_id), text=text)
    await refused(bus.open_receiver(session_topic / "plain", session_id=session_id), text=text)
    # The service's words (azure-sdk-for-java 10662).
    text = "Cannot create a MessageSession for a sub-queue"
    await refused(bus.open_receiver(f"{session_queue}/$DeadLetterQueue", session_id=session_id), text=text)


async def test_receiving_from_a_topic(bus, topic):
    text = "can't be received from a topic"
    await refused(bus.open_receiver(str(topic)), text=text)
    await refused(bus.open_receiver(str(topic), session_id="s"), text=text)
    await refused(bus.peek(str(topic)), text=text)
    await bus.send(topic, message())
    assert len(await bus.peek(topic / "one")) == 1


async def test_sending_to_a_subscription_or_a_dead_letter_queue(bus, queue, topic):
    await refused(bus.send(f"{topic}/Subscriptions/one", message()), text="can't be sent to a subscription")
    await refused(bus.send(f"{queue}/$DeadLetterQueue", message()))
    assert await bus.peek(topic / "one") == []
    assert await bus.peek(queue, sub_queue=DEAD_LETTER) == []


async def test_missing_entities_and_messages(bus, queue, topic):
    """An unknown queue or topic is reported by the answer to the token for it, an unknown subscription by its link."""
    unknown = {
        "nowhere": ServiceBusAuthenticationError,
        Subscription("nowhere", "one"): ServiceBusAuthenticationError,
        Subscription(topic, "nowhere"): MessagingEntityNotFoundError,
        Subscription(queue, "one"): MessagingEntityNotFoundError,
    }
    for source, kind in unknown.items():
        for options in ({}, {"sub_queue": DEAD_LETTER}, {"session_id": "s"}):
            await refused(bus.open_receiver(source, **options), kind)
        await refused(bus.peek(source), kind)
    for target in ("nowhere", Topic("nowhere")):
        await refused(bus.send(target, message()), ServiceBusAuthenticationError)
    await refused(bus.send(f"{topic}/Subscriptions/nowhere", message()), MessagingEntityNotFoundError)


# Session ids.


async def test_session_ids_that_are_too_long(bus, session_queue):
    text = "longer than 128"
    await refused(bus.open_receiver(session_queue, session_id=TOO_LONG), text=text)
    with pytest.raises(ValueError, match="128"):
        message(session_id=TOO_LONG)
    sender = await bus.open_sender(session_queue)
    for each in (forged_session(TOO_LONG), [message(), forged_session(TOO_LONG)]):
        await refused(sender.send_messages(each), text=text)
    await refused(schedule(sender, forged_session(TOO_LONG)), text=text)
    # 128 characters are allowed, regardless of their bytes.
    await sender.send_messages(message("fits", "ä" * 128))
    receiver = await bus.open_receiver(session_queue, session_id="ä" * 128)
    assert body(await one(receiver)) == b"fits"


async def test_partition_keys_that_are_too_long(bus, queue):
    """The SDK's own limit is 128 (`MaxPartitionKeyLength` in .NET); Python's annotated message has none."""
    sender = await bus.open_sender(queue)
    await refused(sender.send_messages(keyed(TOO_LONG)), text="partition key is longer than 128")
    await sender.send_messages(keyed("ä" * 128))
    assert body(await one(await bus.open_receiver(queue))) == b"m"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("session id to reply to is longer than 128", lambda text: {"properties": {"reply_to_group_id": text}}),
        ("via partition key is longer than 128", lambda text: {"annotations": {b"x-opt-via-partition-key": text}}),
    ],
    ids=["reply-to", "via"],
)
async def test_other_ids_that_are_too_long(bus, queue, text, parts):
    """The service limits them as well (azure-sdk-for-net 32689)."""
    sender = await bus.open_sender(queue)
    await refused(sender.send_messages(AmqpAnnotatedMessage(data_body=b"m", **parts(TOO_LONG))), text=text)
    await sender.send_messages(AmqpAnnotatedMessage(data_body=b"m", **parts("ä" * 128)))
    assert body(await one(await bus.open_receiver(queue))) == b"m"


def keyed(partition_key: str) -> AmqpAnnotatedMessage:
    return AmqpAnnotatedMessage(data_body=b"m", annotations={"x-opt-partition-key": partition_key})


def forged_session(session_id: str) -> ServiceBusMessage:
    """Past the SDK's own check."""
    forged = ServiceBusMessage(b"m")
    forged._session_id = session_id
    forged.raw_amqp_message.properties.group_id = session_id
    return forged


def schedule(sender, messages):
    return sender.schedule_messages(messages, datetime.datetime.now(datetime.timezone.utc) + HOUR)


async def test_a_message_without_a_session_id_where_one_is_required(bus, session_queue):
    text = "SessionId was not set"
    sender = await bus.open_sender(session_queue)
    homeless = ServiceBusMessage(b"homeless")
    await refused(sender.send_messages(homeless), text=text)
    await refused(sender.send_messages([message(), homeless]), text=text)
    await refused(schedule(sender, homeless), text=text)
    await refused(schedule(sender, [message(), homeless]), text=text)
    # The empty id is valid; and the sender continues.
    await sender.send_messages([message("empty", ""), message("named")])
    assert bodies(await (await bus.open_receiver(session_queue, session_id="")).peek_messages(9)) == [b"empty"]
    assert bodies(await (await bus.open_receiver(session_queue, session_id="s")).peek_messages(9)) == [b"named"]


# Locks and their tokens.


@pytest.mark.parametrize("target", ["queue", "subscription"])
async def test_renewing_and_settling_with_a_lost_lock(bus, queue, topics, traveller, target):
    topic = topics.take("topic")
    source = queue if target == "queue" else topic / "one"
    await bus.send(queue if target == "queue" else topic, message())
    receiver = await bus.open_receiver(source)
    received = await one(receiver)
    traveller.advance(minutes=2)
    await refused(receiver.renew_message_lock(received), MessageLockLostError)
    for operation in SETTLEMENTS:
        await refused(getattr(receiver, f"{operation}_message")(received), MessageLockLostError)
    assert [m.state.name for m in await bus.peek(source)] == ["ACTIVE"]


async def test_renewing_and_settling_with_a_lost_session_lock(bus, session_queue, traveller):
    await bus.send(session_queue, message())
    receiver = await bus.open_receiver(session_queue, session_id="s")
    received = await one(receiver)
    traveller.advance(minutes=2)
    await refused(receiver.session.renew_lock(), SessionLockLostError)
    for operation in SETTLEMENTS:
        await refused(getattr(receiver, f"{operation}_message")(received), SessionLockLostError)
    following = await bus.open_receiver(session_queue, session_id="s")
    assert [m.state.name for m in await following.peek_messages(9)] == ["ACTIVE"]


@pytest.mark.parametrize("operation", SETTLEMENTS)
async def test_settling_twice(bus, queue, operation):
    """The SDK refuses by itself; the broker refuses it to another client."""
    await bus.send(queue, message())
    receiver = await bus.open_receiver(queue)
    received = await one(receiver)
    await receiver.complete_message(received)
    await refused(getattr(receiver, f"{operation}_message")(received), MessageAlreadySettled)
    received._settled = False
    other = await bus.open_receiver(queue)
    await refused(getattr(other, f"{operation}_message")(received), MessageLockLostError)
    received._settled = False
    await refused(other.renew_message_lock(received), MessageLockLostError)


@pytest.mark.parametrize("operation", SETTLEMENTS)
async def test_a_token_of_another_queue(bus, queues, topic, operation):
    here, there = queues.take(), queues.take()
    for target in (here, there, topic):
        await bus.send(target, message())
    receiver = await bus.open_receiver(here)
    received = await one(receiver)
    for source in (there, topic / "one", there):
        foreign = await bus.open_receiver(source)
        await refused(getattr(foreign, f"{operation}_message")(received), MessageLockLostError)
        await refused(foreign.renew_message_lock(received), MessageLockLostError)
    # No message was affected, here or there.
    await receiver.complete_message(received)
    assert await bus.peek(here) == []
    for source in (there, topic / "one"):
        assert [m.state.name for m in await bus.peek(source)] == ["ACTIVE"]


@pytest.mark.parametrize("status", ["completed", "abandoned", "defered", "suspended"])
async def test_a_token_that_never_was(bus, queue, status):
    await bus.send(queue, message())
    receiver = await bus.open_receiver(queue)
    received = await one(receiver)
    tokens = [uuid.uuid4()]
    await refused(receiver._settle_message_via_mgmt_link(status, tokens), MessageLockLostError)
    await refused(receiver._renew_locks(*tokens), MessageLockLostError)
    await receiver.complete_message(received)
    assert await bus.peek(queue) == []


async def test_settlements_that_make_no_sense(bus, queue):
    await bus.send(queue, message())
    receiver = await bus.open_receiver(queue)
    received = await one(receiver)
    tokens = [received.lock_token]
    for status, tokens in [("nonsense", tokens), ("", tokens), ("completed", ["no token"]), ("completed", [7])]:
        await refused(receiver._settle_message_via_mgmt_link(status, tokens))
    await refused(receiver._renew_locks("no token"))
    # The SDK has closed the receiver for this error.
    await (await bus.open_receiver(queue)).complete_message(received)
    assert await bus.peek(queue) == []


async def test_the_lock_of_a_message_of_a_session(bus, session_queue):
    """The message has no lock of its own: the SDK refuses to send the request, and the broker to renew."""
    await bus.send(session_queue, message())
    receiver = await bus.open_receiver(session_queue, session_id="s")
    received = await one(receiver)
    with pytest.raises(TypeError, match="session"):
        await receiver.renew_message_lock(received)
    await refused(receiver._renew_locks(received.lock_token))


@pytest.mark.parametrize("operation", SETTLEMENTS)
async def test_a_token_of_a_session_that_was_given_back(bus, session_queue, operation):
    """Another holder presents it: this one holds the session, so the message's lock is lost."""
    await bus.send(session_queue, message("first"), message("second"))
    async with bus.receiver(session_queue, session_id="s") as receiver:
        received = await one(receiver)
    following = await bus.open_receiver(session_queue, session_id="s")
    await refused(getattr(following, f"{operation}_message")(received), MessageLockLostError)
    assert bodies(await take(following, 2)) == [b"first", b"second"]


# Sequence numbers.


async def test_cancelling_a_message_that_is_not_scheduled(bus, queue, traveller):
    """In the words of Service Bus: azure-service-bus 239, MassTransit 926."""
    sender = await bus.open_sender(queue)
    await sender.send_messages(message("active"))
    due = traveller.now() + HOUR
    (activated,) = await sender.schedule_messages(message("due"), due)
    (pending,) = await sender.schedule_messages(message("later"), due + HOUR)
    traveller.advance_to(due)
    never, active = 4711, 1
    for number in (activated, active, never, 0, 2**63 - 1, [pending, activated], [pending, never]):
        await refused(sender.cancel_scheduled_messages(number), MessageNotFoundError)
    assert bodies(await bus.peek(queue)) == [b"active", b"later", b"due"]
    await sender.cancel_scheduled_messages(pending)
    text = f"Messages not found. Missing sequence numbers: {pending} "
    await refused(sender.cancel_scheduled_messages(pending), MessageNotFoundError, text)


@pytest.mark.parametrize("target", ["queue", "subscription"])
async def test_deferred_numbers_that_do_not_exist(bus, queue, topic, target):
    """In the words of Service Bus: azure-service-bus 415, azure-sdk-for-python 25698."""
    source = queue if target == "queue" else topic / "one"
    await bus.send(queue if target == "queue" else topic, message("deferred"), message("active"))
    receiver = await bus.open_receiver(source)
    deferred = await one(receiver)
    await receiver.defer_message(deferred)
    number, active, never = deferred.sequence_number, 2, 4711
    for numbers in (active, never, 0, 2**63 - 1, [number, active], [number, never]):
        await refused(receiver.receive_deferred_messages(numbers), MessageNotFoundError)
    await refused(receiver.receive_deferred_messages([number, number]))
    (found,) = await receiver.receive_deferred_messages(number)
    text = "Failed to lock one or more specified messages. Either the message is already locked or does not exist."
    await refused(receiver.receive_deferred_messages(number), MessageNotFoundError, text)
    await receiver.complete_message(found)
    await refused(receiver.receive_deferred_messages(number), MessageNotFoundError)


async def test_deferred_numbers_of_another_session(bus, session_queue):
    await bus.send(session_queue, message("here", "a"), message("there", "b"))
    receiver = await bus.open_receiver(session_queue, session_id="a")
    deferred = await one(receiver)
    await receiver.defer_message(deferred)
    foreign = await bus.open_receiver(session_queue, session_id="b")
    await refused(foreign.receive_deferred_messages(deferred.sequence_number), MessageNotFoundError)
    (found,) = await receiver.receive_deferred_messages(deferred.sequence_number)
    assert body(found) == b"here"


# Mistakes of one client do not affect others.


async def test_mistakes_harm_no_neighbour(bus, queue, topic):
    receiver = await bus.open_receiver(queue)
    sender = await bus.open_sender(queue)
    for source in ("nowhere", str(topic)):
        with pytest.raises(ServiceBusError):
            await bus.open_receiver(source)
    await refused(receiver._settle_message_via_mgmt_link("nonsense", [uuid.uuid4()]))
    await refused(sender.cancel_scheduled_messages(4711), MessageNotFoundError)
    await sender.send_messages(message("fine"))
    received = await one(receiver)
    assert body(received) == b"fine"
    await receiver.complete_message(received)
