"""Rules over time: changes between messages, scheduled messages, restarts, forwarding."""

import asyncio
import datetime
import itertools

from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, RECEIVE_AND_DELETE, Bus, bodies, body, one, take
from daemon import Topic, entities_text
from rules import Stage, administration, all_of, properties

HOUR = datetime.timedelta(hours=1)
ROUNDS = 30
CHANGES = 12


def numbered(n: int, **options) -> ServiceBusMessage:
    return ServiceBusMessage(f"{n}", application_properties={"n": n}, **options)


async def test_messages_sent_before_a_rule_change_are_matched_before_it(stage):
    """Send A, change the rule, send B: A by the old rule, B by the new one, also in quick succession."""
    where = await stage.subscribe(rules={"r": ["EXISTS(n)", "SET by = 0"]})
    rule = await stage.admin.get_rule(*where, "r")
    async with stage.bus.sender(stage.topic) as sender:
        for n in range(1, ROUNDS):
            await sender.send_messages(numbered(n))
            rule.action.sql_expression = f"SET by = {n}"
            await stage.admin.update_rule(*where, rule)
        await sender.send_messages(numbered(ROUNDS))
    await stage.send()
    got = [properties(m) for m in await stage.copies(where)]
    assert [(copy["n"], copy["by"]) for copy in got] == [(n, n - 1) for n in range(1, ROUNDS + 1)]


async def test_a_change_amid_a_stream_divides_it_once(stage):
    """Senders that do not wait: each message meets all rules before the change or all after it."""
    # Two rules are changed in turn; a message that meets the second's new filter meets the first's as well.
    where = await stage.subscribe(rules={"even": ["n % 2 = 0", "SET by = 0"], "all": ["EXISTS(n)", "SET by = 0"]})
    rules = [await stage.admin.get_rule(*where, name) for name in ("even", "all")]
    numbers = itertools.count()
    accepted, stop = [], asyncio.Event()

    async def keep_sending():
        async with stage.bus.sender(stage.topic) as sender:
            while not stop.is_set():
                batch = list(itertools.islice(numbers, 20))
                await sender.send_messages([numbered(n) for n in batch])
                accepted.extend(batch)

    async def keep_changing():
        for version in range(1, CHANGES):
            before = len(accepted)
            while len(accepted) == before:
                await asyncio.sleep(0.001)
            for rule in rules:
                rule.action.sql_expression = f"SET by = {version}"
                await stage.admin.update_rule(*where, rule)
        stop.set()

    await asyncio.gather(keep_changing(), *(keep_sending() for _ in range(4)))
    await stage.send()
    versions = {"even": [], "all": []}
    by_number = {}
    for copy in map(properties, await stage.copies(where)):
        versions[copy["RuleName"]].append(copy["by"])
        by_number.setdefault(copy["n"], {})[copy["RuleName"]] = copy["by"]
    for name in versions:
        assert versions[name] == sorted(versions[name]), "versions of a rule only increase"
    assert sorted(by_number) == sorted(accepted) and len(set(versions["all"])) > CHANGES / 2
    for n, by in by_number.items():
        assert ("even" in by) == (n % 2 == 0), n
        assert n % 2 or by["even"] - by["all"] in (0, 1), f"{n}: {by}: 'even' is changed first"


async def test_a_scheduled_message_is_sorted_when_it_is_published(stage, traveller):
    old = await stage.subscribe("old", {"r": ["n = 1", "SET by = 'old'"]})
    async with stage.bus.sender(stage.topic) as sender:
        await sender.schedule_messages([numbered(1), numbered(2)], traveller.now() + HOUR)
    new = await stage.subscribe("new", {"r": ["n = 2", "SET by = 'new'"]})
    rule = await stage.admin.get_rule(*old, "r")
    rule.filter.sql_expression, rule.action.sql_expression = "n = 2", "SET by = 'changed'"
    await stage.admin.update_rule(*old, rule)
    traveller.advance(hours=2)
    await stage.send()
    for where, by in [(old, "changed"), (new, "new")]:
        assert [properties(m) for m in await stage.copies(where)] == [{"n": 2, "by": by, "RuleName": "r"}]


async def test_a_scheduled_message_sees_its_own_times(stage, traveller):
    due = (traveller.now() + HOUR).replace(microsecond=0)
    same, enqueued = "sys.ScheduledEnqueueTimeUtc = @due", "sys.EnqueuedTimeUtc >= @due"
    where = await stage.subscribe(rules={"r": (f"{same} AND {enqueued} AND sys.State = 0", {"@due": due})})
    async with stage.bus.sender(stage.topic) as sender:
        await sender.schedule_messages(numbered(1), due)
        await sender.schedule_messages(numbered(2), due + HOUR)
    traveller.advance(hours=3)
    await stage.send()
    assert bodies(await stage.copies(where)) == [b"1"]


async def test_rules_and_changed_copies_survive_sigkill(flavour, start_daemon):
    daemon = start_daemon(entities_text())
    topic = Topic("t")
    rules = {
        "sql": (("n > @low AND at IS NULL", {"@low": 1.5})),
        "act": ["n = 2", ("SET sys.Label = @label; SET n = n * 10; REMOVE gone", {"@label": "é"})],
        "bad": "n / 0 = 1",
    }
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        await admin.create_topic(topic)
        where = await Stage(daemon, bus, admin, topic).subscribe(rules=rules, lock_duration=datetime.timedelta(minutes=5))
        sent = [ServiceBusMessage(f"{n}", subject="s", application_properties={"n": n, "gone": 1}) for n in (1, 2)]
        await bus.send(topic, sent)
        receiver = await bus.open_receiver(where)
        plain, changed = await take(receiver, 2)
        await receiver.defer_message(changed)
        shown = [rule.filter.sql_expression for rule in await all_of(admin.list_rules(*where))]
        daemon.kill()
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        stage = Stage(daemon, bus, admin, topic)
        listed = await all_of(admin.list_rules(*where))
        assert [rule.filter.sql_expression for rule in listed] == shown
        by_name = {rule.name: rule for rule in listed}
        assert dict(by_name["sql"].filter.parameters) == {"@low": 1.5}
        assert dict(by_name["act"].action.parameters) == {"@label": "é"}
        dead = await bus.peek(where, sub_queue=DEAD_LETTER)
        assert [(body(m), m.dead_letter_reason) for m in dead] == [(b"1", "FilterException"), (b"2", "FilterException")]
        receiver = await bus.open_receiver(where)
        (changed,) = await receiver.receive_deferred_messages(changed.sequence_number)
        assert (changed.subject, properties(changed)) == ("é", {"n": 20, "RuleName": "act"})
        await receiver.complete_message(changed)
        again = await one(receiver)
        assert (body(again), again.subject, properties(again)) == (b"2", "s", {"n": 2, "gone": 1})
        await receiver.complete_message(again)
        await stage.send(numbered(2))
        assert [properties(m) for m in await stage.copies(where)] == [{"n": 2}, {"n": 20, "RuleName": "act"}]


async def test_a_forwarded_copy_takes_its_changes_along(flavour, start_daemon):
    """To a queue with sessions: the session, id and time set by the action take effect there."""
    daemon = start_daemon(entities_text({"orders": {"requires_session": True}, "plain": {}}), time_travel=True)
    daemon.advance(days=1)
    topic = Topic("t")
    due = (daemon.now() + HOUR).replace(microsecond=0)
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        await admin.create_topic(topic)
        stage = Stage(daemon, bus, admin, topic)
        session = ("SET sys.SessionId = customer; SET sys.MessageId = @id; SET n = 7; REMOVE gone", {"@id": "new id"})
        late = ("SET sys.ScheduledEnqueueTimeUtc = @due; SET sys.TimeToLive = @ttl", {"@due": due, "@ttl": HOUR})
        await stage.subscribe("session", {"r": ["EXISTS(n)", session]}, forward_to="orders")
        await stage.subscribe("late", {"r": ["EXISTS(n)", late]}, forward_to="plain")
        sent = {"n": 1, "gone": 1, "customer": "ada"}
        await bus.send(topic, ServiceBusMessage(b"x", message_id="id", application_properties=sent))
        (message,) = await bus.drain("orders", 1, session_id="ada")
        assert (body(message), message.message_id, message.session_id) == (b"x", "new id", "ada")
        assert properties(message) == {"n": 7, "customer": "ada", "RuleName": "r"}
        async with bus.receiver("plain") as receiver:
            await until_scheduled(bus)
            (scheduled,) = await bus.peek("plain")
            assert (scheduled.state.name, scheduled.scheduled_enqueue_time_utc) == ("SCHEDULED", due)
            daemon.advance(hours=1)
            due_message = await one(receiver)
        assert due_message.enqueued_time_utc >= due
        # Its time-to-live began in the subscription, paused while it was scheduled, and continues.
        assert due_message.message_id == "id" and 0.9 * HOUR < due_message.time_to_live <= HOUR
        assert properties(due_message) == sent | {"RuleName": "r"}


async def test_the_id_that_was_set_detects_duplicates_where_a_copy_is_forwarded_to(flavour, start_daemon):
    """Only there: the subscription keeps copies with the same id."""
    window = {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "PT1H"}
    daemon = start_daemon(entities_text({"once": window}))
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        await admin.create_topic("t", requires_duplicate_detection=True)
        stage = Stage(daemon, bus, admin, Topic("t"))
        action = "SET sys.MessageId = 'the ' + group"
        kept = await stage.subscribe("kept", {"r": ["EXISTS(n)", action]})
        await stage.subscribe("on", {"r": ["EXISTS(n)", action]}, forward_to="once")
        message = lambda n, group: ServiceBusMessage(f"{n}", message_id=f"{n}", application_properties={"n": n, "group": group})
        await stage.send(message(1, "a"), message(1, "a"), message(2, "a"), message(3, "b"))
        copies = await stage.copies(kept)
        assert [(body(m), m.message_id) for m in copies] == [(b"1", "the a"), (b"2", "the a"), (b"3", "the b")]
        forwarded = await bus.drain("once", 3)
        assert [(body(m), m.message_id) for m in forwarded] == [(b"1", "the a"), (b"3", "the b"), (b"end", "the end")]


async def until_scheduled(bus):
    while not await bus.peek("plain"):
        await asyncio.sleep(0.05)


async def test_rules_of_the_next_topic_see_the_changes(flavour, start_daemon):
    daemon = start_daemon(entities_text({"graves": {}}))
    first, second = Topic("first"), Topic("second")
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        await admin.create_topic(first)
        await admin.create_topic(second)
        one_stage, two_stage = (Stage(daemon, bus, admin, topic) for topic in (first, second))
        rules = {
            "r": ["n = 2 AND sys.Label = 'changed' AND NOT EXISTS(gone) AND RuleName = 'first rule'", "SET n = n * 10"],
            "old": "n = 1 OR sys.Label = 'sent' OR EXISTS(gone)",
            "correlated": {"label": "changed", "properties": {"n": 2}},
        }
        where = await two_stage.subscribe(rules=rules)
        action = "SET n = n + 1; SET sys.Label = 'changed'; REMOVE gone"
        await one_stage.subscribe("on", {"first rule": ["EXISTS(n)", action]}, forward_to=second)
        await bus.send(first, ServiceBusMessage(b"x", subject="sent", application_properties={"n": 1, "gone": 1}))
        async with bus.receiver(where, receive_mode=RECEIVE_AND_DELETE) as receiver:
            copies = await take(receiver, 2)
        await two_stage.send()
        assert await two_stage.copies(where) == []
        assert [(m.subject, properties(m)) for m in copies] == [
            ("changed", {"n": 2, "RuleName": "first rule"}),
            ("changed", {"n": 20, "RuleName": "r"}),
        ]


async def test_a_failed_message_goes_to_where_dead_letters_are_forwarded(flavour, start_daemon):
    daemon = start_daemon(entities_text({"graves": {}}))
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        await admin.create_topic("t")
        stage = Stage(daemon, bus, admin, Topic("t"))
        await stage.subscribe(rules={"bad": "n / 0 = 1"}, forward_dead_lettered_messages_to="graves")
        await bus.send(stage.topic, numbered(1))
        (dead,) = await bus.drain("graves", 1)
        assert (body(dead), dead.dead_letter_reason) == (b"1", "FilterException")
        assert "zero" in dead.dead_letter_error_description
        assert dead.dead_letter_source.lower() == "t/subscriptions/s"
