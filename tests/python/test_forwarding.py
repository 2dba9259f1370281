"""Auto-forwarding: messages of queues and subscriptions, and dead letters, are moved to another entity."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from administration import administration_client
from bus import DEAD_LETTER, TRANSFER_DEAD_LETTER, Bus, bodies, body, nothing, take, told_end
from daemon import Topic, entities_text

CHAIN = ["a", "b", "c", "d", "e", "f"]


async def test_queue_to_queue(flavour, start_daemon):
    """A new number, the first one kept, properties unchanged; receiving from the source is refused."""
    daemon = start_daemon(entities_text({"target": {}, "source": {"forward_to": "target"}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("target", ServiceBusMessage(b"before"))
        sent = ServiceBusMessage(b"x", message_id="id", partition_key="p", application_properties={"n": 1})
        await bus.send("source", sent)
        first, second = await take(await bus.open_receiver("target"), 2)
        assert bodies([first, second]) == [b"before", b"x"]
        assert (second.sequence_number, second.enqueued_sequence_number) == (2, 1)
        assert (second.message_id, second.partition_key, second.delivery_count) == ("id", "p", 0)
        assert second.application_properties == {b"n": 1}
        with pytest.raises(ServiceBusError, match="(?i)auto-forwarding enabled"):
            await bus.open_receiver("source")
        assert await bus.peek("source", sub_queue=DEAD_LETTER) == []


async def test_subscription_to_queue_and_to_topic(flavour, start_daemon):
    rules = [{"name": "red", "correlation": {"label": "red"}}]
    topics = {
        "second": {"subscriptions": [{"name": "red", "rules": rules}, {"name": "all"}]},
        "first": {
            "subscriptions": [
                {"name": "queue", "forward_to": "target"},
                {"name": "topic", "forward_to": "second"},
                {"name": "stays"},
            ]
        },
    }
    daemon = start_daemon(entities_text({"target": {}}, topics))
    async with Bus(flavour, daemon.connection_string) as bus:
        first, second = Topic("first"), Topic("second")
        await bus.send(first, ServiceBusMessage(b"red", subject="red"), ServiceBusMessage(b"blue", subject="blue"))
        assert bodies(await bus.drain("target", 2)) == [b"red", b"blue"]
        assert bodies(await bus.drain(second / "all", 2)) == [b"red", b"blue"]
        assert bodies(await bus.drain(second / "red", 1)) == [b"red"]
        assert bodies(await bus.drain(first / "stays", 2)) == [b"red", b"blue"]


async def test_the_fifth_hop_dead_letters(flavour, start_daemon):
    queues = {name: {"forward_to": target} for name, target in zip(CHAIN, CHAIN[1:])} | {CHAIN[-1]: {}}
    daemon = start_daemon(entities_text(queues))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("a", ServiceBusMessage(b"far"))
        await bus.send("b", ServiceBusMessage(b"near"))
        assert bodies(await bus.drain("f", 1)) == [b"near"]
        (dead,) = await take(await bus.open_receiver("e", sub_queue=DEAD_LETTER), 1)
        assert (body(dead), dead.dead_letter_reason) == (b"far", "MaxTransferHopCountExceeded")


async def test_dead_letters_go_on(flavour, start_daemon):
    queues = {"graves": {}, "The.Source": {"forward_dead_lettered_messages_to": "graves"}}
    daemon = start_daemon(entities_text(queues))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("The.Source", ServiceBusMessage(b"x"))
        receiver = await bus.open_receiver("The.Source")
        (message,) = await take(receiver, 1)
        await receiver.dead_letter_message(message, reason="r", error_description="d")
        (dead,) = await take(await bus.open_receiver("graves"), 1)
        assert (body(dead), dead.dead_letter_reason, dead.dead_letter_error_description) == (b"x", "r", "d")
        assert dead.dead_letter_source == "the.source", "in lower case, as in Service Bus"
        with pytest.raises(ServiceBusError, match="(?i)auto-forwarding enabled"):
            assert await bus.peek("The.Source", sub_queue=DEAD_LETTER) == []


async def test_a_refused_dead_letter_goes_on_when_its_target_is_replaced(flavour, start_daemon):
    queues = {"source": {"forward_dead_lettered_messages_to": "target"}, "target": {"requires_session": True}}
    daemon = start_daemon(entities_text(queues))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("source", ServiceBusMessage(b"no session"), ServiceBusMessage(b"session", session_id="s"))
        receiver = await bus.open_receiver("source")
        for message in await take(receiver, 2):
            await receiver.dead_letter_message(message, reason="r")
        (gone,) = await take(await bus.open_receiver("target", session_id="s"), 1)
        assert body(gone) == b"session"
        with administration_client(daemon) as client:
            client.delete_queue("target")
            client.create_queue("target")
        (dead,) = await take(await bus.open_receiver("target"), 1)
        assert (body(dead), dead.dead_letter_reason) == (b"no session", "r")


async def test_a_forwarded_dead_letter_keeps_its_life_and_may_expire_at_the_target(flavour, start_daemon):
    """A retry topology: messages that expire in one queue arrive in another, with their full time-to-live (azure-sdk-for-net 6748)."""
    retry = {"dead_lettering_on_message_expiration": True, "forward_dead_lettered_messages_to": "work"}
    daemon = start_daemon(entities_text({"work": {}, "retry": retry}), time_travel=True)
    async with Bus(flavour, daemon.connection_string) as bus:
        life = datetime.timedelta(minutes=10)
        await bus.send("retry", ServiceBusMessage(b"x", time_to_live=life))
        async with bus.receiver("retry") as receiver:
            daemon.advance(minutes=10)
            assert await nothing(receiver)
        (again,) = await take(await bus.open_receiver("work"), 1)
        assert (body(again), again.time_to_live, again.dead_letter_source) == (b"x", life, "retry")
        assert again.dead_letter_reason == "TTLExpiredException"
        assert again.enqueued_time_utc + life == told_end(again)
    daemon.advance(minutes=10)
    async with Bus(flavour, daemon.connection_string) as bus:
        assert await bus.drain_nothing("work")


async def test_a_dead_letter_after_four_hops_is_received_as_a_transfer_dead_letter(flavour, start_daemon):
    """It is not forwarded (azure-service-bus 249), and receiving from a dead-letter queue that forwards is refused."""
    graves = {"forward_dead_lettered_messages_to": "graves"}
    queues = {name: {"forward_to": target} | graves for name, target in zip(CHAIN, CHAIN[1:])}
    daemon = start_daemon(entities_text(queues | {CHAIN[-1]: graves, "graves": {}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("a", ServiceBusMessage(b"far"))
        receiver = await bus.open_receiver("e", sub_queue=TRANSFER_DEAD_LETTER)
        (dead,) = await take(receiver, 1)
        assert (body(dead), dead.dead_letter_reason) == (b"far", "MaxTransferHopCountExceeded")
        await receiver.complete_message(dead)
        assert await bus.peek("graves") == []


async def test_sigkill_in_the_middle_neither_loses_nor_doubles(flavour, start_daemon):
    daemon = start_daemon(entities_text({"target": {}, "source": {"forward_to": "target"}}))
    count = 3_000
    for batch in range(3):
        async with Bus(flavour, daemon.connection_string) as bus:
            for start in range(0, count // 3, 500):
                first = batch * (count // 3) + start
                await bus.send("source", [ServiceBusMessage(f"{n}") for n in range(first, first + 500)])
            # The test does not wait for forwarding.
        daemon.kill()
        daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        got = await bus.drain("target", count)
        assert bodies(got) == [f"{n}".encode() for n in range(count)]
        assert await bus.peek("target") == []


async def test_a_source_is_never_idle(flavour, start_daemon):
    """S-33."""
    idle = {"auto_delete_on_idle": "PT1H"}
    queues = {"target": {}, "source": {"forward_to": "target"} | idle, "plain": idle}
    daemon = start_daemon(entities_text(queues), time_travel=True)
    daemon.advance(hours=5)
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send("source", ServiceBusMessage(b"x"))
        assert bodies(await bus.drain("target", 1)) == [b"x"]
        with pytest.raises(ServiceBusError):
            await bus.open_sender("plain")
