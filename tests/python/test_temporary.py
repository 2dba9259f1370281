"""Temporary entities: an entity that is idle for its limit is deleted (S-25 to S-32).

The margins of half a minute and more are for real time, which passes in addition to the daemon's. Changes of rules are
tested with JavaScript: this SDK has no operations for them. A change of options needs a restart, which resets the
daemon's clock: the engine's tests show that it is a use.
"""

import asyncio
import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusAuthenticationError

from bus import DEAD_LETTER, MISSING, Bus, bodies, body, nothing, one, take, until
from daemon import Daemon, Topic, entities_text

UTC = datetime.timezone.utc
IDLE = {"auto_delete_on_idle": "PT5M", "lock_duration": "PT5M"}
MAXIMUM = "P10675199DT2H48M5.4775807S"
#: A permanent topic with a temporary subscription; a temporary topic with a permanent one.
LASTING = Topic("lasting")
BRIEF = Topic("brief")
CONFIG = entities_text(
    queues={
        "q": IDLE,
        "sessions": IDLE | {"requires_session": True},
        "maximum": {"auto_delete_on_idle": MAXIMUM},
        "unlimited": {},
    },
    topics={
        "lasting": {"subscriptions": [{"name": "s"} | IDLE]},
        "brief": {"auto_delete_on_idle": "PT5M", "subscriptions": [{"name": "s", "lock_duration": "PT5M"}]},
        "maximum-topic": {
            "auto_delete_on_idle": MAXIMUM,
            "subscriptions": [{"name": "s", "auto_delete_on_idle": MAXIMUM}],
        },
    },
)


@pytest.fixture
async def travel(flavour, start_daemon):
    """A daemon for this test alone, and a bus to it."""
    daemon = start_daemon(CONFIG, time_travel=True)
    async with Bus(flavour, daemon.connection_string) as bus:
        yield bus, daemon


async def is_gone(bus, source) -> bool:
    """Whether there is no such entity (any more); if there is, this check is a use of it."""
    try:
        await bus.peek(source)
    except MISSING:
        return True
    return False


def message(text="m") -> ServiceBusMessage:
    return ServiceBusMessage(text)


# Uses after four minutes, by name. Each gets the bus, the daemon, the target of sends and the source of receives.


async def send(bus, daemon, target, source):
    await bus.send(target, message())


async def receive(bus, daemon, target, source):
    receiver = await bus.open_receiver(source)
    assert body(await one(receiver)) == b"first"


async def receive_nothing(bus, daemon, target, source):
    # Closed at once: this SDK leaves its credit open after an empty receive, and so continues to listen.
    async with bus.receiver(source, sub_queue=DEAD_LETTER) as receiver:
        assert await nothing(receiver)


async def peek(bus, daemon, target, source):
    assert bodies(await bus.peek(source)) == [b"first"]


async def peek_at_dead_letters(bus, daemon, target, source):
    assert await bus.peek(source, sub_queue=DEAD_LETTER) == []


async def schedule_and_cancel(bus, daemon, target, source):
    sender = await bus.open_sender(target)
    numbers = await sender.schedule_messages(message(), daemon.now() + datetime.timedelta(minutes=1))
    await sender.cancel_scheduled_messages(numbers)


async def attach_a_sender(bus, daemon, target, source):
    await bus.open_sender(target)


async def attach_a_receiver(bus, daemon, target, source):
    await bus.open_receiver(source)


async def be_looked_for(bus, daemon, target, source):
    """An operation on another name, which is not a use."""
    with pytest.raises(MISSING):
        await bus.open_receiver(f"{source}-other" if isinstance(source, str) else source.topic / "other")


async def schedule(bus, daemon, target, source):
    sender = await bus.open_sender(target)
    await sender.schedule_messages(message(), daemon.now() + datetime.timedelta(hours=1))


QUEUE = "q", "q"
TOPIC = BRIEF, BRIEF / "s"
SUBSCRIPTION = LASTING, LASTING / "s"
USES = [
    (QUEUE, send),
    (QUEUE, receive),
    (QUEUE, receive_nothing),
    (QUEUE, peek),
    (QUEUE, peek_at_dead_letters),
    (QUEUE, schedule_and_cancel),
    (TOPIC, send),
    (TOPIC, receive),
    (TOPIC, receive_nothing),
    (TOPIC, peek),
    (TOPIC, schedule_and_cancel),
    (SUBSCRIPTION, receive),
    (SUBSCRIPTION, receive_nothing),
    (SUBSCRIPTION, peek),
    (SUBSCRIPTION, peek_at_dead_letters),
]
NO_USES = [
    (QUEUE, attach_a_sender),
    (QUEUE, attach_a_receiver),
    (QUEUE, be_looked_for),
    (TOPIC, attach_a_sender),
    (TOPIC, attach_a_receiver),
    (TOPIC, be_looked_for),
    (SUBSCRIPTION, send),
    (SUBSCRIPTION, schedule),
    (SUBSCRIPTION, attach_a_sender),
    (SUBSCRIPTION, attach_a_receiver),
    (SUBSCRIPTION, be_looked_for),
]


def table(rows):
    kinds = {QUEUE: "queue", TOPIC: "topic", SUBSCRIPTION: "subscription"}
    return [pytest.param(*entity, use, id=f"{kinds[entity]}-{use.__name__}") for entity, use in rows]


@pytest.mark.parametrize("target,source,use", table(USES))
async def test_use_starts_the_time_anew(travel, target, source, use):
    """S-30, S-31, S-32: and after the idle time, the entity is deleted (S-25, S-26)."""
    bus, daemon = travel
    await bus.send(target, message("first"))
    daemon.advance(minutes=4)
    await use(bus, daemon, target, source)
    daemon.advance(minutes=4)
    assert not await is_gone(bus, source)
    daemon.advance(minutes=5)
    assert await is_gone(bus, source)


@pytest.mark.parametrize("target,source,no_use", table(NO_USES))
async def test_other_operations_do_not_count_as_use(travel, target, source, no_use):
    """S-30, S-31, S-32: above all, sends do not keep a subscription."""
    bus, daemon = travel
    await bus.send(target, message("first"))
    await bus.peek(source)
    daemon.advance(minutes=4)
    await no_use(bus, daemon, target, source)
    daemon.advance(minutes=1)
    assert await is_gone(bus, source)


@pytest.mark.parametrize("target,source", [QUEUE, TOPIC, SUBSCRIPTION], ids=["queue", "topic", "subscription"])
async def test_the_idle_time_is_the_one_asked_for(travel, target, source):
    """S-26: neither earlier nor later, apart from real time."""
    bus, daemon = travel
    await bus.send(target, message())
    await bus.peek(source)
    daemon.advance(minutes=4, seconds=30)
    assert not await is_gone(bus, source)
    daemon.advance(minutes=5)
    assert await is_gone(bus, source)


@pytest.mark.parametrize("target,source", [QUEUE, TOPIC, SUBSCRIPTION], ids=["queue", "topic", "subscription"])
async def test_settling_and_renewing_are_uses(travel, target, source):
    """They are part of receiving; the lock lasts as long as the idle time."""
    bus, daemon = travel
    await bus.send(target, message())
    receiver = await bus.open_receiver(source)
    received = await one(receiver)
    daemon.advance(minutes=4)
    await receiver.renew_message_lock(received)
    daemon.advance(minutes=4)
    await receiver.complete_message(received)
    daemon.advance(minutes=4)
    assert await bus.peek(source) == []


@pytest.mark.parametrize("target,source", [QUEUE, TOPIC, SUBSCRIPTION], ids=["queue", "topic", "subscription"])
async def test_a_listener_keeps_it(travel, target, source):
    """S-30, S-31, S-32: as long as it waits for messages, however long that is."""
    bus, daemon = travel
    await bus.send(target, message("first"))
    receiver = bus.receiver(source, prefetch_count=10)
    async with receiver:
        # It waits for messages for its credit beyond this message.
        await receiver.complete_message(await one(receiver))
        for _ in range(3):
            daemon.advance(hours=1)
        await bus.send(target, message("second"))
        assert body(await one(receiver)) == b"second"
    daemon.advance(minutes=4)
    assert not await is_gone(bus, source)
    daemon.advance(minutes=5)
    assert await is_gone(bus, source)


@pytest.mark.parametrize("target,source", [QUEUE, TOPIC], ids=["queue", "topic"])
async def test_pending_scheduled_messages_keep_it(travel, target, source):
    """S-30, S-31; what is due is sent then, which is a use."""
    bus, daemon = travel
    await schedule(bus, daemon, target, source)
    daemon.advance(minutes=59)
    daemon.advance(minutes=1)
    daemon.advance(minutes=4)
    assert len(await bus.peek(source)) == 1
    daemon.advance(minutes=5)
    assert await is_gone(bus, source)


async def test_work_on_a_session_is_a_use(travel):
    """S-30: accepting it, and operations of its holder are uses; listing sessions is not."""
    bus, daemon = travel
    async with bus.receiver("sessions", session_id="s") as receiver:
        await receiver.session.set_state(b"x")
        daemon.advance(minutes=4)
        await receiver.session.renew_lock()
        daemon.advance(minutes=4)
        assert await receiver.session.get_state() == b"x"
    daemon.advance(minutes=4)
    assert await sessions_of(bus) == ["s"]
    daemon.advance(minutes=1)
    with pytest.raises(ServiceBusAuthenticationError):
        await sessions_of(bus)
    assert await is_gone(bus, "sessions")


async def sessions_of(bus) -> list[str]:
    if bus.flavour == "aio":
        return [session async for session in bus.client.list_queue_sessions("sessions")]
    return await asyncio.to_thread(lambda: list(bus.client.target.list_queue_sessions("sessions")))


async def test_a_subscription_is_deleted_alone_and_a_topic_with_its_subscriptions(travel):
    """S-25; the remaining topic accepts messages as before."""
    bus, daemon = travel
    for topic in (LASTING, BRIEF):
        await bus.send(topic, message())
    daemon.advance(minutes=5)
    assert await is_gone(bus, LASTING / "s")
    await bus.send(LASTING, message())
    assert await is_gone(bus, BRIEF / "s")
    with pytest.raises(ServiceBusAuthenticationError):
        await bus.send(BRIEF, message())


async def test_everything_in_it_is_gone(travel, flavour):
    """S-25: messages, deferred and dead ones too. A queue of the same name that is declared again is empty."""
    bus, daemon = travel
    await bus.send("q", *(message(text) for text in ("active", "deferred", "dead")))
    receiver = await bus.open_receiver("q")
    _, deferred, dead = await take(receiver, 3)
    await receiver.defer_message(deferred)
    await receiver.dead_letter_message(dead)
    daemon.advance(minutes=6)
    assert await is_gone(bus, "q")
    daemon.kill()
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as again:
        assert await again.peek("q") == []
        assert await again.peek("q", sub_queue=DEAD_LETTER) == []
        await again.send("q", message("new"))
        assert [(body(m), m.sequence_number) for m in await again.peek("q")] == [(b"new", 1)]


@pytest.mark.parametrize("source", [QUEUE[1], TOPIC[1], SUBSCRIPTION[1]], ids=["queue", "topic", "subscription"])
async def test_an_attached_receiver_is_notified(travel, source):
    """Senders are in test_deleted.py."""
    bus, daemon = travel
    receiver = await bus.open_receiver(source)
    dead = await bus.open_receiver(source, sub_queue=DEAD_LETTER)
    daemon.advance(minutes=6)
    for each in (receiver, dead):
        with pytest.raises(MessagingEntityNotFoundError):
            await each.receive_messages(1, max_wait_time=5)
        with pytest.raises(MISSING):
            await each.peek_messages(1)


async def test_without_the_option_or_with_its_maximum_it_lives_for_ever(travel):
    """S-29."""
    bus, daemon = travel
    topic = Topic("maximum-topic")
    for target in ("maximum", "unlimited", topic):
        await bus.send(target, message("old"))
    for _ in range(10):
        daemon.advance(days=3650)
    for source in ("maximum", "unlimited", topic / "s"):
        assert bodies(await bus.drain(source, 1)) == [b"old"]


@pytest.mark.parametrize("kind", ["queues", "topics", "subscriptions"])
def test_less_than_five_minutes_is_refused(kind):
    """S-27, S-28: the file can't set less than this; the other tests show that five are enough."""
    options = {"auto_delete_on_idle": "PT4M59.999S"}
    if kind == "subscriptions":
        kind, options = "topics", {"subscriptions": [{"name": "s"} | options]}
    daemon = Daemon(entities_text(**{kind: {"e": options}}))
    try:
        with pytest.raises(AssertionError, match='auto_delete_on_idle.*at least "PT5M"'):
            daemon.start()
        assert daemon.process.returncode == 2
    finally:
        daemon.close()


async def test_the_last_use_survives_a_crash(flavour, start_daemon):
    """S-26: a use is stored. A restart resets the clock to the present, and a later use counts as now."""
    daemon = start_daemon(CONFIG, time_travel=True)
    async with Bus(flavour, daemon.connection_string) as bus:
        daemon.advance(minutes=3)
        await bus.peek(LASTING / "s")
        # A send is stored before it is answered, together with earlier events; the record of a peek alone is not.
        for target in ("q", BRIEF, LASTING):
            await bus.send(target, message("kept"))
    daemon.kill()
    daemon.config.write_text("")
    daemon.start()
    daemon.advance(minutes=4)
    async with Bus(flavour, daemon.connection_string) as bus:
        sources = ("q", BRIEF / "s", LASTING / "s")
        for source in sources:
            assert bodies(await bus.peek(source)) == [b"kept"]
        daemon.advance(minutes=6)
        for source in sources:
            assert await is_gone(bus, source)


async def test_the_time_goes_on_while_the_daemon_is_down(flavour, start_daemon):
    """S-26, in real time: a restart does not reset the idle time. An entity removed from the file is not created again."""
    idle = {"auto_delete_on_idle": "PT2S"}
    limits = {"auto_delete_on_idle_min": "PT0.1S"}
    topics = {"t": {"subscriptions": [{"name": "s"} | idle]}}
    daemon = start_daemon(entities_text({"q": idle}, topics, limits))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("q", message())
    over = datetime.datetime.now(UTC) + datetime.timedelta(seconds=2)
    daemon.kill()
    daemon.config.write_text("")

    async def is_over():
        return datetime.datetime.now(UTC) > over

    await until(is_over)
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        assert await is_gone(bus, "q")
        assert await is_gone(bus, Topic("t") / "s")
