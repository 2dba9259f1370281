"""Sessions: accepting, lock, order, state and end, as seen by the SDK."""

import asyncio
import datetime

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from bus import DEAD_LETTER, RECEIVE_AND_DELETE, bodies, body, nothing, one, take
from bus import Bus

UTC = datetime.timezone.utc
SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def queue(queues):
    return queues.take("session")


def message(text, session_id: str = "s", **options) -> ServiceBusMessage:
    return ServiceBusMessage(f"{text}", session_id=session_id, **options)


async def list_sessions(bus, queue, **options) -> list[str]:
    if bus.flavour == "aio":
        return [session async for session in bus.client.list_queue_sessions(queue, **options)]
    return await asyncio.to_thread(lambda: list(bus.client.target.list_queue_sessions(queue, **options)))


async def peek(receiver) -> list:
    return await receiver.peek_messages(250, sequence_number=1)


async def test_a_named_session_gives_its_messages_only_and_in_order(bus, queue):
    await bus.send(queue, *(message(n, "ab"[n % 2]) for n in range(10)))
    receiver = await bus.open_receiver(queue, session_id="b")
    assert receiver.session.session_id == "b"
    messages = await take(receiver, 5)
    assert bodies(messages) == [b"1", b"3", b"5", b"7", b"9"]
    assert {m.session_id for m in messages} == {"b"}
    assert {m.partition_key for m in messages} == {"b"}
    assert {m.delivery_count for m in messages} == {0}
    assert await nothing(receiver)
    for received in messages:
        await receiver.complete_message(received)
    assert bodies(await peek(receiver)) == []
    other = await bus.open_receiver(queue, session_id="a")
    assert bodies(await take(other, 5)) == [b"0", b"2", b"4", b"6", b"8"]


async def test_a_session_without_messages_is_accepted_and_gets_later_ones(bus, queue):
    receiver = await bus.open_receiver(queue, session_id="new")
    assert await nothing(receiver)
    await bus.send(queue, message("late", "new"), message("elsewhere", "other"))
    assert body(await one(receiver)) == b"late"
    assert await nothing(receiver)


async def test_the_empty_id_is_a_session(bus, queue):
    await bus.send(queue, message("nameless", ""))
    receiver = await bus.open_receiver(queue, session_id="")
    received = await one(receiver)
    assert (body(received), received.session_id) == (b"nameless", "")
    await receiver.session.set_state(b"x")
    assert await receiver.session.get_state() == b"x"
    await receiver.complete_message(received)
    await receiver.close()
    await bus.send(queue, message("again", ""))
    following = await bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION)
    assert following.session.session_id == ""
    assert body(await one(following)) == b"again"


async def test_the_next_available_sessions_are_shared_out(bus, queue):
    await bus.send(queue, *(message(n, f"s{n}") for n in range(3)))
    receivers = [await bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) for _ in range(3)]
    assert {receiver.session.session_id for receiver in receivers} == {"s0", "s1", "s2"}
    for receiver in receivers:
        assert b"s" + body(await one(receiver)) == receiver.session.session_id.encode()


async def test_waiting_for_a_session_ends_with_a_later_send(bus, queue):
    waiting = asyncio.ensure_future(bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=30))
    async with Bus(bus.flavour, bus.connection_string) as other:
        for _ in range(5):
            await asyncio.sleep(0)
        await other.send(queue, message("wanted", "w"))
    receiver = await waiting
    assert receiver.session.session_id == "w"
    assert body(await one(receiver)) == b"wanted"


async def test_waiting_for_a_session_ends_when_one_is_given_back(bus, queue):
    await bus.send(queue, message(1))
    holder = await bus.open_receiver(queue, session_id="s")
    waiting = asyncio.ensure_future(bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=30))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await holder.close()
    receiver = await waiting
    assert receiver.session.session_id == "s"


async def test_no_session_in_time(bus, queue):
    with pytest.raises(OperationTimeoutError):
        await bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)


async def test_a_wait_of_seventy_seconds_outlasts_a_minute(bus, queue, traveller):
    """`max_wait_time` of the receiver is sent to the broker, and applies if the receiver is opened explicitly."""
    waiting = asyncio.ensure_future(bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=70))
    async with Bus(bus.flavour, bus.connection_string) as other:
        # Connecting takes as long as attaching the first one.
        sender = await other.open_sender(queue)
        traveller.advance(seconds=60)
        assert not waiting.done()
        await sender.send_messages(message("wanted", "w"))
        assert (await waiting).session.session_id == "w"


async def test_a_receive_that_opens_the_receiver_bounds_the_wait_for_a_session(bus, queue):
    """The client (since 7.15.0) gives up then, by its own clock: the broker would continue to wait."""
    receiver = bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=70)
    with pytest.raises(OperationTimeoutError, match="Timed out waiting for the AMQP link to open"):
        await receiver.receive_messages(max_wait_time=3)
    await receiver.close()


async def test_who_stops_waiting_gets_nothing(bus, queue):
    with pytest.raises(OperationTimeoutError):
        await bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    assert body(await one(receiver)) == b"1"


async def test_a_held_session_cannot_be_accepted(bus, queue):
    await bus.send(queue, message(1))
    holder = await bus.open_receiver(queue, session_id="s")
    with pytest.raises(SessionCannotBeLockedError):
        await bus.open_receiver(queue, session_id="s")
    with pytest.raises(OperationTimeoutError):
        await bus.open_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
    assert body(await one(holder)) == b"1"
    await holder.close()
    other = await bus.open_receiver(queue, session_id="s")
    assert body(await one(other)) == b"1"


async def test_ids_that_differ_in_case_are_one_session(bus, queue):
    """azure-sdk-for-java 48759, durabletask 1334. Messages keep their spelling."""
    await bus.send(queue, *(message(n, id) for n, id in enumerate(["SessionId", "sessionId", "other", "SESSIONID"])))
    receiver = await bus.open_receiver(queue, session_id="sessionId")
    assert receiver.session.session_id == "sessionId"
    with pytest.raises(SessionCannotBeLockedError):
        await bus.open_receiver(queue, session_id="SessionID")
    messages = await take(receiver, 3)
    assert [received.session_id for received in messages] == ["SessionId", "sessionId", "SESSIONID"]
    await receiver.session.set_state(b"known")
    for received in messages:
        await receiver.complete_message(received)
    await receiver.close()
    assert await list_sessions(bus, queue) == ["other", "SessionId"]
    receiver = await bus.open_receiver(queue, session_id="SESSIONID")
    assert await receiver.session.get_state() == b"known"


async def test_an_abandoned_message_comes_next(bus, queue):
    await bus.send(queue, *(message(n) for n in range(3)))
    receiver = await bus.open_receiver(queue, session_id="s")
    first = await one(receiver)
    await receiver.abandon_message(first)
    again = await take(receiver, 3)
    assert [(body(m), m.delivery_count) for m in again] == [(b"0", 1), (b"1", 0), (b"2", 0)]


async def test_closing_the_receiver_gives_back_uncounted(bus, queue):
    await bus.send(queue, *(message(n) for n in range(3)))
    receiver = await bus.open_receiver(queue, session_id="s")
    await take(receiver, 2)
    await receiver.close()
    again = await take(await bus.open_receiver(queue, session_id="s"), 3)
    assert [(body(m), m.delivery_count) for m in again] == [(b"0", 0), (b"1", 0), (b"2", 0)]


async def test_a_prefetching_receiver_keeps_the_order(bus, queue):
    await bus.send(queue, *(message(n) for n in range(20)))
    receiver = await bus.open_receiver(queue, session_id="s", prefetch_count=50)
    messages = await take(receiver, 20)
    assert bodies(messages) == [b"%d" % n for n in range(20)]
    for received in messages:
        await receiver.complete_message(received)
    assert await peek(receiver) == []


async def test_receive_and_delete(bus, queue):
    await bus.send(queue, message(1), message(2))
    receiver = await bus.open_receiver(queue, session_id="s", receive_mode=RECEIVE_AND_DELETE)
    assert bodies(await take(receiver, 2)) == [b"1", b"2"]
    assert await peek(receiver) == []


async def test_the_locks_of_messages_are_the_sessions(bus, queue):
    await bus.send(queue, message(1))
    before = datetime.datetime.now(UTC)
    receiver = await bus.open_receiver(queue, session_id="s")
    until = receiver.session.locked_until_utc
    assert before + 59 * SECOND < until < datetime.datetime.now(UTC) + 61 * SECOND
    received = await one(receiver)
    shown = received.locked_until_utc or until
    assert abs(shown - until) < SECOND


async def test_renewing_moves_the_end_of_the_lock(bus, queue, traveller):
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    received = await one(receiver)
    for _ in range(3):
        moved = traveller.advance(seconds=40)
        renewed = await receiver.session.renew_lock()
        assert renewed == receiver.session.locked_until_utc
        # Not additive: from the renewal, not from the old end.
        assert moved + 60 * SECOND - SECOND <= renewed <= traveller.now() + 60 * SECOND
    await receiver.complete_message(received)
    assert await peek(receiver) == []


async def test_the_auto_renewer_keeps_a_session(bus, queues):
    """In real time: the renewer uses the client's clock to determine when a lock is about to end."""
    queue = queues.take("session_brief_lock")
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    renewer = bus.lock_renewer(max_lock_renewal_duration=60)
    first_end = receiver.session.locked_until_utc
    renewer.register(receiver, receiver.session, max_lock_renewal_duration=60)
    received = await one(receiver)
    while datetime.datetime.now(UTC) < first_end + SECOND:
        await asyncio.sleep(0.2)
    assert receiver.session.auto_renew_error is None
    assert receiver.session.locked_until_utc > first_end
    await receiver.complete_message(received)
    await renewer.close()


async def test_who_asks_for_messages_and_has_none_in_hand_keeps_the_session(bus, queue, traveller):
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(
        queue, session_id="s", receive_mode=RECEIVE_AND_DELETE, prefetch_count=5
    )
    assert body(await one(receiver)) == b"1"
    traveller.advance(minutes=2)
    await bus.send(queue, message(2))
    assert body(await one(receiver)) == b"2"


@pytest.mark.parametrize("operation", ["complete", "abandon", "defer", "dead_letter"])
async def test_settling_with_a_lost_lock_fails(bus, queue, traveller, operation):
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    received = await one(receiver)
    traveller.advance(minutes=2)
    with pytest.raises(SessionLockLostError):
        await getattr(receiver, f"{operation}_message")(received)
    # Counted as a failure, and available to the next receiver.
    other = await bus.open_receiver(queue, session_id="s")
    again = await one(other)
    assert (body(again), again.delivery_count) == (b"1", 1)


@pytest.mark.parametrize("operation", ["renew_lock", "get_state", "set_state"])
async def test_asking_with_a_lost_lock_fails(bus, queue, traveller, operation):
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    traveller.advance(minutes=2)
    arguments = [b"x"] if operation == "set_state" else []
    with pytest.raises(SessionLockLostError):
        await getattr(receiver.session, operation)(*arguments)


async def test_a_state_outlives_messages_and_receivers(bus, queue):
    await bus.send(queue, message(1))
    receiver = await bus.open_receiver(queue, session_id="s")
    assert await receiver.session.get_state() is None
    for state in [b"first", b"\x00\xff" * 1000, b"last"]:
        await receiver.session.set_state(state)
        assert await receiver.session.get_state() == state
    await receiver.complete_message(await one(receiver))
    await receiver.close()
    receiver = await bus.open_receiver(queue, session_id="s")
    assert await receiver.session.get_state() == b"last"
    await receiver.session.set_state(None)
    assert await receiver.session.get_state() is None
    other = await bus.open_receiver(queue, session_id="other")
    assert await other.session.get_state() is None


async def test_a_state_of_text(bus, queue):
    receiver = await bus.open_receiver(queue, session_id="s")
    await receiver.session.set_state("Zustand ä")
    assert await receiver.session.get_state() == "Zustand ä".encode()


async def test_a_state_that_is_too_large(bus, queue):
    receiver = await bus.open_receiver(queue, session_id="s")
    await receiver.session.set_state(b"small")
    with pytest.raises(ServiceBusError):
        await receiver.session.set_state(b"x" * (1024 * 1024 + 1))
    assert await receiver.session.get_state() == b"small"


async def test_deferred_messages_belong_to_their_session(bus, queue):
    await bus.send(queue, *(message(n) for n in range(3)))
    receiver = await bus.open_receiver(queue, session_id="s")
    messages = await take(receiver, 3)
    for received in messages:
        await receiver.defer_message(received)
    numbers = [m.sequence_number for m in messages]
    assert await nothing(receiver)
    stranger = await bus.open_receiver(queue, session_id="other")
    with pytest.raises(MessageNotFoundError):
        await stranger.receive_deferred_messages(numbers)
    await receiver.close()
    following = await bus.open_receiver(queue, session_id="s")
    deferred = await following.receive_deferred_messages(numbers)
    assert bodies(deferred) == [b"0", b"1", b"2"]
    await following.complete_message(deferred[0])
    await following.abandon_message(deferred[1])
    await following.dead_letter_message(deferred[2], reason="why")
    (left,) = await peek(following)
    assert (body(left), left.state.name, left.delivery_count) == (b"1", "DEFERRED", 2)


async def test_browsing_a_session_shows_that_session(bus, queue):
    await bus.send(queue, message(1, "a"), message(2, "b"), message(3, "a"))
    receiver = await bus.open_receiver(queue, session_id="a")
    seen = await peek(receiver)
    assert bodies(seen) == [b"1", b"3"]
    assert {m.partition_key for m in seen} == {"a"}


async def test_a_scheduled_message_comes_to_its_session(bus, queue, traveller):
    sender = await bus.open_sender(queue)
    due = traveller.now() + datetime.timedelta(hours=1)
    await sender.schedule_messages(message("later"), due)
    traveller.advance(hours=1, seconds=1)
    receiver = await bus.open_receiver(queue, session_id="s")
    assert body(await one(receiver)) == b"later"


async def test_dead_letters_are_sessionless(bus, queue):
    await bus.send(queue, message(1, "a"), message(2, "b"))
    for session_id in "ab":
        receiver = await bus.open_receiver(queue, session_id=session_id)
        await receiver.dead_letter_message(await one(receiver), reason=session_id)
    dead = await bus.open_receiver(queue, sub_queue=DEAD_LETTER)
    messages = await take(dead, 2)
    assert {(body(m), m.session_id, m.dead_letter_reason) for m in messages} == {(b"1", "a", "a"), (b"2", "b", "b")}
    await dead.renew_message_lock(messages[0])
    for received in messages:
        await dead.complete_message(received)


@pytest.mark.parametrize("kind", ["session", "session_dead_letter_on_expiry"])
async def test_one_expired_message_expires_its_session(bus, queues, traveller, kind):
    """S-23, S-24: as a group, and only while a receiver listens to that session."""
    queue = queues.take(kind)
    hour = datetime.timedelta(hours=1)
    await bus.send(queue, message("long"), message("short", time_to_live=hour), message("other", "o"))
    traveller.advance(hours=2)
    other = await bus.open_receiver(queue, session_id="o")
    assert body(await one(other)) == b"other"
    assert await nothing(other)
    receiver = await bus.open_receiver(queue, session_id="s")
    assert bodies(await peek(receiver)) == [b"long", b"short"]
    assert await nothing(receiver)
    assert await peek(receiver) == []
    dead = await bus.peek(queue, sub_queue=DEAD_LETTER)
    assert bodies(dead) == ([] if kind == "session" else [b"long", b"short"])
    assert {m.dead_letter_reason for m in dead} <= {"TTLExpiredException"}


async def test_sessions_are_listed(bus, queue):
    assert await list_sessions(bus, queue) == []
    await bus.send(queue, message(1, "b"), message(2, "a"), message(3, ""))
    holder = await bus.open_receiver(queue, session_id="state")
    await holder.session.set_state(b"x")
    assert sorted(await list_sessions(bus, queue)) == ["", "a", "b", "state"]
    await holder.session.set_state(None)
    emptied = await bus.open_receiver(queue, session_id="a")
    await emptied.complete_message(await one(emptied))
    assert sorted(await list_sessions(bus, queue)) == ["", "b"]


async def test_sessions_are_listed_by_when_their_state_changed(bus, queue, traveller):
    await bus.send(queue, message(1, "messages"))
    for session_id in ["early", "late"]:
        receiver = await bus.open_receiver(queue, session_id=session_id)
        await receiver.session.set_state(b"x")
        between = traveller.advance(hours=1) - datetime.timedelta(minutes=30) if session_id == "early" else between
    assert sorted(await list_sessions(bus, queue)) == ["early", "late", "messages"]
    assert await list_sessions(bus, queue, state_updated_after=between) == ["late"]
    later = traveller.now() + datetime.timedelta(hours=1)
    assert await list_sessions(bus, queue, state_updated_after=later) == []


async def test_many_sessions_are_listed_in_pages(bus, queue):
    ids = [f"s{n:03}" for n in range(250)]
    sender = await bus.open_sender(queue)
    await sender.send_messages([message(1, session_id) for session_id in ids])
    assert await list_sessions(bus, queue) == ids


async def test_a_message_needs_a_session_id(bus, queue):
    sender = await bus.open_sender(queue)
    with pytest.raises(ServiceBusError, match="SessionId was not set"):
        await sender.send_messages(ServiceBusMessage(b"homeless"))
    with pytest.raises(ServiceBusError, match="SessionId was not set"):
        await sender.send_messages([message(1), ServiceBusMessage(b"homeless")])
    await sender.send_messages(message(2))
    assert bodies(await peek(await bus.open_receiver(queue, session_id="s"))) == [b"2"]


async def test_a_receiver_without_a_session_is_refused(bus, queue):
    with pytest.raises(ServiceBusError, match="entity that requires sessions"):
        await bus.open_receiver(queue)


@pytest.mark.parametrize("session_id", ["", "s"])
async def test_sessions_of_a_queue_that_has_none(bus, queues, session_id):
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        await bus.open_receiver(queues.take("plain"), session_id=session_id)


async def test_ids_of_128_characters_and_no_more(bus, queue):
    longest = "ä" * 128
    await bus.send(queue, message(1, longest))
    receiver = await bus.open_receiver(queue, session_id=longest)
    assert (await one(receiver)).session_id == longest
    with pytest.raises(ServiceBusError, match="longer than 128"):
        await bus.open_receiver(queue, session_id="x" * 129)


async def test_sessions_survive_a_crash(flavour, own_daemon):
    queue = "session-0"
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(queue, *(message(n) for n in range(3)))
        receiver = await bus.open_receiver(queue, session_id="s")
        await receiver.session.set_state(b"kept")
        first, second, _ = await take(receiver, 3)
        await receiver.complete_message(first)
        await receiver.defer_message(second)
        own_daemon.kill()
    own_daemon.start()
    async with Bus(flavour, own_daemon.connection_string) as bus:
        assert await list_sessions(bus, queue) == ["s"]
        # Held no longer.
        receiver = await bus.open_receiver(queue, session_id="s")
        assert await receiver.session.get_state() == b"kept"
        assert body(await one(receiver)) == b"2"
        (deferred,) = await receiver.receive_deferred_messages(second.sequence_number)
        assert body(deferred) == b"1"
