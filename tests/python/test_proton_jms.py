"""Subscriptions of JMS clients, as shown by Python's administration client; durable ones of Qpid Proton across SIGKILL."""

import proton
from proton.reactor import DurableSubscription, LinkOption, Selector
from proton.utils import BlockingConnection

from administration import administration_client
from test_proton import IDENTITY, TIMEOUT_SECS


class OfTopic(LinkOption):
    """The capability by which JMS clients request a subscription."""

    def apply(self, link):
        link.source.capabilities.put_object(proton.symbol("topic"))


class Durable(OfTopic):
    def apply(self, link):
        super().apply(link)
        link.source.durability = proton.Terminus.DELIVERIES
        link.source.expiry_policy = proton.Terminus.EXPIRE_NEVER


def connect(daemon, client_id):
    container = proton.reactor.Container()
    container.container_id = client_id
    address = f"amqp://127.0.0.1:{daemon.amqp_port}"
    return BlockingConnection(address, timeout=TIMEOUT_SECS, container=container, **IDENTITY)


def test_subscriptions_of_clients_are_seen_by_administration_and_survive_sigkill(own_daemon):
    with administration_client(own_daemon) as admin:
        admin.create_topic("news")
    connection = connect(own_daemon, "client")
    connection.create_receiver("news", name="durable", options=[Durable(), Selector("size > 1")])
    connection.create_receiver("news", name="volatile", options=OfTopic())
    sender = connection.create_sender("news")
    for size in range(4):
        sender.send(proton.Message(f"{size}", properties={"size": size}))
    with administration_client(own_daemon) as admin:
        # The other's name is random.
        names = [each.name for each in admin.list_subscriptions("news")]
        durable, volatile = sorted(names, key=lambda name: name.endswith("$ND"))
        assert durable == "durable$client$D"
        assert volatile.endswith("$client$ND")
        assert admin.get_subscription_runtime_properties("news", durable).active_message_count == 2
        (rule,) = admin.list_rules("news", durable)
        assert (rule.name, rule.filter.sql_expression) == ("$Default", "size > 1")
        assert admin.get_subscription_runtime_properties("news", volatile).active_message_count == 4
    own_daemon.kill()
    own_daemon.start()
    with administration_client(own_daemon) as admin:
        assert [each.name for each in admin.list_subscriptions("news")] == ["durable$client$D"]
    connection = connect(own_daemon, "client")
    sender = connection.create_sender("news")
    sender.send(proton.Message("1", properties={"size": 1}))
    sender.send(proton.Message("4", properties={"size": 4}))
    receiver = connection.create_receiver("news", name="durable", credit=3, options=[Durable(), Selector("size > 1")])
    assert [receiver.receive(TIMEOUT_SECS).body for _ in range(3)] == ["2", "3", "4"]
    connection.close()
