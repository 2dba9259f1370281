"""Rights of administration, through the SDK's administration client over https: errors, keys of entities, forwarding."""

import contextlib
import datetime
import os
import re

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusAuthorizationError, ServiceBusError
from azure.servicebus.management import AccessRights, AuthorizationRule, EntityStatus

from administration import administration_client, https_client
from daemon import Daemon

RIGHTS = {
    "listener": ["Listen"],
    "sender": ["Send"],
    "owner": ["Listen", "Send", "Manage"],
}
CONFIG = "".join(
    f'[[authorization.rules]]\nname = "{name}"\nrights = {rights}\nprimary_key = "{name}-key"\nsecondary_key = "{name}-other"\n'.replace("'", '"')
    for name, rights in RIGHTS.items()
)


@pytest.fixture(scope="module")
def guarded():
    with contextlib.closing(Daemon(CONFIG).start()) as daemon:
        yield daemon
        assert daemon.panics() == []


def string_of(daemon, name: str, key: str | None = None, tls: bool = True) -> str:
    base = f"Endpoint=sb://localhost:{daemon.amqp_port};SharedAccessKeyName={name};SharedAccessKey={key or f'{name}-key'};"
    return base if tls else f"{base}UseDevelopmentEmulator=true;"


def admin_of(daemon, name: str, key: str | None = None):
    return https_client(string_of(daemon, name, key), connection_verify=daemon.ca)


def client_of(daemon, name: str, **options):
    options = {"retry_total": 0} | options
    return ServiceBusClient.from_connection_string(string_of(daemon, name, tls=False), **options)


@pytest.fixture
def owner(guarded):
    with admin_of(guarded, "owner") as admin:
        yield admin


@pytest.fixture
def name(request):
    return request.node.name.replace("[", "-").replace("]", "")


@pytest.mark.parametrize("who, key", [("listener", None), ("sender", None), ("owner", "wrong"), ("nobody", "owner-key")])
def test_who_may_not_manage_is_refused(guarded, owner, name, who, key):
    owner.create_queue(name)
    with admin_of(guarded, who, key) as admin:
        for refused in (
            lambda: list(admin.list_queues()),
            lambda: admin.get_queue(name),
            lambda: admin.create_queue(f"{name}-another"),
            lambda: admin.delete_queue(name),
        ):
            with pytest.raises(ClientAuthenticationError):
                refused()
    assert name in [queue.name for queue in owner.list_queues()]


@pytest.mark.parametrize("who", ["listener", "sender"])
def test_any_right_shows_the_namespace_and_missing_entities(guarded, owner, name, who):
    owner.create_topic(name)
    owner.create_subscription(name, "s")
    with admin_of(guarded, who) as admin:
        assert admin.get_namespace_properties().namespace_type == "Messaging"
        for missing in (lambda: admin.get_queue("never/was"), lambda: admin.get_subscription("never", "was")):
            with pytest.raises(ResourceNotFoundError):
                missing()
        for refused, text in (
            (lambda: admin.get_topic(name), "Manage,EntityRead claims required for this operation"),
            (lambda: list(admin.list_queues()), "Manage,EntityRead claims required for this operation"),
            (lambda: admin.create_queue("never"), "Authorization failed for specified action: Manage,EntityWrite."),
            (lambda: admin.delete_queue("never"), "Authorization failed for specified action: Manage,EntityDelete."),
            (lambda: admin.get_subscription(name, "s"), "Unauthorized access for 'GetSubscription' operation"),
            (lambda: admin.get_subscription(name, "never"), "Unauthorized access for 'GetSubscription' operation"),
            (lambda: list(admin.list_subscriptions(name)), "Unauthorized access for 'EnumerateSubscriptions' operation"),
            (lambda: admin.delete_subscription(name, "s"), "Unauthorized access for 'DeleteSubscription' operation"),
        ):
            with pytest.raises(ClientAuthenticationError, match=text) as raised:
                refused()
            # Of a part of a topic, the status line says why.
            in_status_line = text.startswith("Unauthorized access")
            reason = f"SubCode=40100: Unauthorized : {text} on endpoint" if in_status_line else "Unauthorized"
            assert raised.value.reason.startswith(reason)


@pytest.mark.parametrize("who, key", [("owner", "wrong"), ("nobody", "owner-key")])
def test_a_bad_token_shows_nothing(guarded, owner, name, who, key):
    owner.create_queue(name)
    with admin_of(guarded, who, key) as admin:
        for refused in (
            lambda: admin.get_queue(name),
            lambda: admin.get_queue("never/was"),
            lambda: admin.get_namespace_properties(),
        ):
            with pytest.raises(ClientAuthenticationError, match="InvalidSignature"):
                refused()


def rule(key_name: str, *rights) -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=list(rights),
        key_name=key_name,
        primary_key=f"{key_name}-key",
        secondary_key=f"{key_name}-other",
    )


def test_keys_of_an_entity_are_good_for_that_entity(guarded, owner, name):
    everything = (AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
    rules = [rule("clerk", AccessRights.SEND), rule("chief", *everything)]
    owner.create_queue(name, authorization_rules=rules)
    owner.create_queue(f"{name}-another")
    with client_of(guarded, "clerk") as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"x"))
        with pytest.raises(ServiceBusAuthorizationError), client.get_queue_receiver(name) as receiver:
            receiver.receive_messages(max_wait_time=1)
    with admin_of(guarded, "chief") as chief:
        assert chief.get_queue(name).name == name
        queue = chief.get_queue(name)
        queue.authorization_rules = queue.authorization_rules[1:]
        chief.update_queue(queue)
        for refused in (lambda: chief.get_queue(f"{name}-another"), lambda: list(chief.list_queues())):
            with pytest.raises(ClientAuthenticationError):
                refused()
    with client_of(guarded, "clerk") as client, pytest.raises(ServiceBusError):
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"x"))


def test_a_rule_of_an_entity_is_not_one_of_names_that_begin_with_its_own(guarded, owner, name):
    everything = (AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
    owner.create_queue(name, authorization_rules=[rule("chief", *everything)])
    owner.create_queue(f"{name}/sub", authorization_rules=[rule("its-own", *everything)])
    owner.create_topic(f"{name}/topic")
    owner.create_subscription(f"{name}/topic", "s")
    with admin_of(guarded, "chief") as chief:
        assert chief.get_queue(name).authorization_rules[0].key_name == "chief"
        for refused in (
            lambda: chief.create_queue(f"{name}/new"),
            lambda: chief.get_queue(f"{name}/sub"),
            lambda: chief.get_queue(f"{name}/never-was"),
            lambda: chief.delete_queue(f"{name}/sub"),
            lambda: chief.get_subscription(f"{name}/topic", "s"),
            lambda: list(chief.list_rules(f"{name}/topic", "s")),
            lambda: chief.get_namespace_properties(),
            lambda: list(chief.list_topics()),
        ):
            with pytest.raises(ClientAuthenticationError):
                refused()
    with admin_of(guarded, "its-own") as admin:
        assert admin.get_queue(f"{name}/sub").name == f"{name}/sub"
        with pytest.raises(ClientAuthenticationError):
            admin.get_queue(name)
    with client_of(guarded, "chief") as client, pytest.raises(ServiceBusError):
        with client.get_queue_sender(f"{name}/sub") as sender:
            sender.send_messages(ServiceBusMessage(b"x"))


def test_a_rule_of_a_topic_is_one_of_its_subscriptions_and_their_rules(guarded, owner, name):
    everything = (AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
    owner.create_topic(name, authorization_rules=[rule("chief", *everything)])
    with admin_of(guarded, "chief") as chief:
        chief.create_subscription(name, "s")
        chief.create_rule(name, "s", "all")
        assert [found.name for found in chief.list_rules(name, "s")] == ["$Default", "all"]
        assert [found.name for found in chief.list_subscriptions(name)] == ["s"]
    with client_of(guarded, "chief") as client, client.get_topic_sender(name.upper()) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
        with client.get_subscription_receiver(name, "S", max_wait_time=30) as receiver:
            (message,) = receiver.receive_messages(1)
            receiver.dead_letter_message(message)
        with client.get_subscription_receiver(name, "s", sub_queue="deadletter", max_wait_time=30) as receiver:
            assert receiver.receive_messages(1)
    with admin_of(guarded, "chief") as chief:
        chief.delete_subscription(name, "s")


def test_a_name_that_addresses_can_not_tell_is_refused(owner):
    for bad in ("a%2fb", "my%20queue", "localhost", "localhost:5300", "a//b", "a/../b"):
        with pytest.raises(HttpResponseError):
            owner.create_queue(bad)


def test_forwarding_made_by_an_administrator_forwards(guarded, owner, name):
    """The SDK sends a separate token for each target."""
    owner.create_queue(f"{name}-target")
    owner.create_queue(f"{name}-graves")
    queue = owner.create_queue(
        name, forward_to=f"{name}-target", forward_dead_lettered_messages_to=f"{name}-graves"
    )
    owner.create_topic(f"{name}-topic")
    owner.create_subscription(f"{name}-topic", "s", forward_to=f"{name}-target")
    with client_of(guarded, "owner") as client:
        with client.get_queue_sender(name) as sender, client.get_topic_sender(f"{name}-topic") as publisher:
            sender.send_messages(ServiceBusMessage(b"queue"))
            publisher.send_messages(ServiceBusMessage(b"topic"))
        with client.get_queue_receiver(f"{name}-target", max_wait_time=30) as receiver:
            messages = []
            while len(messages) < 2:
                messages += receiver.receive_messages(2)
            assert {b"".join(message.body) for message in messages} == {b"queue", b"topic"}
        queue.forward_to = None
        owner.update_queue(queue)
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name, max_wait_time=30) as receiver:
            sender.send_messages(ServiceBusMessage(b"dies"))
            (message,) = receiver.receive_messages(1)
            receiver.dead_letter_message(message)
        with client.get_queue_receiver(f"{name}-graves", max_wait_time=30) as receiver:
            (message,) = receiver.receive_messages(1)
            assert b"".join(message.body) == b"dies"


def test_a_target_takes_the_right_to_send_there(guarded, owner, name):
    everything = (AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
    owner.create_queue(f"{name}-target")
    owner.create_queue(name, authorization_rules=[rule("chief", *everything)])
    with admin_of(guarded, "chief") as chief:
        queue = chief.get_queue(name)
        with pytest.raises(ClientAuthenticationError):
            chief.update_queue(queue, forward_to=f"{name}-target")
    assert owner.get_queue(name).forward_to is None
    with pytest.raises(HttpResponseError):
        owner.update_queue(queue, forward_to=f"{name}-missing")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (EntityStatus.DISABLED, r"Messaging entity 'sb://[^/]+/{}' is currently disabled\."),
        (EntityStatus.SEND_DISABLED, r"Messaging entity 'peeklock:Queue:{}' is currently disabled for Send operations\."),
    ],
    ids=["Disabled", "SendDisabled"],
)
def test_a_disabled_queue_refuses_and_detaches_senders(guarded, owner, name, status, text):
    """With one retry: the SDK sends before it reads, and treats the detach as a lost connection."""
    text = text.format(re.escape(name))
    owner.create_queue(name)
    with client_of(guarded, "owner", retry_total=1, retry_backoff_factor=0.1) as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"before"))
            queue = owner.get_queue(name)
            owner.update_queue(queue, status=status)
            with pytest.raises(MessagingEntityDisabledError, match=text):
                sender.send_messages(ServiceBusMessage(b"refused"))
        with pytest.raises(MessagingEntityDisabledError, match=text), client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"refused"))
        owner.update_queue(queue, status=EntityStatus.ACTIVE)
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"after"))
    assert owner.get_queue_runtime_properties(name).active_message_count == 2


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED])
def test_a_disabled_queue_gives_nothing(guarded, owner, name, status):
    owner.create_queue(name)
    with client_of(guarded, "owner") as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"x"))
        queue = owner.get_queue(name)
        owner.update_queue(queue, status=status)
        text = rf"Messaging entity 'sb://[^/]+/{re.escape(name)}(/\$management)?' is currently disabled\."
        with pytest.raises(MessagingEntityDisabledError, match=text), client.get_queue_receiver(name) as receiver:
            receiver.receive_messages(max_wait_time=1)
        with pytest.raises(MessagingEntityDisabledError, match=text), client.get_queue_receiver(name) as receiver:
            receiver.peek_messages()
        owner.update_queue(queue, status=EntityStatus.ACTIVE)
        with client.get_queue_receiver(name, max_wait_time=30) as receiver:
            (message,) = receiver.receive_messages(1)
            receiver.complete_message(message)


def test_use_is_reported(guarded, owner, name):
    owner.create_queue(name)
    unused = owner.get_queue_runtime_properties(name)
    with client_of(guarded, "owner") as client, client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    used = owner.get_queue_runtime_properties(name)
    assert used.accessed_at_utc >= unused.created_at_utc
    assert datetime.datetime.now(datetime.timezone.utc) - used.accessed_at_utc.replace(
        tzinfo=datetime.timezone.utc
    ) < datetime.timedelta(hours=1)


def test_the_variable_of_requests_is_enough(guarded, monkeypatch):
    """Unmodified: a connection string and REQUESTS_CA_BUNDLE."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", guarded.ca)
    with https_client(string_of(guarded, "owner")) as admin:
        assert admin.get_namespace_properties().messaging_sku == "Premium"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", os.devnull)
    with https_client(string_of(guarded, "owner")) as admin, pytest.raises(Exception, match="(?i)cert|TLS"):
        admin.get_namespace_properties()


def test_the_namespace_has_the_name_in_the_emulators_file(start_daemon):
    daemon = start_daemon(emulator='{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": []}]}}')
    with administration_client(daemon, "https") as admin:
        assert admin.get_namespace_properties().name == "sbemulatorns"
