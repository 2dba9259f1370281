"""The tiers of Service Bus: the refusals of the lower ones, and their errors."""

import datetime
import re

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from administration import administration_client
from bus import Bus, bodies

KILOBYTE = 1024
TWO_WEEKS = datetime.timedelta(days=14)
TIERS = ["premium", "standard", "basic"]


def config(tier: str) -> str:
    return f'[namespace]\nname = "shop"\ntier = "{tier}"\n[[queues]]\nname = "declared"\n'


@pytest.fixture(params=TIERS)
def tier(request):
    return request.param


@pytest.fixture
def daemon_of_tier(start_daemon, tier):
    return start_daemon(config(tier))


def test_the_namespace_has_its_name_and_tier(daemon_of_tier, tier):
    with administration_client(daemon_of_tier) as admin:
        info = admin.get_namespace_properties()
    assert (info.name, info.messaging_sku) == ("shop", tier.capitalize())
    assert info.messaging_units == (1 if tier == "premium" else None)


def test_entities_have_the_sizes_of_the_tier(daemon_of_tier, tier):
    with administration_client(daemon_of_tier) as admin:
        queue = admin.create_queue("q")
        partitioned = admin.create_queue("p", enable_partitioning=True, max_size_in_megabytes=2048)
        largest_message = queue.max_message_size_in_kilobytes
        if tier == "premium":
            assert largest_message == 1024
            assert (queue.max_size_in_megabytes, partitioned.max_size_in_megabytes) == (81920, 2048)
            return
        assert largest_message == 256
        assert (queue.max_size_in_megabytes, partitioned.max_size_in_megabytes) == (1024, 16 * 2048)
        # The description can be written back.
        partitioned.max_delivery_count = 3
        admin.update_queue(partitioned)
        assert admin.get_queue("p").max_size_in_megabytes == 16 * 2048
        assert admin.get_queue("declared").max_size_in_megabytes == 1024
        words = "SubCode=40000. The specified value 81920 is invalid. The property MaxSizeInMegabytes, must be one of"
        with pytest.raises(HttpResponseError, match=re.escape(words)):
            admin.create_queue("bad", max_size_in_megabytes=81920)


def refusals(tier: str):
    if tier == "premium":
        return []
    above_basic = [
        ("RequiresSession", {"requires_session": True}),
        ("RequiresDuplicateDetection", {"requires_duplicate_detection": True}),
        ("AutoDeleteOnIdle", {"auto_delete_on_idle": datetime.timedelta(hours=1)}),
        ("ForwardTo", {"forward_to": "declared"}),
    ]
    large = [("MaxMessageSizeInKilobytes", {"max_message_size_in_kilobytes": 1024})]
    return large + (above_basic if tier == "basic" else [])


def test_options_of_higher_tiers_are_refused(daemon_of_tier, tier):
    with administration_client(daemon_of_tier) as admin:
        for number, (name, options) in enumerate(refusals(tier)):
            words = (
                f"SubCode=40000. The property '{name}' cannot be set when creating a Queue because the namespace "
                f"'shop' is using '{tier.capitalize()}' tier."
            )
            with pytest.raises(HttpResponseError, match=re.escape(words)) as refused:
                admin.create_queue(f"refused-{number}", **options)
            assert refused.value.status_code == 400
        if tier == "basic":
            with pytest.raises(HttpResponseError, match="'shop' is using 'Basic' tier"):
                admin.create_topic("topic")
            words = "must be between 00:00:01 and 14.00:00:00 when the namespace 'shop' is using 'Basic' tier"
            with pytest.raises(HttpResponseError, match=words):
                admin.create_queue("long", default_message_time_to_live=datetime.timedelta(days=15))
            assert admin.create_queue("capped").default_message_time_to_live == TWO_WEEKS
            assert admin.get_queue("declared").default_message_time_to_live == TWO_WEEKS
        else:
            admin.create_topic("topic")


async def test_a_message_has_at_most_256_kilobytes_below_premium(daemon_of_tier, tier, flavour):
    body = b"x" * (257 * KILOBYTE)
    fits = b"x" * (255 * KILOBYTE)
    async with Bus(flavour, daemon_of_tier.connection_string) as bus:
        sender = await bus.open_sender("declared")
        expected = [fits]
        if tier == "premium":
            await sender.send_messages(ServiceBusMessage(body))
            expected = [body, fits]
        else:
            with pytest.raises(MessageSizeExceededError):
                await sender.send_messages(ServiceBusMessage(body))
        sender = await bus.open_sender("declared")
        await sender.send_messages(ServiceBusMessage(fits))
        assert bodies(await bus.drain("declared", len(expected))) == expected


def test_a_lower_tier_leaves_stored_entities_until_they_are_changed(start_daemon):
    daemon = start_daemon(config("premium"))
    with administration_client(daemon) as admin:
        admin.create_queue("sessions", requires_session=True)
        admin.create_topic("topic")
        admin.create_subscription("topic", "one")
    daemon.stop()
    daemon.config.write_text(config("basic"))
    daemon.start()
    with administration_client(daemon) as admin:
        # The file declares it again.
        assert admin.get_queue("declared").max_size_in_megabytes == 1024
        sessions = admin.get_queue("sessions")
        assert (sessions.requires_session, sessions.max_size_in_megabytes) == (True, 81920)
        sessions.max_delivery_count = 3
        admin.update_queue(sessions)
        assert admin.get_queue("sessions").requires_session
        sessions.auto_delete_on_idle = datetime.timedelta(hours=1)
        words = "'AutoDeleteOnIdle' cannot be changed because the namespace 'shop' is using 'Basic' tier"
        with pytest.raises(HttpResponseError, match=words):
            admin.update_queue(sessions)
        assert admin.get_subscription("topic", "one").name == "one"
