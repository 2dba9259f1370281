"""Offers that expire go to the dead-letter queue. A triage step there sends one of them again."""

import datetime
import json
import os
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

CONNECTION = os.environ.get(
    "SERVICEBUS_CONNECTION_STRING",
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
)
QUEUE = "offers"
#: Each is valid for one second.
OFFERS = [{"to": "Ada", "percent": 5}, {"to": "Bob", "percent": 20}, {"to": "Cleo", "percent": 10}]


def send_offers(client: ServiceBusClient):
    with client.get_queue_sender(QUEUE) as sender:
        for offer in OFFERS:
            message = ServiceBusMessage(
                json.dumps(offer),
                content_type="application/json",
                time_to_live=datetime.timedelta(seconds=1),
            )
            sender.send_messages(message)
    print(f"sent {len(OFFERS)} offers, each good for one second")


def take_offers(client: ServiceBusClient):
    """Receives all waiting messages, and ends when none has arrived for two seconds."""
    count = 0
    with client.get_queue_receiver(QUEUE, max_wait_time=2) as receiver:
        for message in receiver:
            offer = json.loads(str(message))
            print(f"{offer['to']} takes {offer['percent']} percent")
            receiver.complete_message(message)
            count += 1
    print(f"offers taken: {count}")


def triage(client: ServiceBusClient):
    """Looks at every dead letter, sends the best offer again and lets go of the rest."""
    dead_letters = client.get_queue_receiver(QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=2)
    with dead_letters, client.get_queue_sender(QUEUE) as sender:
        for message in dead_letters:
            offer = json.loads(str(message))
            again = message.dead_letter_reason == "TTLExpiredException" and offer["percent"] >= 20
            if again:
                # A new message with the old body. The old time-to-live would begin again as well, so this one has none.
                sender.send_messages(ServiceBusMessage(str(message), content_type=message.content_type))
            # Last, so that a crash in between leaves the offer twice rather than not at all.
            dead_letters.complete_message(message)
            print(f"dead: {offer['to']}, {message.dead_letter_reason}: {'sent again' if again else 'let go'}")


with ServiceBusClient.from_connection_string(CONNECTION) as client:
    send_offers(client)
    time.sleep(2)
    # Messages expire when a receiver arrives: the first receiver after their time gets none.
    take_offers(client)
    triage(client)
    take_offers(client)
