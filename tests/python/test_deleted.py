"""Links are detached when their entity is deleted, here because it is idle."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusAuthenticationError

import sdk
from bus import Bus
from daemon import Topic, entities_text

IDLE = {"auto_delete_on_idle": "PT1H"}


@pytest.fixture
def idle_daemon(start_daemon):
    topics = {"t": {"subscriptions": [{"name": "s"} | IDLE]} | IDLE}
    return start_daemon(entities_text(queues={"q": IDLE}, topics=topics), time_travel=True)


@pytest.mark.parametrize("target", ["q", "t"])
async def test_a_sender_gets_an_error(flavour, idle_daemon, target):
    """With one retry: the SDK sends before it reads, and treats the detach as a lost connection."""
    client = sdk.client(flavour, idle_daemon.connection_string, retry_total=1, retry_backoff_factor=0.1)
    async with client:
        sender = client.get_topic_sender("t") if target == "t" else client.get_queue_sender("q")
        async with sender:
            await sender.send_messages(ServiceBusMessage(b"in time"))
            idle_daemon.advance(hours=2)
            with pytest.raises(ServiceBusAuthenticationError):
                await sender.send_messages(ServiceBusMessage(b"too late"))


async def test_a_subscription_is_deleted_although_its_topic_is_used(flavour, idle_daemon):
    async with Bus(flavour, idle_daemon.connection_string) as bus:
        for _ in range(3):
            await bus.send(Topic("t"), ServiceBusMessage(b""))
            idle_daemon.advance(minutes=40)
        await bus.send(Topic("t"), ServiceBusMessage(b""))
        with pytest.raises(MessagingEntityNotFoundError):
            await bus.open_receiver(Topic("t") / "s")


async def test_a_client_of_management_gets_an_error(flavour, idle_daemon):
    """Scheduling goes over `$management`; its links are detached with the sender's."""
    async with Bus(flavour, idle_daemon.connection_string) as bus:
        sender = await bus.open_sender("q")
        numbers = await sender.schedule_messages(ServiceBusMessage(b""), idle_daemon.now().replace(year=2100))
        await sender.cancel_scheduled_messages(numbers)
        idle_daemon.advance(hours=2)
        with pytest.raises(ServiceBusAuthenticationError):
            async with bus.sender("q") as other:
                await other.schedule_messages(ServiceBusMessage(b""), idle_daemon.now().replace(year=2100))
