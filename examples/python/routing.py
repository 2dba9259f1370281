"""Shipments go to whom they concern: the rules of a topic's subscriptions decide, and write what they know on the copy.

The sender knows nobody but the topic. `peeklock.toml` has the rules: filters and actions in SQL.
"""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage

CONNECTION = os.environ.get(
    "SERVICEBUS_CONNECTION_STRING",
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
)
TOPIC = "shipments"
SUBSCRIPTIONS = ["audit", "customs", "dispatch"]
SHIPMENTS = {
    "book": {"country": "DE", "weight": 1, "express": False},
    "piano": {"country": "DE", "weight": 300, "express": False},
    "cheese": {"country": "FR", "weight": 2, "express": True},
    "statue": {"country": "IT", "weight": 80, "express": True},
}


def send_shipments(client: ServiceBusClient):
    """Rules look at properties, never into a body."""
    with client.get_topic_sender(TOPIC) as sender:
        for name, properties in SHIPMENTS.items():
            sender.send_messages(ServiceBusMessage(name, application_properties=properties))
    print("sent", ", ".join(SHIPMENTS))


def receive_copies(client: ServiceBusClient, subscription: str):
    """Receives what is there, and ends when nothing has come for two seconds."""
    with client.get_subscription_receiver(TOPIC, subscription, max_wait_time=2) as receiver:
        for message in receiver:
            print(f"{subscription}: {message}{remarks(message)}")
            receiver.complete_message(message)


def remarks(message) -> str:
    """What the action of a rule wrote on this copy; the broker adds the name of the rule."""
    properties = message.application_properties
    if b"RuleName" not in properties:
        return ""
    return f", {message.subject} by rule {properties[b'RuleName'].decode()}: costs {properties[b'cost']}"


with ServiceBusClient.from_connection_string(CONNECTION) as client:
    send_shipments(client)
    for subscription in SUBSCRIPTIONS:
        receive_copies(client, subscription)
