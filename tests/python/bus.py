"""Helpers for common operations with a client, one line each in a test."""

import asyncio
import contextlib
import datetime
import time
from concurrent.futures import ThreadPoolExecutor

from azure.servicebus import ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusAuthenticationError

import sdk
from daemon import Subscription, Topic

DEAD_LETTER = ServiceBusSubQueue.DEAD_LETTER
TRANSFER_DEAD_LETTER = ServiceBusSubQueue.TRANSFER_DEAD_LETTER
RECEIVE_AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
#: The SDK's exceptions for a missing entity: the first for a link that is refused or ended, as for subscriptions, the second for
#: the 404 that answers the token for a queue or topic.
MISSING = (MessagingEntityNotFoundError, ServiceBusAuthenticationError)
#: Time-out for a condition on a busy machine.
PATIENCE_SECS = 40


class Bus:
    """A client of one flavour, with its senders and receivers closed at the end."""

    def __init__(self, flavour: str, connection_string: str, **options):
        """With options for every client."""
        self.flavour = flavour
        self.connection_string = connection_string
        self.options = options
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        # The blocking flavour needs a thread for each receiver that waits.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(48))
        # No retries: they would hide faults of the broker, and slow down expected errors.
        self.client = await self._stack.enter_async_context(self.new_client(retry_total=0))
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    def new_client(self, **options):
        return sdk.client(self.flavour, self.connection_string, **self.options | options)

    def sender(self, target: str, **options):
        """For a queue, or for a `Topic`; likewise in all methods that send."""
        if isinstance(target, Topic):
            return self.client.get_topic_sender(str(target), **options)
        return self.client.get_queue_sender(target, **options)

    def receiver(self, source: str | Subscription, **options):
        """For a queue, or for a `Subscription`; likewise in all methods that receive or browse."""
        if isinstance(source, Subscription):
            return self.client.get_subscription_receiver(str(source.topic), source.name, **options)
        return self.client.get_queue_receiver(source, **options)

    async def open_receiver(self, queue: str, **options):
        """A receiver that stays open until the end of the test."""
        return await self._stack.enter_async_context(self.receiver(queue, **options))

    async def open_sender(self, queue: str, **options):
        return await self._stack.enter_async_context(self.sender(queue, **options))

    def lock_renewer(self, **options):
        return sdk.lock_renewer(self.flavour, **options)

    async def send(self, queue: str, *messages):
        async with self.sender(queue) as sender:
            for message in messages:
                await sender.send_messages(message)

    async def drain(self, queue: str, count: int, **options) -> list:
        """Receives and deletes exactly `count` messages."""
        async with self.receiver(queue, receive_mode=RECEIVE_AND_DELETE, **options) as receiver:
            return await take(receiver, count)

    async def drain_nothing(self, queue: str) -> bool:
        """True when a new receiver gets nothing."""
        async with self.receiver(queue) as receiver:
            return await nothing(receiver)

    async def peek(self, queue: str, **options) -> list:
        """All messages that browsing shows, including locked, deferred and scheduled ones."""
        found = []
        async with self.receiver(queue, **options) as receiver:
            start = 1
            while page := await receiver.peek_messages(250, sequence_number=start):
                found += page
                start = page[-1].sequence_number + 1
        return found


async def take(receiver, count: int) -> list:
    """Exactly `count` messages, by as many calls as needed."""
    messages = []
    deadline = time.monotonic() + PATIENCE_SECS
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} messages came"
        messages += await receiver.receive_messages(count - len(messages), max_wait_time=5)
    return messages


async def one(receiver):
    (message,) = await take(receiver, 1)
    return message


async def nothing(receiver) -> bool:
    """True when a short receive returns empty."""
    return await receiver.receive_messages(1, max_wait_time=0.5) == []


async def until(condition, what: str = "the condition"):
    """Awaits `condition()` until it is true and returns its value."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not (value := await condition()):
        assert time.monotonic() < deadline, f"timed out: {what}"
        await asyncio.sleep(0.05)
    return value


async def log_line(daemon, message: str) -> str:
    """The first line of the daemon's log with a message; the log is written asynchronously."""

    async def found() -> str | None:
        return next((line for line in daemon.log.read_text().splitlines() if message in line), None)

    return await until(found, message)


def told_end(message) -> datetime.datetime:
    """The message's expiry as sent by the broker; the SDK computes `expires_at_utc` from other properties."""
    end_ms = message.raw_amqp_message.properties.absolute_expiry_time
    return datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=end_ms)


def body(message) -> bytes:
    """The bytes of a message with a data body."""
    return b"".join(message.body)


def bodies(messages) -> list[bytes]:
    return [body(message) for message in messages]
