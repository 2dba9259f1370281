"""A topic for one test: subscriptions with given rules, and the copies of sent messages."""

import asyncio
import contextlib
import time

import azure.servicebus.aio.management
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

import sdk
from administration import administration_client
from bus import PATIENCE_SECS, RECEIVE_AND_DELETE, Bus, body
from daemon import Subscription, Topic

#: The rule that only the last message of a `Stage.send` matches.
END = "the end"


@contextlib.asynccontextmanager
async def administration(daemon, flavour: str):
    """The administration client of a flavour, over plain HTTP, with the interface of the asyncio one."""
    if flavour == "sync":
        client = sdk.OnThreads(administration_client(daemon))
    else:
        module = azure.servicebus.aio.management
        connection_string = daemon.connection_string.replace(f":{daemon.amqp_port};", f":{daemon.http_port};")
        client = module.ServiceBusAdministrationClient.from_connection_string(connection_string, retry_total=0)
        client._impl._client._base_url = f"http://localhost:{daemon.http_port}"
    async with client:
        yield client


async def all_of(pages) -> list:
    """Everything that a listing of either flavour gives."""
    if hasattr(pages, "__aiter__"):
        return [one async for one in pages]
    # The blocking client requests further pages while iterating.
    return await asyncio.to_thread(list, await pages)


def filter_of(rule):
    """A filter from SQL, from SQL with parameters, from the fields of a correlation filter, or from a filter object."""
    match rule:
        case str():
            return SqlRuleFilter(rule)
        case (text, parameters):
            return SqlRuleFilter(text, parameters)
        case dict():
            return CorrelationRuleFilter(**rule)
    return rule


def action_of(rule):
    """An action from SQL or from SQL with parameters; `None` for none."""
    match rule:
        case str():
            return SqlRuleAction(rule)
        case (text, parameters):
            return SqlRuleAction(text, parameters)
    return rule


class Stage:
    """Everything of one topic, through one client and one administration client."""

    def __init__(self, daemon, bus: Bus, admin, topic: Topic):
        self.daemon = daemon
        self.bus = bus
        self.admin = admin
        self.topic = topic

    async def subscribe(self, name: str = "s", rules: dict = {}, **options) -> Subscription:
        """A subscription with these rules, each a filter or a filter and an action, and one for `END`."""
        await self.admin.create_subscription(self.topic, name, **options)
        await self.admin.delete_rule(self.topic, name, "$Default")
        subscription = self.topic / name
        for rule, said in rules.items():
            await self.add(subscription, rule, *(said if isinstance(said, list) else [said]))
        await self.add(subscription, END, "sys.MessageId = 'the end'", "SET ended = TRUE")
        return subscription

    async def add(self, subscription: Subscription, name: str, filter, action=None):
        await self.admin.create_rule(*subscription, name, filter=filter_of(filter), action=action_of(action))

    async def remove(self, subscription: Subscription, name: str):
        await self.admin.delete_rule(*subscription, name)

    async def send(self, *messages: ServiceBusMessage):
        """Sends one batch, with the message of `END` at its end."""
        async with self.bus.sender(self.topic) as sender:
            await sender.send_messages([*messages, ServiceBusMessage(b"end", message_id=END, session_id="end")])

    async def copies(self, subscription: Subscription) -> list:
        """All copies of a `send`: those that have not arrived before `END` never will."""
        copies = []
        deadline = time.monotonic() + PATIENCE_SECS
        async with self.bus.receiver(subscription, receive_mode=RECEIVE_AND_DELETE) as receiver:
            while not any(rule_of(message) == END for message in copies):
                assert time.monotonic() < deadline, f"{len(copies)} copies came, and no end"
                copies += await receiver.receive_messages(100, max_wait_time=5)
        rest = await self.bus.peek(subscription)
        assert {body(message) for message in rest} <= {b"end"}, "something came after the end"
        return [message for message in copies if body(message) != b"end"]


def rule_of(message) -> str | None:
    """The rule whose action made a copy."""
    name = (message.application_properties or {}).get(b"RuleName")
    return name and name.decode()


def properties(message) -> dict:
    """The application properties, with strings instead of the SDK's bytes."""
    text = lambda value: value.decode() if isinstance(value, bytes) else value
    return {text(key): text(value) for key, value in (message.application_properties or {}).items()}
