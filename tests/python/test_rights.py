"""Rights through the SDK: each right, each operation, each reason of a refusal."""

import base64
import datetime
import hashlib
import hmac
import os
import signal
import time
import urllib.parse

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from administration import administration_client
from daemon import Daemon

RULE = """
[[{where}]]
name = "{name}"
rights = [{rights}]
primary_key = "{name}-primary"
secondary_key = "{name}-secondary"
"""


def rule(where: str, name: str, *rights: str) -> str:
    return RULE.format(where=where, name=name, rights=", ".join(f'"{right}"' for right in rights))


RULES = (
    rule("authorization.rules", "listener", "Listen")
    + rule("authorization.rules", "sender", "Send")
    + rule("authorization.rules", "owner", "Listen", "Send", "Manage")
)
ENTITIES = '[[queues]]\nname = "orders"\n' + rule("queues.authorization_rules", "clerk", "Listen", "Send")
ENTITIES += '[[queues]]\nname = "invoices"\n'
ENTITIES += '[[queues]]\nname = "orders/new"\n'


@pytest.fixture(scope="module")
def guarded():
    daemon = Daemon('log.level = "trace"\n' + RULES + ENTITIES).start()
    yield daemon
    assert daemon.panics() == []
    log = daemon.log.read_text()
    assert "peeklock_amqp::frames" in log, "everything is logged"
    for secret in ("-primary", "-secondary", "sig=", "sig%3D", "SharedAccessSignature sr"):
        assert secret not in log, f"{secret} in {next(line for line in log.splitlines() if secret in line)[:300]}"
    daemon.close()


def connection_string(daemon, name: str, key: str | None = None) -> str:
    key = key or f"{name}-primary"
    return daemon.connection_string.replace("RootManageSharedAccessKey", name).replace("SAS_KEY_VALUE", key)


def client(daemon, name: str, key: str | None = None) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(connection_string(daemon, name, key), retry_total=0)


def send(client, queue="orders"):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))


def schedule(client, queue="orders"):
    with client.get_queue_sender(queue) as sender:
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        sender.cancel_scheduled_messages(sender.schedule_messages(ServiceBusMessage(b"x"), when))


def receive(client, queue="orders"):
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(max_wait_time=1):
            receiver.complete_message(message)


def peek(client, queue="orders"):
    with client.get_queue_receiver(queue) as receiver:
        receiver.peek_messages()


@pytest.mark.parametrize("name", ["listener", "sender", "owner", "clerk"])
@pytest.mark.parametrize("operation", [send, schedule, receive, peek], ids=lambda operation: operation.__name__)
def test_each_operation_takes_its_right(guarded, name, operation):
    allowed = {"listener": [receive, peek], "sender": [send, schedule]}.get(name, [send, schedule, receive, peek])
    with client(guarded, name) as connected:
        if operation in allowed:
            operation(connected)
        else:
            with pytest.raises(ServiceBusAuthorizationError):
                operation(connected)


def test_either_key_is_good(guarded):
    with client(guarded, "sender", "sender-secondary") as connected:
        send(connected)


def test_a_rule_may_have_one_key(start_daemon):
    """Without a second key, the empty key has no rights either."""
    daemon = start_daemon(
        '[[queues]]\nname = "orders"\n[[queues.authorization_rules]]\n'
        'name = "one"\nrights = ["Send"]\nprimary_key = "one-primary"\n'
    )
    token = signature("sb://localhost/orders", "one", "", int(time.time()) + HOUR)
    for _ in range(2):
        with client(daemon, "one") as connected:
            send(connected)
        with with_token(daemon, token) as connected, pytest.raises(ServiceBusAuthenticationError):
            send(connected)
        # The description that an administration client reads can be written back.
        with administration_client(daemon) as admin:
            queue = admin.get_queue("orders")
            (rule,) = queue.authorization_rules
            assert (rule.primary_key, rule.secondary_key) == ("one-primary", None)
            admin.update_queue(queue, max_delivery_count=3)


@pytest.mark.parametrize("queue", ["invoices", "orders/new", "orders/never-was"])
def test_a_rule_of_an_entity_is_for_that_entity(guarded, queue):
    with client(guarded, "clerk") as connected, pytest.raises(ServiceBusAuthenticationError):
        send(connected, queue)


@pytest.mark.parametrize("name, key", [("sender", "wrong"), ("nobody", "sender-primary"), ("clerk", "sender-primary")])
def test_a_wrong_key_and_an_unknown_rule_are_turned_away_alike(guarded, name, key):
    with client(guarded, name, key) as connected, pytest.raises(ServiceBusAuthenticationError):
        send(connected)


def signature(resource: str, name: str, key: str, expiry: int) -> str:
    encoded = urllib.parse.quote(resource, safe="")
    digest = hmac.new(key.encode(), f"{encoded}\n{expiry}".encode(), hashlib.sha256).digest()
    signed = urllib.parse.quote(base64.b64encode(digest), safe="")
    return f"SharedAccessSignature sr={encoded}&sig={signed}&se={expiry}&skn={name}"


def with_token(daemon, token: str) -> ServiceBusClient:
    base = f"Endpoint=sb://localhost:{daemon.amqp_port};SharedAccessSignature={token};UseDevelopmentEmulator=true;"
    return ServiceBusClient.from_connection_string(base, retry_total=0)


HOUR = 3600


@pytest.mark.parametrize(
    "make",
    [
        lambda now: signature("sb://localhost/orders", "owner", "owner-primary", now - 1),
        lambda now: signature("sb://localhost/invoices", "owner", "owner-primary", now + HOUR),
        lambda now: signature("sb://localhost/orders", "owner", "wrong", now + HOUR),
        lambda now: signature("sb://localhost/orders", "owner", "owner-primary", now + HOUR)[:60],
        lambda now: signature("sb://localhost/$x/orders", "owner", "owner-primary", now + HOUR),
        lambda now: signature("orders/new", "owner", "owner-primary", now + HOUR),
        lambda now: signature("sb://localhost/orders/new", "clerk", "clerk-primary", now + HOUR),
        lambda now: signature("sb://localhost/orders%2fnew", "owner", "owner-primary", now + HOUR),
    ],
    ids=[
        "expired",
        "for another entity",
        "wrongly signed",
        "truncated",
        "for an unknown node",
        "for another entity without a scheme",
        "for what the rule is not for",
        "with an encoded slash",
    ],
)
def test_tokens_that_are_no_good(guarded, make):
    """The SDK reports only the type: it drops the description of `$cbs`."""
    token = make(int(time.time()))
    with with_token(guarded, token) as connected, pytest.raises(ServiceBusAuthenticationError) as error:
        send(connected)
    assert "-primary" not in str(error.value)


def test_a_signature_by_the_namespace_is_valid_for_everything_below_its_url(guarded):
    """As on Service Bus: the URL is compared by whole segments, whether an entity has that name or not."""
    token = signature("sb://localhost/orders", "owner", "owner-primary", int(time.time()) + HOUR)
    with with_token(guarded, token) as connected:
        send(connected, "orders/new")
    token = signature("sb://localhost/orders/ne", "owner", "owner-primary", int(time.time()) + HOUR)
    with with_token(guarded, token) as connected, pytest.raises(ServiceBusAuthenticationError):
        send(connected, "orders/new")


def test_a_changed_rule_ends_open_links_at_once(start_daemon):
    daemon = start_daemon(RULES + ENTITIES)
    with client(daemon, "owner") as connected, connected.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(b"before"))
        daemon.config.write_text((RULES + ENTITIES).replace("owner-primary", "another").replace("owner-secondary", "other"))
        os.kill(daemon.process.pid, signal.SIGHUP)
        with pytest.raises(ServiceBusError):
            for _ in range(2000):
                sender.send_messages(ServiceBusMessage(b"after"))
    with client(daemon, "owner", "another") as connected:
        send(connected)


def test_a_token_that_ends_takes_its_links_along_and_a_new_one_brings_them_back(guarded):
    """An attached receiver is detached; the SDK reports this by its own type, and attaches again with a new token."""
    owner = ("owner", "owner-primary")
    brief = signature("sb://localhost/orders", *owner, int(time.time()) + 15)  # enough to attach on a busy machine
    with with_token(guarded, brief) as connected, connected.get_queue_receiver("orders") as receiver:
        receiver.peek_messages()
        with pytest.raises((ServiceBusAuthorizationError, ServiceBusAuthenticationError)):
            for _ in range(30):
                receiver.receive_messages(max_wait_time=2)
    renewed = signature("sb://localhost/orders", *owner, int(time.time()) + HOUR)
    with with_token(guarded, renewed) as connected:
        send(connected)
        receive(connected)
