"""Any port, any protocol: the SDK's clients over WebSockets and TLS, each way on the same port, administration in between."""

import pytest
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusConnectionError

from administration import administration_client
from bus import Bus, body, one
from daemon import entities_text

MEGABYTE = 1024 * 1024


def options_of(daemon, way: str) -> dict:
    """The options for any port: without `custom_endpoint_address` the SDK uses 5671 or 443."""
    socket_type = TransportType.AmqpOverWebsocket if way.startswith("ws") else TransportType.Amqp
    options = {"transport_type": socket_type, "custom_endpoint_address": f"sb://localhost:{daemon.http_port}"}
    return options | ({} if way == "ws" else {"connection_verify": daemon.ca})


def bus_by(flavour, daemon, way, connection_string=None) -> Bus:
    """A client by one of the ways `ws`, `wss` and `amqps`."""
    of_way = daemon.connection_string if way == "ws" else daemon.connection_string_tls
    return Bus(flavour, connection_string or of_way, **options_of(daemon, way))


@pytest.fixture(params=["ws", "wss", "amqps"])
async def way_bus(request, daemon, flavour):
    async with bus_by(flavour, daemon, request.param) as bus:
        yield bus


async def test_messages_are_sent_received_and_settled(way_bus, queue):
    await way_bus.send(queue, [ServiceBusMessage(f"{number}") for number in range(20)])
    receiver = await way_bus.open_receiver(queue)
    for number in range(20):
        message = await one(receiver)
        assert body(message) == f"{number}".encode()
        await receiver.complete_message(message)
    assert await way_bus.peek(queue) == []


async def test_a_megabyte_arrives_whole(way_bus, queue):
    # The maximum size of the message, less its other sections.
    content = bytes(range(256)) * (MEGABYTE // 256 - 4)
    await way_bus.send(queue, ServiceBusMessage(content))
    (message,) = await way_bus.drain(queue, 1)
    assert body(message) == content


async def test_sessions(way_bus, queues):
    queue = queues.take("session")
    await way_bus.send(queue, ServiceBusMessage(b"a", session_id="a"), ServiceBusMessage(b"b", session_id="b"))
    receiver = await way_bus.open_receiver(queue, session_id="b")
    await receiver.session.set_state(b"state")
    message = await one(receiver)
    assert body(message) == b"b"
    await receiver.complete_message(message)
    assert await receiver.session.get_state() == b"state"


async def test_entities_of_an_administrator_serve_at_once(daemon, flavour):
    """One connection string for both."""
    name = f"made-over-tls-{flavour}"
    async with bus_by(flavour, daemon, "wss") as bus:
        with administration_client(daemon, "https") as admin:
            admin.create_queue(name)
            await bus.send(name, ServiceBusMessage(b"x"))
            assert admin.get_queue_runtime_properties(name).active_message_count == 1
            assert len(await bus.drain(name, 1)) == 1
            admin.delete_queue(name)


@pytest.mark.parametrize("way", ["wss", "amqps"])
async def test_wrong_keys_and_unknown_authorities(daemon, flavour, queue, way):
    """With a custom address the SDK reports every failure to authenticate as one of the connection."""
    wrong = daemon.connection_string_tls.replace("SAS_KEY_VALUE", "wrong")
    async with bus_by(flavour, daemon, way, wrong) as bus:
        with pytest.raises(ServiceBusConnectionError, match="amqp:client-error"):
            await bus.open_sender(queue)
    async with bus_by(flavour, daemon, way) as bus:
        distrusting = bus.new_client(retry_total=0, connection_verify=None)
        with pytest.raises(ServiceBusConnectionError, match="(?i)certificate verify failed"):
            async with distrusting, distrusting.get_queue_sender(queue) as sender:
                await sender.send_messages(ServiceBusMessage(b"x"))


@pytest.fixture
def default_port_daemon(amqps_address, start_daemon):
    """A daemon with the SDK's default port."""
    config = f'[tls]\nnames = ["{amqps_address}"]\n' + entities_text({"queue": {}})
    return start_daemon(config, also_listen=[f"{amqps_address}:5671"])


async def test_without_a_port_the_sdk_takes_that_of_amqps(default_port_daemon, amqps_address, flavour):
    daemon = default_port_daemon
    connection_string = daemon.connection_string_tls.replace(f"localhost:{daemon.amqp_port}", amqps_address)
    async with Bus(flavour, connection_string, connection_verify=daemon.ca) as bus:
        await bus.send("queue", ServiceBusMessage(b"x"))
        assert len(await bus.drain("queue", 1)) == 1
    wrong = connection_string.replace("SAS_KEY_VALUE", "wrong")
    async with Bus(flavour, wrong, connection_verify=daemon.ca) as bus:
        with pytest.raises(ServiceBusAuthenticationError):
            await bus.open_sender("queue")
