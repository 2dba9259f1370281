"""Three workers share the accounts of a bank. Each account is a session: one worker at a time, bookings in order.

A worker accepts the next account with a booking, processes two bookings and releases it, so that no account waits
long for another. The balance is in the session's state, where the next worker finds it.
"""

import asyncio
import json
import os

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSession
from azure.servicebus.exceptions import OperationTimeoutError

CONNECTION = os.environ.get(
    "SERVICEBUS_CONNECTION_STRING",
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
)
QUEUE = "bookings"
ACCOUNTS = ["Ada", "Bob", "Cleo", "Dan"]
BOOKINGS = [100, -30, 5000, "close"]
WORKERS = 3
BOOKINGS_PER_TURN = 2
#: How long a worker waits for an account before it ends.
PATIENCE_SECS = 5


async def send_bookings(client: ServiceBusClient):
    """Sends one booking of each account in turn: accounts are mixed, each in its own order."""
    async with client.get_queue_sender(QUEUE) as sender:
        for booking in BOOKINGS:
            for account in ACCOUNTS:
                await sender.send_messages(ServiceBusMessage(json.dumps(booking), session_id=account))


async def look_closely(session: ServiceBusSession):
    """Work that may take longer than the account's lock, and therefore renews it."""
    for _ in range(3):
        await asyncio.sleep(0.1)
        await session.renew_lock()


async def take_turn(worker: int, receiver: ServiceBusReceiver):
    session = receiver.session

    def say(text: str):
        print(f"worker {worker}, {session.session_id}: {text}", flush=True)

    state = json.loads(await session.get_state() or b'{"balance": 0, "last": 0}')
    say(f"has {state['balance']}")
    for _ in range(BOOKINGS_PER_TURN):
        for message in await receiver.receive_messages(max_message_count=1):
            booking = json.loads(str(message))
            if booking == "close":
                say(f"closed with {state['balance']}")
                await session.set_state(None)
            # A booking that is in the balance comes again if a worker stopped before it completed the message.
            elif message.sequence_number > state["last"]:
                if booking >= 1000:
                    held_until = session.locked_until_utc
                    await look_closely(session)
                    renewed = session.locked_until_utc > held_until
                    say(f"{booking:+} is much, looked closely" + (", renewed the lock" if renewed else ""))
                state = {"balance": state["balance"] + booking, "last": message.sequence_number}
                say(f"{booking:+} makes {state['balance']}")
                await session.set_state(json.dumps(state))
            await receiver.complete_message(message)


async def work(worker: int, client: ServiceBusClient):
    while True:
        receiver = client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_SECS)
        try:
            async with receiver:
                await take_turn(worker, receiver)
        except OperationTimeoutError:
            return


async def main():
    # No retries: when no account has anything to do, the worker wants to know and not to try again.
    async with ServiceBusClient.from_connection_string(CONNECTION, retry_total=0) as client:
        await send_bookings(client)
        await asyncio.gather(*(work(number, client) for number in range(1, WORKERS + 1)))
    print("nothing left to do")


asyncio.run(main())
