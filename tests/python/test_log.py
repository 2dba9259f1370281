"""Log lines about refusals of clients, at the default level."""

import contextlib
import datetime
import re
import urllib.error
import urllib.request

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from bus import Bus, log_line
from daemon import entities_text
from rest import Rest

QUEUE = "orders"
WRONG_KEY = "d3JvbmcgYnV0IGxvbmcgZW5vdWdo"


@pytest.fixture
def daemon(start_daemon):
    return start_daemon(entities_text({QUEUE: {"max_message_size_in_kilobytes": 1024}}))


async def test_refused_credentials_name_rule_reason_and_peer_but_no_key(daemon, flavour):
    wrong = re.sub("SharedAccessKey=[^;]*", f"SharedAccessKey={WRONG_KEY}", daemon.connection_string)
    async with Bus(flavour, wrong) as bus:
        with pytest.raises(ServiceBusError):
            await bus.send(QUEUE, ServiceBusMessage("x"))
    refused = await log_line(daemon, "credentials refused")
    assert " INFO " in refused and "127.0.0.1:" in refused
    assert f"resource={QUEUE}" in refused and "identity=RootManageSharedAccessKey" in refused
    assert 'reason="signature"' in refused
    assert re.search(r'connection\{peer="127\.0\.0\.1:\d+" container="[^"]+"\}: ', refused)
    text = daemon.log.read_text()
    assert WRONG_KEY not in text and "sig=" not in text


async def test_a_missing_entity_is_named(daemon, flavour):
    async with Bus(flavour, daemon.connection_string) as bus:
        with pytest.raises(ServiceBusError):
            await bus.send("orderz", ServiceBusMessage("x"))
    missing = await log_line(daemon, "entity not found")
    assert " INFO " in missing and "orderz" in missing and "127.0.0.1:" in missing


async def test_a_message_that_is_too_large_is_noted_with_its_limit(daemon, flavour):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    async with Bus(flavour, daemon.connection_string) as bus, bus.sender(QUEUE) as sender:
        # The SDK itself checks the size of a single send.
        with pytest.raises(ServiceBusError):
            await sender.schedule_messages(ServiceBusMessage(b"x" * ((1 << 20) + 1000)), later)
    refused = await log_line(daemon, "message refused: it is too large")
    assert " INFO " in refused and "limit_bytes=1048576" in refused


async def test_a_request_over_http_without_a_good_token_is_noted(daemon):
    token = "SharedAccessSignature sr=http%3A%2F%2Flocalhost%2Forders&sig=d3Jvbmc%3D&se=4102444800&skn=Reader"
    address = f"http://127.0.0.1:{daemon.http_port}/{QUEUE}?api-version=2021-05"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(address, headers={"Authorization": token}), timeout=10)
    assert refused.value.code == 401
    noted = await log_line(daemon, "credentials refused over HTTP")
    assert "identity=Reader" in noted and f"path=/{QUEUE}" in noted and "127.0.0.1:" in noted


async def test_a_request_over_http_that_is_too_large_is_noted_with_its_size(daemon):
    size = (1 << 20) + 100_000
    # The broker does not read it, so the client may find the connection closed instead of an answer.
    with contextlib.suppress(ConnectionError):
        assert Rest(daemon).send(QUEUE, b"x" * size).status == 413
    noted = await log_line(daemon, "HTTP request refused: it is too large")
    assert " INFO " in noted and f"size_bytes={size}" in noted and f"path=/{QUEUE}/messages" in noted
    assert "127.0.0.1:" in noted and "sig=" not in daemon.log.read_text()


async def test_entities_of_clients_cause_no_warning_at_a_start(daemon, flavour):
    from rules import administration

    async with administration(daemon, flavour) as admin:
        await admin.create_queue("made-by-a-client")
    daemon.stop()
    daemon.log.write_text("")
    daemon.start()
    kept = await log_line(daemon, "entities are stored that the configuration does not declare")
    assert " INFO " in kept and 'queue "made-by-a-client"' in kept
    assert " WARN " not in daemon.log.read_text()
