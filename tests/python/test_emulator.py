"""A daemon in the place of the Service Bus emulator, with its Config.json and its connection string."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from bus import Bus, bodies, one, take
from daemon import Topic

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
