"""One way to write a test for the SDK's blocking and its asyncio clients.

The blocking objects run on threads behind the asyncio names, so that each test runs against both.
"""

import asyncio

import azure.servicebus
import azure.servicebus.aio

_BLOCKING = (
    azure.servicebus.ServiceBusClient,
    azure.servicebus.ServiceBusSender,
    azure.servicebus.ServiceBusReceiver,
    azure.servicebus.ServiceBusSession,
    azure.servicebus.AutoLockRenewer,
)
#: Plain functions in both flavours: they do no I/O.
_IMMEDIATE = {
    "get_queue_sender",
    "get_queue_receiver",
    "get_topic_sender",
    "get_subscription_receiver",
    "register",
}
_END = object()


class OnThreads:
    """A blocking SDK object with the interface of the asyncio flavour."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        attribute = getattr(self.target, name)
        if not callable(attribute):
            return wrap(attribute)
        if name in _IMMEDIATE:
            return lambda *args, **kwargs: wrap(attribute(*map(unwrap, args), **unwrap_all(kwargs)))

        async def call(*args, **kwargs):
            return wrap(await asyncio.to_thread(attribute, *map(unwrap, args), **unwrap_all(kwargs)))

        return call

    async def __aenter__(self):
        await asyncio.to_thread(self.target.__enter__)
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self.target.__exit__, *error)

    async def __aiter__(self):
        messages = iter(self.target)
        while (message := await asyncio.to_thread(next, messages, _END)) is not _END:
            yield message


def wrap(value):
    return OnThreads(value) if isinstance(value, _BLOCKING) else value


def unwrap(value):
    return value.target if isinstance(value, OnThreads) else value


def unwrap_all(kwargs):
    return {key: unwrap(value) for key, value in kwargs.items()}


def client(flavour: str, connection_string: str, **options):
    """A `ServiceBusClient` of the flavour: `sync` or `aio`."""
    module = azure.servicebus.aio if flavour == "aio" else azure.servicebus
    return wrap(module.ServiceBusClient.from_connection_string(connection_string, **options))


def lock_renewer(flavour: str, **options):
    module = azure.servicebus.aio if flavour == "aio" else azure.servicebus
    return wrap(module.AutoLockRenewer(**options))
