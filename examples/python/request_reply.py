"""A requester sends questions and gets the answers on a queue of its own, which is deleted when it is idle.

`reply_to` names the queue for the answer, `correlation_id` its question. Requesters that share a reply queue
would use one with sessions instead and set `reply_to_session_id` as well.
"""

import json
import os
import threading
import urllib.request
import uuid

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError

CONNECTION = os.environ.get(
    "SERVICEBUS_CONNECTION_STRING",
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
)
#: The broker's HTTP address, for time travel; the broker reads the same variable.
HTTP = os.environ.get("PEEKLOCK_HTTP", "127.0.0.1:5300")
QUESTIONS = "questions"
ANSWERS = "answers"
PRICES = {"tea": 3, "coffee": 4, "cake": 5}


def connect() -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(CONNECTION)


def answer_questions(count: int):
    """The responder: it knows no requester, only the `reply_to` of each question."""
    with connect() as client, client.get_queue_receiver(QUESTIONS, max_wait_time=30) as questions:
        for question in questions:
            with client.get_queue_sender(question.reply_to) as answers:
                price = json.dumps(PRICES[str(question)])
                answers.send_messages(ServiceBusMessage(price, correlation_id=question.message_id))
            questions.complete_message(question)
            count -= 1
            if count == 0:
                break


def ask(items: list[str]):
    """The requester: sends all questions, then takes the answers as they come."""
    asked = {str(uuid.uuid4()): item for item in items}
    with connect() as client:
        with client.get_queue_sender(QUESTIONS) as questions:
            for number, item in asked.items():
                questions.send_messages(ServiceBusMessage(item, message_id=number, reply_to=ANSWERS))
                print(f"how much is the {item}?")
        with client.get_queue_receiver(ANSWERS, max_wait_time=30) as answers:
            for answer in answers:
                item = asked.pop(answer.correlation_id, None)
                if item:
                    print(f"the {item} is {json.loads(str(answer))}")
                answers.complete_message(answer)
                if not asked:
                    break


def exists(queue: str) -> bool:
    try:
        with connect() as client, client.get_queue_receiver(queue) as receiver:
            receiver.peek_messages()
    except ServiceBusAuthenticationError:
        # The answer to the client's token says that there is no such queue.
        return False
    return True


def advance(duration: str):
    """Moves the broker's clock forward. Everything due in that time has happened when this returns."""
    body = json.dumps({"advance": duration}).encode()
    urllib.request.urlopen(f"http://{HTTP}/development/clock", body, timeout=30).close()


responder = threading.Thread(target=answer_questions, args=[len(PRICES)])
responder.start()
ask(list(PRICES))
responder.join()

print("the reply queue", "is there" if exists(ANSWERS) else "is gone")
advance("PT6M")
print("six minutes later it", "is still there" if exists(ANSWERS) else "is gone")
