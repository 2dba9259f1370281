"""A daemon as a replacement of the Service Bus emulator, with its Config.json and its connection string."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from bus import DEAD_LETTER, Bus, bodies, body, one, take
from daemon import ROOT, Topic
from rules import administration, all_of, properties

#: The emulator's entities without a file: one subscription for each kind of filter.
SAMPLE = (ROOT / "config" / "emulator-sample.json").read_text()

CONFIG = """{
  // As the emulator reads it.
  "UserConfig": {
    "Namespaces": [{
      "Name": "sbemulatorns",
      "Queues": [{"Name": "orders", "Properties": {"LockDuration": "PT1M", "MaxDeliveryCount": 2, "RequiresSession": false}}
        %s],
      "Topics": [{
        "Name": "news",
        "Properties": {"DefaultMessageTimeToLive": "PT1H", "RequiresDuplicateDetection": false},
        "Subscriptions": [
          {"Name": "all"},
          {"Name": "red", "Rules": [{"Name": "label", "Properties": {
            "FilterType": "Correlation", "CorrelationFilter": {"Label": "red", "Properties": {"region": "eu"}}}}]}
        ]
      }]
    }],
    "Logging": {"Type": "File"}
  }
}
"""


@pytest.fixture
async def emulator(start_daemon, flavour):
    daemon = start_daemon(emulator=CONFIG % "")
    async with Bus(flavour, daemon.connection_string) as bus:
        yield daemon, bus


async def test_the_declared_queue_has_the_declared_properties(emulator):
    _, bus = emulator
    sender = await bus.open_sender("orders")
    await sender.send_messages(ServiceBusMessage("hello"))
    receiver = await bus.open_receiver("orders")
    for _ in range(2):
        await receiver.abandon_message(await one(receiver))
    dead = await bus.open_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    message = await one(dead)
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert message.time_to_live.total_seconds() == 3_600, "the emulator's default"
    await dead.complete_message(message)


async def test_the_declared_topic_gives_to_its_subscriptions_by_their_rules(emulator):
    _, bus = emulator
    sender = await bus.open_sender(Topic("news"))
    for body, subject, region in [("1", "red", "eu"), ("2", "red", "us"), ("3", "blue", "eu")]:
        message = ServiceBusMessage(body, subject=subject, application_properties={"region": region})
        await sender.send_messages(message)
    for subscription, expected in [("all", [b"1", b"2", b"3"]), ("red", [b"1"])]:
        assert bodies(await bus.peek(Topic("news") / subscription)) == expected


async def test_a_queue_that_is_added_to_the_file_is_there_after_sighup(emulator):
    daemon, bus = emulator
    daemon.emulator.write_text(CONFIG % ', {"Name": "more"}')
    daemon.reload()
    sender = await bus.open_sender("more")
    await sender.send_messages(ServiceBusMessage("hello"))
    receiver = await bus.open_receiver("more")
    assert bodies(await take(receiver, 1)) == [b"hello"]


#: A filter and an action in SQL, and one of each that fails.
SQL_RULES = """[
  {"Name": "sql", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "n > 1 AND color LIKE 'r%'"},
    "Action": {"SqlExpression": "SET n = n + 1; SET sys.Label = 'sorted'; REMOVE color"}}},
  {"Name": "correlation", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "x"},
    "Action": {"SqlExpression": "SET by = 'correlation'"}}},
  {"Name": "fails", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "zero = 0 AND n / zero = 1"}}}
]"""


async def test_the_emulators_sample_sorts_as_it_says(start_daemon, flavour):
    daemon = start_daemon(emulator=SAMPLE)
    topic = Topic("topic.1")
    async with Bus(flavour, daemon.connection_string) as bus:
        fields = {"content_type": "application/text", "correlation_id": "id1", "subject": "subject1", "message_id": "msgid1"}
        fields |= {"reply_to": "someQueue", "reply_to_session_id": "sessionId", "session_id": "session1", "to": "xyz"}
        await bus.send(
            topic,
            ServiceBusMessage("correlated", **fields),
            ServiceBusMessage("half", **fields | {"subject": "other"}),
            ServiceBusMessage("prop3", application_properties={"prop3": "value3"}),
            ServiceBusMessage("sql", message_id="123456", application_properties={"userProp1": "value1"}),
            ServiceBusMessage("other id", message_id="1234567", application_properties={"userProp1": "value1"}),
        )
        got = [bodies(await bus.peek(topic / f"subscription.{n}")) for n in (1, 2, 3, 4)]
        everything = [b"correlated", b"half", b"prop3", b"sql", b"other id"]
        assert got == [[b"correlated"], [b"prop3"], everything, [b"sql"]]
        (message,) = await bus.drain(topic / "subscription.4", 1)
        assert (message.to, message.message_id) == ("Entity", "123456")
        assert properties(message) == {"userProp1": "value1", "RuleName": "sql-filter-1"}


async def test_sql_of_the_file_sorts_changes_and_fails(start_daemon, flavour):
    config = CONFIG.replace('{"Name": "all"}', '{"Name": "all"}, {"Name": "sql", "Rules": %s}' % SQL_RULES.replace("%", "%%"))
    daemon = start_daemon(emulator=config % "")
    where = Topic("news") / "sql"
    async with Bus(flavour, daemon.connection_string) as bus, administration(daemon, flavour) as admin:
        listed = await all_of(admin.list_rules(*where))
        assert [rule.name for rule in listed] == ["correlation", "fails", "sql"]
        assert listed[0].action.sql_expression == "SET by = 'correlation'"
        assert listed[2].filter.sql_expression == "n > 1 AND color LIKE 'r%'"
        message = lambda name, subject="", **sent: ServiceBusMessage(name, subject=subject, application_properties=sent)
        sent = [message("red", n=2, color="red"), message("few", n=1, color="red"), message("x", "x", n=1), message("zero", n=1, zero=0)]
        await bus.send(Topic("news"), sent)
        red, x = await bus.drain(where, 2)
        assert (body(red), red.subject, properties(red)) == (b"red", "sorted", {"n": 3, "RuleName": "sql"})
        assert (body(x), properties(x)) == (b"x", {"n": 1, "by": "correlation", "RuleName": "correlation"})
        (dead,) = await bus.peek(where, sub_queue=DEAD_LETTER)
        assert (body(dead), dead.dead_letter_reason) == (b"zero", "FilterException")
