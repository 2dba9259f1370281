"""Rules by the administration client: created, shown, changed, deleted, refused, limited."""

import datetime
import uuid

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from bus import Bus, bodies
from daemon import Topic, entities_text
from rules import Stage, administration, all_of, properties

PARAMETERS = {
    "@int": 5,
    "@negative": -5,
    "@long": 2**40,
    # The SDK calls it an int.
    "@low": -(2**40),
    "@double": 1.5,
    "@truth": True,
    "@text": "it's <x> & \"y\"",
    # The SDK writes whole seconds without a zone, and gets the same back.
    "@moment": datetime.datetime(2026, 1, 2, 3, 4, 5),
    "@span": datetime.timedelta(minutes=5, seconds=1),
}
#: A condition and statements that use them all.
USES_ALL = " OR ".join(f"{name[1:]} = {name}" for name in PARAMETERS)
SETS_ALL = "; ".join(f"SET {name[1:]} = {name}" for name in PARAMETERS)


async def names(stage, subscription) -> list[str]:
    return [rule.name for rule in await all_of(stage.admin.list_rules(*subscription))]


async def test_filters_and_actions_with_parameters_come_back_and_survive_an_update(stage):
    where = await stage.subscribe()
    await stage.add(where, "r", (USES_ALL, PARAMETERS), (SETS_ALL, PARAMETERS))
    for _ in range(2):
        rule = await stage.admin.get_rule(*where, "r")
        assert type(rule.filter) is SqlRuleFilter and type(rule.action) is SqlRuleAction
        assert (rule.filter.sql_expression, dict(rule.filter.parameters)) == (USES_ALL, PARAMETERS)
        assert (rule.action.sql_expression, dict(rule.action.parameters)) == (SETS_ALL, PARAMETERS)
        assert rule.created_at_utc is not None
        await stage.admin.update_rule(*where, rule)
    rule.filter, rule.action = SqlRuleFilter("a = @a", {"@a": "x"}), None
    await stage.admin.update_rule(*where, rule)
    listed, _ = await all_of(stage.admin.list_rules(*where))
    assert (listed.filter.sql_expression, dict(listed.filter.parameters)) == ("a = @a", {"@a": "x"})
    assert listed.action is None


async def test_a_condition_that_is_always_true_keeps_its_text_and_its_type(stage):
    where = await stage.subscribe()
    for text in (" 1 = 1 ", "1=1", "1=0"):
        await stage.add(where, "r", SqlRuleFilter(text))
        rule = await stage.admin.get_rule(*where, "r")
        assert (type(rule.filter), rule.filter.sql_expression) == (SqlRuleFilter, text)
        await stage.admin.delete_rule(*where, "r")


async def test_a_filter_by_the_age_of_messages(stage):
    late = ("sys.EnqueuedTimeUtc - sent > @hour", {"@hour": datetime.timedelta(hours=1)})
    where = await stage.subscribe(rules={"late": late})
    now = datetime.datetime.now(datetime.timezone.utc)
    sent = {"old": now - datetime.timedelta(hours=2), "new": now}
    await stage.send(*(ServiceBusMessage(name, application_properties={"sent": sent[name]}) for name in sent))
    assert bodies(await stage.copies(where)) == [b"old"]


async def test_every_kind_of_filter_takes_an_action(stage):
    where = await stage.subscribe()
    kinds = [TrueRuleFilter, FalseRuleFilter, CorrelationRuleFilter, SqlRuleFilter]
    filters = [TrueRuleFilter(), FalseRuleFilter(), CorrelationRuleFilter(label="x"), SqlRuleFilter("  a = 'é\n'  ")]
    for kind, filter in zip(kinds, filters):
        await stage.add(where, kind.__name__, filter, "SET a = 1;")
        rule = await stage.admin.get_rule(*where, kind.__name__)
        assert type(rule.filter) is kind
        assert rule.action.sql_expression == "SET a = 1;" and not rule.action.parameters
    assert rule.filter.sql_expression == "  a = 'é\n'  " and not rule.filter.parameters
    assert set(await names(stage, where)) == {"the end", *(kind.__name__ for kind in kinds)}


async def test_rules_in_their_hundreds_are_listed_once_each(stage):
    where = await stage.subscribe()
    for n in range(205):
        await stage.add(where, f"r{n}", f"n = {n}")
    assert await names(stage, where) == [*sorted(f"r{n}" for n in range(205)), "the end"]


WRONG = [
    ("color = ", None, "text ends where a value was expected.*character 8"),
    ("color == 'red'", None, "found '='.*character 8"),
    ("é = 'red", None, "character 5"),
    ("sys.Colour = 'red'", None, "Colour"),
    ("color = @missing", None, "@missing.*character 9"),
    ("", None, "SqlExpression|empty"),
    ("1=1", "color = 'red'", "SET or REMOVE.*character 1"),
    ("1=1", "SET a = 1; SET sys.SequenceNumber = 5", "SequenceNumber"),
    ("1=1", "SET a 1", "found '1'.*character 7"),
    ("a = '" + "x" * 1024 + "'", None, "1024"),
    ("1=1", "; ".join(["SET a = 1"] * 33), "32"),
]


async def test_sql_that_makes_no_sense_is_refused_with_its_place(stage):
    where = await stage.subscribe(rules={"good": "a = 1"})
    for filter, action, told in WRONG:
        with pytest.raises(HttpResponseError, match=f"(?s)SubCode=40000.*{told}") as refused:
            await stage.add(where, "r", filter, action)
        assert refused.value.status_code == 400
        rule = await stage.admin.get_rule(*where, "good")
        rule.filter = SqlRuleFilter(filter)
        rule.action = SqlRuleAction(action) if action else None
        with pytest.raises(HttpResponseError, match=f"(?s){told}"):
            await stage.admin.update_rule(*where, rule)
    assert await names(stage, where) == ["good", "the end"]
    assert (await stage.admin.get_rule(*where, "good")).filter.sql_expression == "a = 1"


async def test_existing_and_missing_rules(stage):
    where = await stage.subscribe(rules={"r": "a = 1"})
    with pytest.raises(ResourceExistsError):
        await stage.add(where, "R", "a = 2")
    rule = await stage.admin.get_rule(*where, "R")
    assert rule.filter.sql_expression == "a = 1"
    assert await names(stage, where) == ["r", "the end"]
    await stage.remove(where, "r")
    for missing in (stage.admin.get_rule(*where, "r"), stage.remove(where, "r"), stage.admin.update_rule(*where, rule)):
        with pytest.raises(ResourceNotFoundError):
            await missing


async def test_values_that_are_no_parameters_are_refused_by_the_sdk(stage):
    where = await stage.subscribe()
    for value in (b"bytes", uuid.UUID(int=1), None, 2.5j):
        with pytest.raises(ValueError, match="not supported"):
            await stage.add(where, "r", ("a = @a", {"@a": value}))


async def test_a_changed_rule_counts_from_then_on(stage):
    where = await stage.subscribe(rules={"r": ["n = 1", "SET said = 'old'"]})
    messages = lambda: [ServiceBusMessage(f"{n}", application_properties={"n": n}) for n in (1, 2)]
    await stage.send(*messages())
    assert [properties(m) for m in await stage.copies(where)] == [{"n": 1, "said": "old", "RuleName": "r"}]
    rule = await stage.admin.get_rule(*where, "r")
    rule.filter, rule.action = SqlRuleFilter("n = @n", {"@n": 2.0}), SqlRuleAction("SET said = @said", {"@said": "new"})
    await stage.admin.update_rule(*where, rule)
    await stage.send(*messages())
    assert [properties(m) for m in await stage.copies(where)] == [{"n": 2, "said": "new", "RuleName": "r"}]


async def test_too_many_filters_are_refused_by_name(flavour, start_daemon):
    limits = {"sql_filters_per_topic": 3, "correlation_filters_per_topic": 2, "subscriptions_per_topic": 2}
    daemon = start_daemon(entities_text(limits=limits))
    topic = Topic("t")
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        stage = Stage(daemon, bus, admin, topic)
        await admin.create_topic(topic)
        # Each has a filter in SQL for the end.
        one, two = await stage.subscribe("one"), await stage.subscribe("two")
        await stage.add(one, "third", "a = 1")
        with pytest.raises(HttpResponseError, match="(?s)SubCode=40501.*3") as refused:
            await stage.add(two, "fourth", "a = 1")
        assert refused.value.status_code == 403
        for name in ("a", "b"):
            await stage.add(two, name, {"label": name})
        with pytest.raises(HttpResponseError, match="(?s)SubCode=40502.*2"):
            await stage.add(one, "c", {"label": "c"})
        with pytest.raises(HttpResponseError, match="(?s)SubCode=40503.*2"):
            await admin.create_subscription(topic, "three")
        await stage.remove(one, "third")
        await stage.add(two, "fourth", "a = 1")
        await stage.send(ServiceBusMessage(b"x", application_properties={"a": 1}))
        assert (bodies(await stage.copies(one)), bodies(await stage.copies(two))) == ([], [b"x"])
