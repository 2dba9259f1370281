"""Topics: every subscription gets its own copy of matching messages."""

import asyncio
import datetime

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from bus import DEAD_LETTER, RECEIVE_AND_DELETE, Bus, bodies, body, nothing, one, take
from daemon import Subscription, Topic, entities_text

HOUR = datetime.timedelta(hours=1)


async def test_every_subscription_gets_its_own_copy(bus, topic):
    await bus.send(topic, [ServiceBusMessage(f"{n}") for n in range(5)], ServiceBusMessage("last"))
    expected = [b"0", b"1", b"2", b"3", b"4", b"last"]
    one_receiver = await bus.open_receiver(topic / "one")
    messages = await take(one_receiver, 6)
    assert bodies(messages) == expected
    assert [m.sequence_number for m in messages] == list(range(1, 7))
    for message in messages:
        await one_receiver.complete_message(message)
    assert await bus.peek(topic / "one") == []
    assert bodies(await bus.peek(topic / "two")) == expected, "untouched"
    assert bodies(await bus.drain(topic / "two", 6)) == expected


async def test_a_message_keeps_everything_on_its_way(bus, topic):
    sent = ServiceBusMessage(
        b"body",
        message_id="id",
        correlation_id="correlation",
        subject="subject",
        content_type="type",
        reply_to="reply",
        to="to",
        session_id="session",
        application_properties={"text": "x", "number": 1, "truth": True},
    )
    await bus.send(topic, sent)
    for name in ["one", "two"]:
        (received,) = await bus.drain(topic / name, 1)
        assert (received.message_id, received.correlation_id, received.subject) == ("id", "correlation", "subject")
        assert (received.content_type, received.reply_to, received.to) == ("type", "reply", "to")
        assert received.session_id == "session"
        assert received.application_properties == {b"text": b"x", b"number": 1, b"truth": True}
        assert received.sequence_number == received.enqueued_sequence_number == 1


async def test_copies_live_on_their_own(bus, topic):
    """Lock, count, deferral and dead-lettering of a copy do not affect the other."""
    await bus.send(topic, *(ServiceBusMessage(f"{n}") for n in range(4)))
    receiver = await bus.open_receiver(topic / "one")
    first, second, third, _ = await take(receiver, 4)
    await receiver.abandon_message(first)
    await receiver.defer_message(second)
    await receiver.dead_letter_message(third, reason="why", error_description="because")
    again = await one(receiver)
    assert (body(again), again.delivery_count) == (b"0", 1)
    (deferred,) = await receiver.receive_deferred_messages(second.sequence_number)
    assert body(deferred) == b"1"
    (dead,) = await bus.peek(topic / "one", sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"2", "why")
    assert await bus.peek(topic / "two", sub_queue=DEAD_LETTER) == []
    others = await bus.drain(topic / "two", 4)
    assert [(body(m), m.delivery_count) for m in others] == [(b"0", 0), (b"1", 0), (b"2", 0), (b"3", 0)]


async def test_locks_are_renewed_and_settled_in_their_subscription_only(bus, topic):
    await bus.send(topic, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(topic / "one")
    message = await one(receiver)
    end = message.locked_until_utc
    await asyncio.sleep(0.01)
    assert await receiver.renew_message_lock(message) > end
    other = await bus.open_receiver(topic / "two")
    with pytest.raises(ServiceBusError):
        await other.complete_message(message)
    await receiver.complete_message(message)
    assert len(await bus.peek(topic / "two")) == 1


async def test_the_dead_letter_queue_of_a_subscription(bus, topic):
    await bus.send(topic, ServiceBusMessage(b"1"), ServiceBusMessage(b"2"))
    receiver = await bus.open_receiver(topic / "two")
    for message in await take(receiver, 2):
        await receiver.dead_letter_message(message, reason="r")
    dead = await bus.open_receiver(topic / "two", sub_queue=DEAD_LETTER)
    messages = await take(dead, 2)
    assert bodies(messages) == [b"1", b"2"]
    assert {m.dead_letter_reason for m in messages} == {"r"}
    await dead.complete_message(messages[0])
    assert bodies(await bus.peek(topic / "two", sub_queue=DEAD_LETTER)) == [b"2"]
    assert len(await bus.peek(topic / "one")) == 2


async def test_rules_decide_who_gets_a_message(bus, topics):
    topic = topics.take("topic_rules")
    eu = {"region": "eu", "amount": 5}
    await bus.send(
        topic,
        ServiceBusMessage(b"plain"),
        ServiceBusMessage(b"red", subject="red"),
        ServiceBusMessage(b"Red", subject="Red"),
        ServiceBusMessage(b"eu", application_properties=eu),
        ServiceBusMessage(b"half", application_properties={"region": "eu"}),
        ServiceBusMessage(b"case", application_properties={"REGION": "eu", "Amount": 5}),
        ServiceBusMessage(b"both", subject="red", application_properties=eu),
    )
    assert len(await bus.drain(topic / "all", 7)) == 7
    assert bodies(await bus.peek(topic / "red")) == [b"red", b"both"]
    assert bodies(await bus.peek(topic / "eu")) == [b"eu", b"case", b"both"]
    assert await bus.peek(topic / "none") == []
    # Numbers are those of the subscription; the topic's are given as well.
    assert [m.sequence_number for m in await bus.peek(topic / "red")] == [1, 2]


async def test_a_batch_is_sorted_message_by_message(bus, topics):
    topic = topics.take("topic_rules")
    sender = await bus.open_sender(topic)
    await sender.send_messages([ServiceBusMessage(f"{n}", subject="red" if n % 2 else "blue") for n in range(6)])
    assert bodies(await bus.drain(topic / "red", 3)) == [b"1", b"3", b"5"]
    assert len(await bus.peek(topic / "all")) == 6


async def test_sessions_of_a_subscription(bus, topics):
    topic = topics.take("topic_sessions")
    await bus.send(topic, ServiceBusMessage(b"1", session_id="a"), ServiceBusMessage(b"2", session_id="b"))
    receiver = await bus.open_receiver(topic / "session", session_id="b")
    message = await one(receiver)
    assert (body(message), message.session_id) == (b"2", "b")
    await receiver.session.set_state(b"x")
    assert await receiver.session.get_state() == b"x"
    await receiver.session.renew_lock()
    await receiver.complete_message(message)
    following = await bus.open_receiver(topic / "session", session_id=NEXT_AVAILABLE_SESSION)
    assert following.session.session_id == "a"
    assert bodies(await bus.drain(topic / "plain", 2)) == [b"1", b"2"]
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        await bus.open_receiver(topic / "plain", session_id="a")
    with pytest.raises(ServiceBusError, match="entity that requires sessions"):
        await bus.open_receiver(topic / "session")


async def test_a_message_without_a_session_id_is_dead_lettered_where_one_is_needed(bus, topics):
    topic = topics.take("topic_sessions")
    await bus.send(topic, ServiceBusMessage(b"homeless"))
    assert bodies(await bus.drain(topic / "plain", 1)) == [b"homeless"]
    (dead,) = await bus.peek(topic / "session", sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"homeless", "Session id is null.")


async def test_a_scheduled_message_is_published_at_its_time(bus, topics, traveller):
    topic = topics.take("topic")
    sender = await bus.open_sender(topic)
    due = traveller.now() + HOUR
    numbers = await sender.schedule_messages([ServiceBusMessage(b"due"), ServiceBusMessage(b"never")], due)
    await sender.cancel_scheduled_messages(numbers[1])
    with pytest.raises(MessageNotFoundError):
        await sender.cancel_scheduled_messages(numbers[1])
    assert await bus.peek(topic / "one") == [], "it rests on the topic"
    traveller.advance(hours=1, seconds=1)
    for name in ["one", "two"]:
        (message,) = await bus.drain(topic / name, 1)
        assert body(message) == b"due"
        assert message.enqueued_time_utc >= due


async def test_a_time_to_live_holds_in_every_subscription(bus, topics, traveller):
    topic = topics.take("topic")
    await bus.send(topic, ServiceBusMessage(b"short", time_to_live=HOUR), ServiceBusMessage(b"long"))
    assert [m.time_to_live for m in await bus.peek(topic / "one")][0] == HOUR
    traveller.advance(hours=2)
    for name in ["one", "two"]:
        assert bodies(await bus.drain(topic / name, 1)) == [b"long"]
        assert await bus.peek(topic / name) == []


async def test_receive_and_delete(bus, topic):
    await bus.send(topic, ServiceBusMessage(b"1"))
    receiver = await bus.open_receiver(topic / "one", receive_mode=RECEIVE_AND_DELETE)
    assert body(await one(receiver)) == b"1"
    assert await bus.peek(topic / "one") == []
    assert len(await bus.peek(topic / "two")) == 1


async def test_a_waiting_subscription_gets_sent_messages(bus, topic):
    receiver = await bus.open_receiver(topic / "one")
    assert await nothing(receiver)
    await bus.send(topic, ServiceBusMessage(b"late"))
    assert body(await one(receiver)) == b"late"


async def test_a_message_that_is_too_large(bus, topic):
    sender = await bus.open_sender(topic)
    with pytest.raises(MessageSizeExceededError):
        await sender.send_messages(ServiceBusMessage(b"x" * (1024 * 1024 + 1)))
    large = b"x" * 900_000
    await sender.send_messages(ServiceBusMessage(large))
    for name in ["one", "two"]:
        (message,) = await bus.drain(topic / name, 1)
        assert body(message) == large


async def test_missing_entities_and_messages(bus, topic):
    with pytest.raises(MessagingEntityNotFoundError):
        await bus.open_receiver(topic / "nowhere")
    with pytest.raises(ServiceBusAuthenticationError):
        await bus.open_receiver(Subscription("nowhere", "one"))
    with pytest.raises(ServiceBusAuthenticationError):
        await bus.send(Topic("nowhere"), ServiceBusMessage(b""))


async def test_topics_give_nothing_and_subscriptions_take_nothing(bus, topic):
    with pytest.raises(ServiceBusError, match="can't be received from a topic"):
        await bus.open_receiver(str(topic))
    with pytest.raises(ServiceBusError, match="can't be sent to a subscription"):
        await bus.send(f"{topic}/Subscriptions/one", ServiceBusMessage(b""))


async def test_names_in_any_case(bus, topic):
    await bus.send(Topic(topic.upper()), ServiceBusMessage(b"x"))
    assert bodies(await bus.drain(Subscription(topic.title(), "ONE"), 1)) == [b"x"]


async def test_copies_survive_a_crash(flavour, start_daemon):
    subscriptions = [{"name": "one"}, {"name": "two"}]
    daemon = start_daemon(entities_text(topics={"t": {"subscriptions": subscriptions}}))
    topic = Topic("t")
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(topic, *(ServiceBusMessage(f"{n}") for n in range(3)))
        receiver = await bus.open_receiver(topic / "one")
        first, second, _ = await take(receiver, 3)
        await receiver.complete_message(first)
        await receiver.defer_message(second)
        daemon.kill()
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        seen = await bus.peek(topic / "one")
        assert [(body(m), m.state.name) for m in seen] == [(b"1", "DEFERRED"), (b"2", "ACTIVE")]
        assert bodies(await bus.drain(topic / "two", 3)) == [b"0", b"1", b"2"]
        await bus.send(topic, ServiceBusMessage(b"after"))
        assert [m.sequence_number for m in await bus.peek(topic / "two")] == [4]
