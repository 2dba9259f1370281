"""Transfer dead letters of a topic: messages sent by way of it that their destination refuses.

Apache Qpid Proton sends them, as older clients of Service Bus do: the attach of its sender names the destination.
"""

import proton
from azure.servicebus import ServiceBusMessage
from proton.reactor import LinkOption
from proton.utils import BlockingConnection

from bus import TRANSFER_DEAD_LETTER, Bus, bodies, body, one, take
from daemon import Topic, entities_text
from test_api import Api
from test_proton import IDENTITY, TIMEOUT_SECS

ENTITIES = entities_text({"sessions": {"requires_session": True}}, topics={"t": {"subscriptions": [{"name": "one"}]}})
TOPIC = Topic("t")


class Via(LinkOption):
    def __init__(self, destination: str):
        self.destination = destination

    def apply(self, link):
        link.properties = {proton.symbol("com.microsoft:transfer-destination-address"): self.destination}


def send_undeliverable(daemon, *texts: bytes):
    """Sends messages without a session by way of the topic to a queue that requires sessions."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY)
    sender = connection.create_sender("t", options=Via("sessions"))
    for text in texts:
        assert sender.send(proton.Message(text, inferred=True)).remote_state == proton.Delivery.ACCEPTED
    connection.close()


async def test_transfer_dead_letters_of_a_topic_are_received_and_settled(flavour, start_daemon):
    daemon = start_daemon(ENTITIES)
    send_undeliverable(daemon, b"a", b"b")
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(TOPIC, ServiceBusMessage(b"published"))
        assert bodies(await bus.peek("t", sub_queue=TRANSFER_DEAD_LETTER)) == [b"a", b"b"]
        receiver = await bus.open_receiver("t", sub_queue=TRANSFER_DEAD_LETTER)
        first, second = await take(receiver, 2)
        assert (body(first), first.dead_letter_reason) == (b"a", "Session id is null.")
        await receiver.complete_message(first)
        assert await receiver.renew_message_lock(second) >= second.locked_until_utc
        await receiver.defer_message(second)
        (deferred,) = await receiver.receive_deferred_messages(second.sequence_number)
        await receiver.complete_message(deferred)
        assert await bus.peek("t", sub_queue=TRANSFER_DEAD_LETTER) == []
        assert bodies(await bus.drain(TOPIC / "one", 1)) == [b"published"]


async def test_transfer_dead_letters_of_a_topic_survive_a_crash(flavour, start_daemon):
    daemon = start_daemon(ENTITIES)
    send_undeliverable(daemon, b"a")
    daemon.kill()
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        receiver = await bus.open_receiver("t/$Transfer/$DeadLetterQueue")
        message = await one(receiver)
        assert body(message) == b"a"
        await receiver.complete_message(message)


def test_transfer_dead_letters_of_a_topic_are_counted_and_received_over_http(start_daemon):
    daemon = start_daemon(ENTITIES)
    send_undeliverable(daemon, b"a", b"b")
    rest, under = Api(daemon), "/$Transfer/$DeadLetterQueue"
    (group,) = rest.pages("dead-letters", "groups")
    assert (group["path"], group["queue"], group["reason"], group["count"]) == ("t", "transfer", "Session id is null.", 2)

    def count():
        described = rest.request("GET", "/t?api-version=2021-05").body.decode()
        return int(described.partition("TransferDeadLetterMessageCount>")[2].partition("<")[0])

    assert count() == 2
    locked = rest.peek_lock("t", under=under)
    assert (locked.status, locked.body) == (201, b"a")
    assert rest.at("DELETE", locked.location).status == 200
    taken = rest.take("t", under=under)
    assert (taken.status, taken.body, count()) == (200, b"b", 0)
    assert rest.take("t").status == rest.take("t", under="/$DeadLetterQueue").status == 400
