"""Links need a token put to `$cbs`: the SDKs do that, clients without a token are refused."""

import proton
import pytest
from azure.servicebus import ServiceBusMessage
from proton.utils import BlockingConnection

from bus import Bus, bodies
from daemon import Daemon

CONFIG = """
[[queues]]
name = "guarded"
"""


@pytest.fixture
def guarded():
    daemon = Daemon(CONFIG).start()
    yield daemon
    assert daemon.panics() == []
    daemon.close()


async def test_the_sdk_puts_its_token(guarded, flavour):
    async with Bus(flavour, guarded.connection_string) as bus:
        await bus.send("guarded", ServiceBusMessage(b"allowed"))
        assert bodies(await bus.drain("guarded", 1)) == [b"allowed"]


def test_a_client_without_a_token_is_turned_away(guarded):
    connection = BlockingConnection(f"amqp://127.0.0.1:{guarded.amqp_port}", timeout=20, allowed_mechs="ANONYMOUS")
    for attach in (connection.create_sender, connection.create_receiver):
        with pytest.raises(proton.utils.LinkDetached) as error:
            attach("guarded")
        assert error.value.condition == "amqp:unauthorized-access"
    connection.close()


@pytest.mark.parametrize(
    "request_message",
    [
        proton.Message("SharedAccessSignature nonsense", properties={"operation": "put-token", "type": "jwt"}),
        proton.Message(7, properties={"operation": "put-token", "type": "jwt", "name": "sb://localhost/guarded"}),
        proton.Message("", properties={"operation": "put-token", "type": "jwt", "name": "sb://localhost/guarded"}),
        proton.Message("token", properties={"operation": "steal-token"}),
        proton.Message("token"),
    ],
    ids=["no name", "no text", "empty", "unknown operation", "no operation"],
)
def test_malformed_tokens_are_reported(guarded, request_message):
    connection = BlockingConnection(f"amqp://127.0.0.1:{guarded.amqp_port}", timeout=20, allowed_mechs="ANONYMOUS")
    receiver = connection.create_receiver("$cbs", credit=1, name="answers")
    sender = connection.create_sender("$cbs", name="requests")
    request_message.id = "request"
    request_message.reply_to = "answers"
    sender.send(request_message)
    answer = receiver.receive(20)
    assert answer.correlation_id == "request"
    assert answer.properties["status-code"] >= 400
    with pytest.raises(proton.utils.LinkDetached):
        connection.create_sender("guarded", name="data")
    connection.close()
