"""Entities created, changed, listed and deleted by the SDK's administration client."""

import datetime

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import (
    AccessRights,
    AuthorizationRule,
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from administration import administration_client
from daemon import Daemon, entities_text

seconds, minutes, hours, days = (
    (lambda count, unit=unit: datetime.timedelta(**{unit: count})) for unit in ("seconds", "minutes", "hours", "days")
)
NEVER_MIN = days(10_675_199)

QUEUE = {
    "lock_duration": seconds(30),
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "requires_session": True,
    "default_message_time_to_live": days(2),
    "dead_lettering_on_message_expiration": True,
    "duplicate_detection_history_time_window": minutes(5),
    "max_delivery_count": 7,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "user_metadata": 'mine & "yours" <ä>',
    "auto_delete_on_idle": hours(1),
    "enable_partitioning": True,
    "enable_express": False,
    "max_message_size_in_kilobytes": 2048,
}
TOPIC = {
    "default_message_time_to_live": days(2),
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "duplicate_detection_history_time_window": minutes(5),
    "enable_batched_operations": False,
    "filtering_messages_before_publishing": True,
    "status": EntityStatus.SEND_DISABLED,
    "support_ordering": False,
    "auto_delete_on_idle": hours(1),
    "enable_partitioning": True,
    "user_metadata": "mine",
    "max_message_size_in_kilobytes": 2048,
}
SUBSCRIPTION = {
    "lock_duration": seconds(30),
    "requires_session": True,
    "default_message_time_to_live": days(2),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "max_delivery_count": 7,
    "enable_batched_operations": False,
    "status": EntityStatus.DISABLED,
    "user_metadata": "mine",
    "auto_delete_on_idle": hours(1),
}


@pytest.fixture(scope="module")
def admin_daemon():
    daemon = Daemon(entities_text()).start()
    yield daemon
    assert daemon.panics() == []
    daemon.close()


@pytest.fixture(params=["http", "https"])
def scheme(request):
    return request.param


@pytest.fixture
def admin(admin_daemon, scheme):
    with administration_client(admin_daemon, scheme) as client:
        yield client


@pytest.fixture
def name(request, scheme):
    return f"{request.node.originalname}-{scheme}"


def chosen(entity, of: dict) -> dict:
    return {key: getattr(entity, key) for key in of}


# This SDK does not send FilteringMessagesBeforePublishing.
SENT_BY_TOPIC = {key: value for key, value in TOPIC.items() if key != "filtering_messages_before_publishing"}


def test_every_property_of_a_queue_comes_back_and_survives_an_update(admin, name):
    admin.create_queue(f"{name}-target")
    rights = [AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN]
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=rights,
        key_name="key",
        primary_key="one",
        secondary_key="two",
    )
    forwarding = f"{name}-target"
    created = admin.create_queue(
        name, **QUEUE, authorization_rules=[rule], forward_dead_lettered_messages_to=forwarding
    )
    assert chosen(created, QUEUE) == QUEUE
    got = admin.get_queue(name)
    assert chosen(got, QUEUE) == QUEUE
    assert got.forward_dead_lettered_messages_to.endswith(f"/{forwarding}")
    (back,) = got.authorization_rules
    assert (back.key_name, back.primary_key, back.secondary_key, back.rights) == ("key", "one", "two", rights)
    admin.update_queue(got)
    assert chosen(admin.get_queue(name), QUEUE) == QUEUE
    admin.update_queue(got, user_metadata=None, max_delivery_count=3, status="Active")
    changed = admin.get_queue(name)
    assert (changed.user_metadata, changed.max_delivery_count, changed.status) == (None, 3, "Active")
    admin.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)


def test_every_property_of_a_topic_comes_back_and_survives_an_update(admin, name):
    assert chosen(admin.create_topic(name, **TOPIC), SENT_BY_TOPIC) == SENT_BY_TOPIC
    got = admin.get_topic(name)
    admin.update_topic(got)
    assert chosen(admin.get_topic(name), SENT_BY_TOPIC) == SENT_BY_TOPIC
    admin.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        admin.get_topic(name)


def test_every_property_of_a_subscription_comes_back_and_survives_an_update(admin, name):
    admin.create_topic(name)
    sent = {key: value for key, value in SUBSCRIPTION.items() if key != "status"}
    assert chosen(admin.create_subscription(name, "s", **sent), sent) == sent
    got = admin.get_subscription(name, "s")
    got.status = EntityStatus.DISABLED
    admin.update_subscription(name, got)
    assert chosen(admin.get_subscription(name, "s"), SUBSCRIPTION) == SUBSCRIPTION
    admin.delete_subscription(name, "s")
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription(name, "s")
    admin.delete_topic(name)


def test_durations_of_no_limit_survive_an_update(admin, name):
    admin.create_queue(name)
    queue = admin.get_queue(name)
    assert queue.default_message_time_to_live > NEVER_MIN and queue.auto_delete_on_idle > NEVER_MIN
    admin.update_queue(queue)
    assert admin.get_queue(name).auto_delete_on_idle == queue.auto_delete_on_idle


def test_names_with_slashes_and_the_name_health(admin):
    for name in ("a/b/c", "txt/.-_123", "health", "with space"):
        assert admin.create_queue(name).name == name
        assert admin.get_queue(name).name == name
        assert name in [queue.name for queue in admin.list_queues()]
        admin.delete_queue(name)


def test_subscriptions_may_be_called_like_words_of_addresses(admin, name):
    admin.create_topic(name)
    for subscription in ("messages", "rules", "subscriptions"):
        admin.create_subscription(name, subscription)
        admin.create_rule(name, subscription, "messages")
        admin.create_rule(name, subscription, "rules")
        assert admin.get_rule(name, subscription, "rules").name == "rules"
        admin.delete_rule(name, subscription, "rules")
        assert [rule.name for rule in admin.list_rules(name, subscription)] == ["$Default", "messages"]
        admin.delete_subscription(name, subscription)
    assert list(admin.list_subscriptions(name)) == []


def test_forwarding_is_shown_as_a_url_and_cleared_by_leaving_it_out(admin, name):
    admin.create_queue(f"{name}-target")
    queue = admin.create_queue(name, forward_to=f"{name}-target")
    assert queue.forward_to.startswith("sb://") and queue.forward_to.endswith(f"/{name}-target")
    queue.forward_to = queue.forward_to.replace("sb://", "https://")
    admin.update_queue(queue)
    assert admin.get_queue(name).forward_to == queue.forward_to, "with the scheme that was given"
    queue.forward_to = None
    admin.update_queue(queue)
    assert admin.get_queue(name).forward_to is None


def test_creation_with_forwarding_overrides_values_and_an_update_does_not(admin, name):
    """azure-sdk-for-js 14539, azure-sdk-for-net 18517, azure-cli 8424; the update as in the SDK's own tests."""
    target = admin.create_queue(f"{name}-target").name
    asked = {"auto_delete_on_idle": minutes(10), "default_message_time_to_live": minutes(11)}

    def shown(entity):
        return [getattr(entity, key) for key in asked]

    def check(create, update):
        for forwarding in ({"forward_to": target}, {"forward_dead_lettered_messages_to": target}):
            created = create(**asked, **forwarding)
            idle, life = shown(created)
            assert idle > NEVER_MIN
            assert life > NEVER_MIN if "forward_to" in forwarding else life == minutes(11)
            assert shown(update(created, **asked)) == [minutes(10), minutes(11)]

    def create_queue(**options):
        return admin.create_queue(f"{name}-{len(options)}-{'forward_to' in options}", **options)

    def update_queue(queue, **options):
        admin.update_queue(queue, **options)
        return admin.get_queue(queue.name)

    check(create_queue, update_queue)
    admin.create_topic(f"{name}-topic")

    def create_subscription(**options):
        return admin.create_subscription(f"{name}-topic", f"s{'forward_to' in options}", **options)

    def update_subscription(subscription, **options):
        admin.update_subscription(f"{name}-topic", subscription, **options)
        return admin.get_subscription(f"{name}-topic", subscription.name)

    check(create_subscription, update_subscription)


def test_a_partitioned_queue_created_with_forwarding_keeps_the_values_it_was_given(admin, name):
    """As in `test_mgmt_queue_create_with_queue_description`, a test that the SDK runs against the service."""
    target = admin.create_topic(f"{name}-target").name
    values = {"auto_delete_on_idle": minutes(10), "default_message_time_to_live": minutes(11)}
    targets = {"forward_to": target, "forward_dead_lettered_messages_to": target}
    admin.create_queue(name, enable_partitioning=True, **values, **targets)
    queue = admin.get_queue(name)
    assert {key: getattr(queue, key) for key in values} == values
    assert all(getattr(queue, key).endswith(f"/{target}") for key in targets)


def test_a_missing_target_of_forwarding_has_its_sub_code(admin, name):
    """azure-service-bus 203."""
    for forwarding in ("forward_to", "forward_dead_lettered_messages_to"):
        with pytest.raises(HttpResponseError, match="SubCode=40400. The auto forwarding destination") as refused:
            admin.create_queue(name, **{forwarding: f"{name}-missing"})
        assert refused.value.status_code == 400


def test_rules_of_every_kind(admin, name):
    admin.create_topic(name)
    admin.create_subscription(name, "s")
    (default,) = admin.list_rules(name, "s")
    assert default.name == "$Default" and isinstance(default.filter, TrueRuleFilter)
    properties = {
        "int": 5,
        "long": 2**40,
        "double": 1.5,
        "bool": True,
        "text": "x & y",
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "span": minutes(5),
    }
    fields = {
        "correlation_id": "c",
        "message_id": "m",
        "to": "t",
        "reply_to": "r",
        "label": "l",
        "session_id": "s",
        "reply_to_session_id": "rs",
        "content_type": "ct",
    }
    correlation = CorrelationRuleFilter(**fields, properties=properties)
    admin.create_rule(name, "s", "correlation", filter=correlation)
    rule = admin.get_rule(name, "s", "correlation")
    assert chosen(rule.filter, fields) == fields and rule.filter.properties == properties and rule.action is None
    admin.update_rule(name, "s", rule)
    assert admin.get_rule(name, "s", "correlation").filter.properties == properties
    admin.create_rule(name, "s", "false", filter=FalseRuleFilter())
    rule = admin.get_rule(name, "s", "false")
    rule.filter = CorrelationRuleFilter(label="red")
    admin.update_rule(name, "s", rule)
    assert admin.get_rule(name, "s", "false").filter.label == "red"
    admin.delete_rule(name, "s", "$Default")
    assert [rule.name for rule in admin.list_rules(name, "s")] == ["correlation", "false"]
    with pytest.raises(ResourceExistsError):
        admin.create_rule(name, "s", "false", filter=TrueRuleFilter())


def test_sql_rules_with_parameters_and_actions(admin, name):
    admin.create_topic(name)
    admin.create_subscription(name, "s")
    parameters = {
        "@int": 5,
        "@long": 2**40,
        "@double": 1.5,
        "@bool": True,
        "@text": "x & y",
        "@time": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "@span": minutes(5),
    }
    expression = "a > @int AND b <> @text AND EXISTS(c)"
    sql = SqlRuleFilter(expression, parameters=parameters)
    action = SqlRuleAction("SET a = @int; REMOVE b", parameters={"@int": 1})
    admin.create_rule(name, "s", "sql", filter=sql, action=action)

    def check(rule):
        assert (rule.filter.sql_expression, rule.filter.parameters) == (expression, parameters)
        assert (rule.action.sql_expression, rule.action.parameters) == (action.sql_expression, {"@int": 1})

    check(admin.get_rule(name, "s", "sql"))
    admin.update_rule(name, "s", admin.get_rule(name, "s", "sql"))
    check(next(rule for rule in admin.list_rules(name, "s") if rule.name == "sql"))
    rule = admin.get_rule(name, "s", "sql")
    rule.action = None
    admin.update_rule(name, "s", rule)
    assert admin.get_rule(name, "s", "sql").action is None
    for refused, text in (
        ({"filter": SqlRuleFilter("a > ")}, "rule's filter can't be read: .*at character 4 of the expression"),
        ({"filter": SqlRuleFilter("a > @none")}, "there is no parameter '@none'"),
        ({"filter": TrueRuleFilter(), "action": SqlRuleAction("SET")}, "rule's action can't be read"),
    ):
        with pytest.raises(HttpResponseError, match=text):
            admin.create_rule(name, "s", "refused", **refused)


def test_errors_are_the_sdks_own(admin, name):
    admin.create_queue(name)
    with pytest.raises(ResourceExistsError):
        admin.create_queue(name.upper())
    with pytest.raises(ResourceExistsError):
        admin.create_topic(name)
    for missing in (
        lambda: admin.get_queue("missing"),
        lambda: admin.delete_queue("missing"),
        lambda: admin.get_queue_runtime_properties("missing"),
        lambda: admin.get_subscription("missing", "s"),
        lambda: admin.create_subscription("missing", "s"),
    ):
        with pytest.raises(ResourceNotFoundError):
            missing()
    assert list(admin.list_subscriptions("missing")) == [], "as in Service Bus"
    with pytest.raises(HttpResponseError, match="'LockDuration' must be from PT5S to PT5M"):
        admin.create_queue("bad", lock_duration=hours(1))
    with pytest.raises(HttpResponseError, match="The value for the RequiresSession property of an existing Queue cannot be changed"):
        queue = admin.get_queue(name)
        queue.requires_session = True
        admin.update_queue(queue)
    with pytest.raises(HttpResponseError, match="DelayedPersistence"):
        admin.create_queue("bad", enable_express=True, requires_duplicate_detection=True)


def test_pages_over_250_entities(start_daemon, scheme):
    names = [f"q{number:03}" for number in range(250)]
    daemon = start_daemon(entities_text(queues={name: {} for name in names}))
    with administration_client(daemon, scheme) as admin:
        assert [queue.name for queue in admin.list_queues()] == names
        assert [queue.name for queue in admin.list_queues_runtime_properties()] == names
        assert list(admin.list_topics()) == []


def test_counts_are_right_on_every_look(admin, admin_daemon, name):
    admin.create_queue(name)
    admin.create_topic(f"{name}-topic")
    admin.create_subscription(f"{name}-topic", "s")
    later = datetime.datetime.now(datetime.timezone.utc) + hours(1)
    with ServiceBusClient.from_connection_string(admin_daemon.connection_string) as client:
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
            sender.send_messages([ServiceBusMessage(f"{number}") for number in range(5)])
            sender.schedule_messages(ServiceBusMessage("later"), later)
            (message,) = receiver.receive_messages(1, max_wait_time=30)
            receiver.dead_letter_message(message)
        with client.get_topic_sender(f"{name}-topic") as sender:
            sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
            sender.schedule_messages(ServiceBusMessage("later"), later)
    queue = admin.get_queue_runtime_properties(name)
    assert (queue.active_message_count, queue.dead_letter_message_count, queue.scheduled_message_count) == (4, 1, 1)
    assert queue.total_message_count == 6 and queue.size_in_bytes > 0
    assert queue.created_at_utc <= queue.updated_at_utc
    assert queue.transfer_message_count == queue.transfer_dead_letter_message_count == 0
    topic = admin.get_topic_runtime_properties(f"{name}-topic")
    assert (topic.subscription_count, topic.scheduled_message_count) == (1, 1) and topic.size_in_bytes > 0
    subscription = admin.get_subscription_runtime_properties(f"{name}-topic", "s")
    assert (subscription.active_message_count, subscription.total_message_count) == (2, 2)


def test_filters_are_counted_the_default_one_too(admin, name):
    admin.create_topic(name)
    counts = lambda: (lambda topic: (topic.sql_filter_count, topic.correlation_filter_count))(admin.get_topic_runtime_properties(name))
    assert counts() == (0, 0)
    admin.create_subscription(name, "s")
    assert counts() == (1, 0)
    admin.create_rule(name, "s", "sql", filter=SqlRuleFilter("1=1"))
    admin.create_rule(name, "s", "correlation", filter=CorrelationRuleFilter(correlation_id="abc"))
    assert counts() == (2, 1)


def test_a_new_subscription_counts_as_a_use_of_it_and_of_its_topic(admin, name):
    admin.create_topic(name)
    never = admin.get_topic_runtime_properties(name).accessed_at_utc
    assert never.year == 1
    admin.create_subscription(name, "s")
    topic = admin.get_topic_runtime_properties(name)
    subscription = admin.get_subscription_runtime_properties(name, "s")
    assert topic.accessed_at_utc >= topic.created_at_utc
    assert subscription.accessed_at_utc >= subscription.created_at_utc


def test_created_entities_serve_at_once_and_survive_a_kill(own_daemon):
    with administration_client(own_daemon) as admin:
        admin.create_queue("made", max_delivery_count=3, user_metadata="kept")
        admin.create_topic("news")
        admin.create_subscription("news", "red")
        admin.create_rule("news", "red", "red", filter=CorrelationRuleFilter(label="red", properties={"n": 5}))
        admin.delete_rule("news", "red", "$Default")
    with ServiceBusClient.from_connection_string(own_daemon.connection_string) as client:
        with client.get_queue_sender("made") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("yes", subject="red", application_properties={"n": 5.0}))
            sender.send_messages(ServiceBusMessage("no", subject="blue", application_properties={"n": 5}))
    own_daemon.kill()
    own_daemon.start()
    with administration_client(own_daemon) as admin:
        made = admin.get_queue("made")
        assert (made.max_delivery_count, made.user_metadata) == (3, "kept")
        assert [rule.name for rule in admin.list_rules("news", "red")] == ["red"]
        assert admin.get_subscription_runtime_properties("news", "red").active_message_count == 1
    with ServiceBusClient.from_connection_string(own_daemon.connection_string) as client:
        with client.get_queue_receiver("made", max_wait_time=30) as receiver:
            (message,) = receiver.receive_messages(1)
            assert str(message) == "hello"


def test_the_namespace_describes_itself(admin):
    info = admin.get_namespace_properties()
    assert (info.name, info.messaging_sku, info.namespace_type) == ("localhost", "Premium", "Messaging")


def test_declared_entities_are_reset_at_the_next_start_and_others_stay(start_daemon):
    daemon = start_daemon(entities_text(queues={"declared": {"max_delivery_count": 5}}))
    with administration_client(daemon) as admin:
        queue = admin.get_queue("declared")
        queue.max_delivery_count = 9
        admin.update_queue(queue)
        admin.create_queue("undeclared", max_delivery_count=9)
    daemon.stop()
    daemon.start()
    with administration_client(daemon) as admin:
        counts = {queue.name: queue.max_delivery_count for queue in admin.list_queues()}
        assert counts == {"declared": 5, "undeclared": 9}
        admin.delete_queue("declared")
    daemon.stop()
    daemon.start()
    with administration_client(daemon) as admin:
        assert {queue.name for queue in admin.list_queues()} == {"declared", "undeclared"}


def test_no_more_entities_are_created_than_there_may_be(start_daemon):
    """Existing entities can still be changed, and a deletion allows another creation."""
    daemon = start_daemon('[limits]\nentities_max = 3\n[[queues]]\nname = "declared"\n')
    with administration_client(daemon) as admin:
        admin.create_queue("queue")
        admin.create_topic("topic")
        for create in (admin.create_queue, admin.create_topic):
            with pytest.raises(HttpResponseError, match="40300") as refused:
                create("more")
            assert refused.value.status_code == 403
        # Subscriptions have a limit of their own.
        admin.create_subscription("topic", "subscription")
        admin.update_queue(admin.get_queue("queue"))
        admin.delete_queue("queue")
        admin.create_topic("more")
