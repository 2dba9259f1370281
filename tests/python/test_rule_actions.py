"""Changes by actions of rules, as receivers see them; and messages for which a rule fails."""

import datetime
import re
import uuid

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage

from bus import DEAD_LETTER, bodies, body, nothing, one, take, told_end
from daemon import Subscription
from rest import DEAD_LETTERS, Rest
from rules import properties

UTC = datetime.timezone.utc
HOUR = datetime.timedelta(hours=1)
SENT = {
    "content_type": "type",
    "correlation_id": "correlation",
    "message_id": "id",
    "reply_to": "reply",
    "reply_to_session_id": "reply session",
    "session_id": "session",
    "subject": "subject",
    "to": "to",
    "partition_key": "session",
}
#: As `sys.` names them, and as this SDK does.
NAMES = {
    "ContentType": "content_type",
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "SessionId": "session_id",
    "Label": "subject",
    "To": "to",
    "PartitionKey": "partition_key",
}


def shown(message) -> dict:
    return {name: getattr(message, name) for name in SENT}


async def test_texts_among_the_system_properties_are_set(stage):
    changed = {name: f"{name} 2" for name in NAMES} | {"PartitionKey": "SessionId 2"}
    action = "; ".join(f"SET sys.{name} = '{value}'" for name, value in changed.items())
    where = await stage.subscribe(rules={"plain": "1=1", "set": ["1=1", action]})
    # A message with all of them and one without any.
    await stage.send(ServiceBusMessage(b"full", **SENT), ServiceBusMessage(b"bare"))
    full, full_set, bare, bare_set = await stage.copies(where)
    assert (shown(full), properties(full)) == (SENT, {})
    expected = {NAMES[name]: value for name, value in changed.items()}
    for message in (full_set, bare_set):
        assert (shown(message), properties(message)) == (expected, {"RuleName": "set"})
    assert {name: value for name, value in shown(bare).items() if value} == {"message_id": bare.message_id}
    assert bodies([full_set, bare_set]) == [b"full", b"bare"]


async def test_texts_among_the_system_properties_are_removed(stage):
    # The partition key of a session's message is its session id, so it follows a change.
    action = "; ".join(f"REMOVE sys.{name}" for name in NAMES)
    where = await stage.subscribe(rules={"remove": ["1=1", action]})
    await stage.send(ServiceBusMessage(b"full", **SENT))
    (message,) = await stage.copies(where)
    assert shown(message) == dict.fromkeys(SENT)


async def test_each_refers_to_the_others_as_they_are_then(stage):
    action = "SET sys.To = sys.ReplyTo; SET sys.ReplyTo = sys.To + '!'; SET was = sys.Subject; REMOVE sys.Label; SET gone = sys.Label"
    where = await stage.subscribe(rules={"r": ["EXISTS(n)", action]})
    await stage.send(ServiceBusMessage(b"", to="a", reply_to="b", subject="s", application_properties={"n": 1}))
    (message,) = await stage.copies(where)
    assert (message.to, message.reply_to, message.subject) == ("b", "b!", None)
    assert properties(message) == {"n": 1, "was": "s", "gone": None, "RuleName": "r"}


async def test_new_ids_are_drawn_for_each_copy(stage):
    rules = {name: ["EXISTS(n)", "SET one = newid(); SET two = newid()"] for name in ("a", "b")}
    where = await stage.subscribe(rules=rules)
    sent = [ServiceBusMessage(f"{n}", application_properties={"n": n}) for n in range(3)]
    await stage.send(*sent)
    ids = [properties(m)[name] for m in await stage.copies(where) for name in ("one", "two")]
    assert len(set(ids)) == 12 and all(type(one) is uuid.UUID for one in ids)


async def test_a_session_subscription_gets_the_session_that_was_set(stage):
    rules = {"set": ["EXISTS(customer)", "SET sys.SessionId = customer"], "plain": "sys.SessionId = 'own'"}
    where = await stage.subscribe(rules=rules, requires_session=True)
    customer = lambda name: ServiceBusMessage(name, session_id="own", application_properties={"customer": name})
    await stage.send(customer("ada"), customer("bob"), customer("ada"))
    for session, expected in [("bob", [b"bob"]), ("ada", [b"ada", b"ada"]), ("own", [b"ada", b"bob", b"ada"])]:
        receiver = await stage.bus.open_receiver(where, session_id=session)
        messages = await take(receiver, len(expected))
        assert bodies(messages) == expected
        assert {m.session_id for m in messages} == {session}
        for message in messages:
            await receiver.complete_message(message)
        assert await nothing(receiver)


async def test_a_session_that_was_removed_is_missed(stage):
    rules = {"r": ["EXISTS(n)", "REMOVE sys.SessionId"]}
    where = await stage.subscribe(rules=rules, requires_session=True)
    await stage.send(ServiceBusMessage(b"x", session_id="s", application_properties={"n": 1}))
    (dead,) = await stage.bus.peek(where, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"x", "Session id is null.")
    receiver = await stage.bus.open_receiver(where, session_id=NEXT_AVAILABLE_SESSION)
    assert receiver.session.session_id == "end"


async def test_a_time_to_live_is_set_within_the_limit_of_the_subscription(stage, traveller):
    rules = {
        "longer": ["EXISTS(n)", ("SET sys.TimeToLive = @ttl", {"@ttl": 3 * HOUR})],
        "shorter": ["EXISTS(n)", ("SET sys.TimeToLive = @ttl", {"@ttl": HOUR})],
        "removed": ["EXISTS(n)", "REMOVE sys.TimeToLive"],
        "known": "sys.TimeToLive = '00:30:00'",
    }
    where = await stage.subscribe(rules=rules, default_message_time_to_live=2 * HOUR)
    await stage.send(ServiceBusMessage(b"x", time_to_live=HOUR / 2, application_properties={"n": 1}))
    plain, longer, removed, shorter, _ = await stage.bus.peek(where)
    assert [m.time_to_live for m in (longer, shorter, removed, plain)] == [2 * HOUR, HOUR, 2 * HOUR, HOUR / 2]
    assert told_end(shorter) == shorter.enqueued_time_utc + HOUR
    traveller.advance(minutes=90)
    assert [properties(m)["RuleName"] for m in await stage.copies(where)] == ["longer", "removed"]


async def test_a_scheduled_time_is_shown_and_delays_nothing(stage):
    """They take effect only at an entity to which the copy is forwarded."""
    later = datetime.datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
    where = await stage.subscribe(rules={"r": ["EXISTS(n)", ("SET sys.ScheduledEnqueueTimeUtc = @at", {"@at": later})]})
    await stage.send(ServiceBusMessage(b"x", application_properties={"n": 1}))
    (message,) = await stage.copies(where)
    assert (body(message), message.scheduled_enqueue_time_utc, message.state.name) == (b"x", later, "ACTIVE")
    assert message.enqueued_time_utc < later


FAILURES = {
    "condition": (["n / 0 = 1"], "FilterException", "divided by zero"),
    "overflow": (["n * 9223372036854775807 > 0"], "FilterException", "64 bits"),
    "action": (["n = 5", "SET a = 1; SET b = n / 0"], "RuleActionException", "divided by zero"),
    "unreadable": (["n = 5", "SET sys.ScheduledEnqueueTimeUtc = 'tomorrow'"], "RuleActionException", "tomorrow|ScheduledEnqueueTimeUtc"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_failed_actions_are_dead_lettered_if_the_subscription_has_the_option(stage, failure):
    rule, reason, description = FAILURES[failure]
    good = {"good": "n = 5", "act": ["n = 5", "SET a = 2"]}
    told = await stage.subscribe("told", {"bad": rule} | good)
    untold = await stage.subscribe("untold", {"bad": rule} | good, dead_lettering_on_filter_evaluation_exceptions=False)
    alone = await stage.subscribe("alone", {"bad": rule})
    messages = [ServiceBusMessage(b"5", application_properties={"n": 5}), ServiceBusMessage(b"none")]
    await stage.send(*messages)
    for where in (told, untold):
        copies = await stage.copies(where)
        assert [(body(m), properties(m)) for m in copies] == [(b"5", {"n": 5}), (b"5", {"n": 5, "a": 2, "RuleName": "act"})]
    assert await stage.copies(alone) == []
    assert await stage.bus.peek(untold, sub_queue=DEAD_LETTER) == []
    for where in (told, alone):
        receiver = await stage.bus.open_receiver(where, sub_queue=DEAD_LETTER)
        dead = await one(receiver)
        assert (body(dead), dead.dead_letter_reason) == (b"5", reason)
        stamps = {"DeadLetterReason": reason, "DeadLetterErrorDescription": dead.dead_letter_error_description}
        assert properties(dead) == {"n": 5} | stamps, "as it was sent"
        assert re.search(description, dead.dead_letter_error_description), dead.dead_letter_error_description
        await receiver.complete_message(dead)
        assert await nothing(receiver)


async def test_one_message_that_fails_several_rules_is_one_dead_letter(stage):
    where = await stage.subscribe(rules={"a": "n / 0 = 1", "b": "n / 0 = 2", "c": ["n = 5", "SET x = n / 0"]})
    await stage.send(ServiceBusMessage(b"x", application_properties={"n": 5}))
    assert await stage.copies(where) == []
    (dead,) = await stage.bus.peek(where, sub_queue=DEAD_LETTER)
    assert (dead.dead_letter_reason, properties(dead)["n"]) == ("FilterException", 5)


async def test_a_copy_that_grows_too_large_is_dead_lettered(stage):
    """All properties together may have 64 KB."""
    half = "x" * 30_000
    where = await stage.subscribe(rules={"grow": ["EXISTS(a)", "SET c = a + 'y'; SET d = b + 'y'"], "plain": "EXISTS(a)"})
    await stage.send(ServiceBusMessage(b"large", application_properties={"a": half, "b": half}))
    (plain,) = await stage.copies(where)
    assert properties(plain) == {"a": half, "b": half}
    (dead,) = await stage.bus.peek(where, sub_queue=DEAD_LETTER)
    assert (body(dead), dead.dead_letter_reason) == (b"large", "HeaderSizeExceeded")


async def changed_copy(stage, max_delivery_count: int) -> Subscription:
    """A subscription with only one copy, which an action changed."""
    action = "SET n = n + 1; SET extra = 'é'; SET sys.Label = 'changed'; SET sys.CorrelationId = 'c'; REMOVE gone"
    where = await stage.subscribe(rules={"act": ["EXISTS(n)", action]}, max_delivery_count=max_delivery_count)
    await stage.remove(where, "the end")
    sent = {"n": 1, "gone": 1, "stays": True}
    await stage.bus.send(stage.topic, ServiceBusMessage(b"x" * 10_000, subject="sent", application_properties=sent))
    return where


CHANGED = {"n": 2, "extra": "é", "stays": True, "RuleName": "act"}


async def test_changes_are_shown_to_every_reader(stage):
    """Browsing, peek-lock, abandoning, deferring, dead-lettering, the dead-letter queue."""
    where = await changed_copy(stage, max_delivery_count=3)
    receiver = await stage.bus.open_receiver(where)
    seen = [*await stage.bus.peek(where)]
    message = await one(receiver)
    seen.append(message)
    await receiver.abandon_message(message)
    message = await one(receiver)
    seen.append(message)
    await receiver.defer_message(message)
    (message,) = await receiver.receive_deferred_messages(message.sequence_number)
    seen.append(message)
    assert [properties(m) for m in seen] == [CHANGED] * 4
    await receiver.dead_letter_message(message, reason="r", error_description="d")
    (browsed,) = await stage.bus.peek(where, sub_queue=DEAD_LETTER)
    dead = await stage.bus.open_receiver(where, sub_queue=DEAD_LETTER)
    letter = await one(dead)
    for found in (browsed, letter):
        assert properties(found) == CHANGED | {"DeadLetterReason": "r", "DeadLetterErrorDescription": "d"}
        assert found.dead_letter_reason == "r"
        seen.append(found)
    assert {(m.subject, m.correlation_id, body(m)) for m in seen} == {("changed", "c", b"x" * 10_000)}
    # When sent again, it is an ordinary message with the changed properties.
    await stage.bus.send(stage.topic, ServiceBusMessage(b"again", application_properties=properties(letter)))
    again = await one(receiver)
    assert properties(again)["n"] == 3 and again.subject == "changed"


async def test_rest_shows_changes(stage):
    where = await changed_copy(stage, max_delivery_count=2)
    rest = Rest(stage.daemon)
    locked = rest.peek_lock(where)
    assert (locked.status, locked.body) == (201, b"x" * 10_000)
    assert (locked.broker["Label"], locked.broker["CorrelationId"]) == ("changed", "c")
    # Headers are ASCII only; test_rest.py tests other letters.
    headers = {name: locked.headers[name] for name in ("n", "stays", "RuleName", "gone")}
    assert headers == {"n": "2", "stays": "true", "RuleName": '"act"', "gone": None}
    assert rest.at("PUT", locked.location).status == 200
    locked = rest.peek_lock(where)
    assert rest.at("PUT", locked.location).status == 200
    dead = rest.take(where, under=DEAD_LETTERS)
    assert (dead.headers["n"], dead.headers["DeadLetterReason"]) == ("2", '"MaxDeliveryCountExceeded"')
    assert dead.broker["Label"] == "changed"


async def test_rules_see_the_types_of_messages_sent_by_rest(stage):
    where = await stage.subscribe(rules={"r": ["n = 5 AND half = 0.5 AND yes AND text = 'x' AND sys.Label = 'l'", "SET n = n + 1"]})
    await stage.remove(where, "the end")
    rest = Rest(stage.daemon)
    headers = {"n": "5", "half": "0.5", "yes": "true", "text": '"x"'}
    for label in ("l", "m"):
        assert rest.send(stage.topic, b"x", {"Label": label}, headers).status == 201
    taken = rest.take(where)
    assert (taken.headers["n"], taken.headers["RuleName"]) == ("6", '"r"')
    assert rest.take(where, timeout=0).status == 204
