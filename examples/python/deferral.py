"""The steps of an order arrive in the wrong order. A step that arrives too early is deferred and received in its turn.

A deferred message stays in the queue, but can be received only by its sequence number. The session's state stores the
numbers, so that another worker could continue where this one stopped.
"""

import json
import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import MessageNotFoundError

CONNECTION = os.environ.get(
    "SERVICEBUS_CONNECTION_STRING",
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
)
QUEUE = "orders"
ORDER = "order-7"
STEPS = ["placed", "paid", "packed", "shipped"]
ARRIVALS = ["packed", "placed", "shipped", "paid"]


class Order:
    """How far an order is, kept in its session's state: steps done, and the numbers of deferred steps."""

    def __init__(self, receiver: ServiceBusReceiver):
        self.receiver = receiver
        state = json.loads(receiver.session.get_state() or b"{}")
        self.done: int = state.get("done", 0)
        self.deferred: dict[str, int] = state.get("deferred", {})

    def save(self):
        self.receiver.session.set_state(json.dumps({"done": self.done, "deferred": self.deferred}))

    @property
    def is_complete(self) -> bool:
        return self.done == len(STEPS)

    def handle(self, message: ServiceBusReceivedMessage):
        if STEPS.index(message.subject) > self.done:
            self.defer(message)
        else:
            self.process(message)
            self.catch_up()

    def catch_up(self):
        """Fetches what was deferred, as long as it is its turn."""
        while step := next((step for step in self.deferred if STEPS.index(step) <= self.done), None):
            number = self.deferred[step]
            try:
                (early,) = self.receiver.receive_deferred_messages(number)
                self.process(early, f", fetched by number {number}")
            except MessageNotFoundError:
                pass  # A worker stopped just before it deferred this message, or just after it completed it.
            del self.deferred[step]
            self.save()

    def defer(self, message: ServiceBusReceivedMessage):
        # The number first: a deferred message whose number is forgotten would be out of reach.
        self.deferred[message.subject] = message.sequence_number
        self.save()
        self.receiver.defer_message(message)
        print(f"{message.subject}: too early, deferred as number {message.sequence_number}")

    def process(self, message: ServiceBusReceivedMessage, how: str = ""):
        # A step that is done already comes again if a worker stopped between `save` and `complete_message`.
        if STEPS.index(message.subject) == self.done:
            print(f"{message.subject}: done{how}")
            self.done += 1
            self.save()
        self.receiver.complete_message(message)


with ServiceBusClient.from_connection_string(CONNECTION) as client:
    with client.get_queue_sender(QUEUE) as sender:
        sender.send_messages([ServiceBusMessage("", subject=step, session_id=ORDER) for step in ARRIVALS])
    print(f"{ORDER} arrives as {', '.join(ARRIVALS)}")

    with client.get_queue_receiver(QUEUE, session_id=ORDER, max_wait_time=10) as receiver:
        order = Order(receiver)
        order.catch_up()
        for message in receiver:
            order.handle(message)
            if order.is_complete:
                break
        print(f"{ORDER} is complete" if order.is_complete else f"{ORDER} waits for {STEPS[order.done]}")
        if order.is_complete:
            receiver.session.set_state(None)
