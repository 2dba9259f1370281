"""Routing of shipments: the rules of a topic's subscriptions select messages, and set properties on the copies.

The sender only knows the topic. `peeklock.toml` has the rules: filters and actions in SQL.
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
    """Rules depend on properties, never on bodies."""
    with client.get_topic_sender(TOPIC) as sender:
        for name, properties in SHIPMENTS.items():
            sender.send_messages(ServiceBusMessage(name, application_properties=properties))
    print("sent", ", ".join(SHIPMENTS))


def receive_copies(client: ServiceBusClient, subscription: str):
    """Receives all waiting messages, and ends when none has arrived for two seconds."""
    with client.get_subscription_receiver(TOPIC, subscription, max_wait_time=2) as receiver:
        for message in receiver:
            print(f"{subscription}: {message}{remarks(message)}")
            receiver.complete_message(message)


def remarks(message) -> str:
    """The properties that a rule's action set on this copy; the broker adds the name of the rule."""
    properties = message.application_properties
    if b"RuleName" not in properties:
        return ""
    return f", {message.subject} by rule {properties[b'RuleName'].decode()}: costs {properties[b'cost']}"


with ServiceBusClient.from_connection_string(CONNECTION) as client:
    send_shipments(client)
    for subscription in SUBSCRIPTIONS:
        receive_copies(client, subscription)
