"""Clients that send, receive and settle through the SDK until they are stopped, and record everything in a ledger.

Each runs in a thread with a client of its own. The SDK repeats nothing by itself (`retry_total=0`), so that each attempt is known;
the clients continue after every error, like an application.
"""

import contextlib
import datetime
import random
import threading
import time
import uuid
from typing import Callable

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import OperationTimeoutError

from ledger import Cancel, Delivery, Ledger, Outcome, Place, Remainder, Send, Settlement, Verb

LOCK_SECS = 10
SESSIONS = 6
#: Time-out of an SDK call, after which its outcome is unknown.
CALL_SECS = 5.0
#: Pause of a client after an error.
PAUSE_SECS = 0.2
#: After this many messages a consumer opens its link again, as applications do, and sessions change their holder.
MESSAGES_PER_LINK = 40
SCHEDULE_SECS = (0.5, 4.0)

PLACES = [
    Place("work", "work"),
    Place("unique", "unique", is_unique=True),
    Place("sessions", "sessions", has_sessions=True),
    Place("news/a", "news"),
    Place("news/b", "news"),
    Place("volatile", "volatile", is_deleting=True),
    Place("later", "later"),
]
#: What a consumer does with one of the given number of messages; it completes the others.
HABITS = {
    "work": {Verb.ABANDON: 0.05, Verb.DEAD_LETTER: 0.05, Verb.DEFER: 0.05},
    "sessions": {Verb.ABANDON: 0.05},
    "news/a": {Verb.DEAD_LETTER: 0.02},
}

_LOCK = {"lock_duration": f"PT{LOCK_SECS}S", "max_delivery_count": 1_000}
_DUPLICATES = {"requires_duplicate_detection": True, "duplicate_detection_history_time_window": "P1D"}
QUEUES = {
    "work": _LOCK,
    "unique": _LOCK | _DUPLICATES,
    "sessions": _LOCK | {"requires_session": True},
    "volatile": _LOCK,
    "later": _LOCK,
}
TOPICS = {"news": {"subscriptions": [{"name": name} | _LOCK for name in ("a", "b")]}}


class Workload:
    """All clients of one run; `connection_string()` is called for each new connection."""

    def __init__(self, connection_string: Callable[[], str], seed: int, sends_per_second: float = 20.0):
        self.ledger = Ledger(PLACES)
        self.connection_string = connection_string
        self._pause_secs = 1 / sends_per_second
        self._seed = seed
        self._sending = threading.Event()
        self._receiving = threading.Event()
        senders = [("work", self._send), ("unique", self._send), ("news", self._send), ("volatile", self._send)]
        senders += [("sessions", self._send_in_sessions), ("later", self._schedule)]
        receivers = ["work", "work", "unique", "sessions", "sessions", "news/a", "news/b", "volatile", "later"]
        self._senders = [self._thread(f"send {name}", work, self._sending, name) for name, work in senders]
        self._receivers = [
            self._thread(f"receive {name} {number}", self._receive, self._receiving, self.ledger.places[name])
            for number, name in enumerate(receivers)
        ]

    def _thread(self, name: str, work, running: threading.Event, *arguments) -> threading.Thread:
        generator = random.Random(f"{self._seed} {name}")

        def run():
            while running.is_set():
                try:
                    client = ServiceBusClient.from_connection_string(self.connection_string(), retry_total=0)
                    with quietly(client):
                        work(client, name, generator, *arguments)
                except Exception as error:
                    self.ledger.error(name, error)
                    time.sleep(PAUSE_SECS)

        return threading.Thread(target=run, name=name, daemon=True)

    def start(self):
        self._sending.set()
        self._receiving.set()
        for thread in self._senders + self._receivers:
            thread.start()

    def stop_sending(self):
        self._sending.clear()
        join(self._senders)

    def stop(self):
        self._receiving.clear()
        join(self._receivers)

    def _send(self, client: ServiceBusClient, who: str, generator: random.Random, target: str):
        sender = client.get_topic_sender(target) if target in TOPICS else client.get_queue_sender(target)
        with quietly(sender):
            while self._sending.is_set():
                self._send_until_accepted(sender, target, f"{target}-{uuid.UUID(int=generator.getrandbits(128))}")
                time.sleep(self._pause_secs * generator.uniform(0, 2))

    def _send_in_sessions(self, client: ServiceBusClient, who: str, generator: random.Random, target: str):
        with quietly(client.get_queue_sender(target)) as sender:
            while self._sending.is_set():
                session = f"session-{generator.randrange(SESSIONS)}"
                self._send_until_accepted(sender, target, f"{session}-{uuid.UUID(int=generator.getrandbits(128))}", session)
                time.sleep(self._pause_secs * generator.uniform(0, 2))

    def _send_until_accepted(self, sender, target: str, id: str, session: str | None = None):
        """Repeats a send until it is accepted, or until sending ends. The id stays the same."""
        message = lambda: ServiceBusMessage(id, message_id=id, session_id=session)
        while True:
            began, outcome = time.time(), Outcome.DOUBT
            try:
                sender.send_messages(message(), timeout=CALL_SECS)
                outcome = Outcome.CONFIRMED
            except Exception as error:
                self.ledger.error(f"send {target}", error)
            self.ledger.add(Send(target, id, began, time.time(), outcome, session))
            if outcome is Outcome.CONFIRMED or not self._sending.is_set():
                return
            time.sleep(PAUSE_SECS)

    def _schedule(self, client: ServiceBusClient, who: str, generator: random.Random, target: str):
        with quietly(client.get_queue_sender(target)) as sender:
            while self._sending.is_set():
                id = f"{target}-{uuid.UUID(int=generator.getrandbits(128))}"
                wait = generator.uniform(*SCHEDULE_SECS)
                number = self._schedule_one(sender, target, id, time.time() + wait)
                if number is not None and generator.random() < 0.2:
                    self._cancel(sender, target, id, number)
                time.sleep(2 * self._pause_secs)

    def _schedule_one(self, sender, target: str, id: str, due: float) -> int | None:
        began, outcome, number = time.time(), Outcome.DOUBT, None
        moment = datetime.datetime.fromtimestamp(due, datetime.timezone.utc)
        try:
            (number,) = sender.schedule_messages(ServiceBusMessage(id, message_id=id), moment, timeout=CALL_SECS)
            outcome = Outcome.CONFIRMED
        except Exception as error:
            self.ledger.error(f"schedule {target}", error)
        self.ledger.add(Send(target, id, began, time.time(), outcome, due=due))
        return number

    def _cancel(self, sender, target: str, id: str, number: int):
        began, outcome = time.time(), Outcome.DOUBT
        try:
            sender.cancel_scheduled_messages(number, timeout=CALL_SECS)
            outcome = Outcome.CONFIRMED
        except Exception as error:
            self.ledger.error(f"cancel {target}", error)
        self.ledger.add(Cancel(target, id, began, time.time(), outcome))

    def _receive(self, client: ServiceBusClient, who: str, generator: random.Random, place: Place):
        while self._receiving.is_set():
            opened = time.time()
            try:
                receiver = open_receiver(client, place)
                with quietly(receiver):
                    holder = Holder(self.ledger, place, f"{who} {uuid.uuid4().hex[:8]}", opened, receiver)
                    for _ in range(MESSAGES_PER_LINK):
                        if not self._receiving.is_set() or not holder.handle_next(generator):
                            break
            except OperationTimeoutError:
                # No session has messages.
                continue


class Holder:
    """A receiver link, or a session that is held."""

    def __init__(self, ledger: Ledger, place: Place, name: str, opened: float, receiver):
        self._ledger = ledger
        self._place = place
        self._name = name
        self._opened = opened
        self._receiver = receiver

    def handle_next(self, generator: random.Random) -> bool:
        """Receives and settles a message; False if there was none."""
        called = time.time()
        messages = self._receiver.receive_messages(max_message_count=1, max_wait_time=1)
        for message in messages:
            self._handle(message, called, generator)
        return bool(messages)

    def _handle(self, message, called: float, generator: random.Random):
        delivery = self._delivery(message, called)
        if self._place.is_deleting:
            return
        verb = choose(HABITS.get(self._place.name, {}), generator)
        self._settle(message, delivery, verb)
        if verb is Verb.DEFER:
            self._receive_deferred(message.sequence_number)

    def _receive_deferred(self, number: int):
        called = time.time()
        for message in self._receiver.receive_deferred_messages(number, timeout=CALL_SECS):
            self._settle(message, self._delivery(message, called, is_deferred=True), Verb.COMPLETE)

    def _delivery(self, message, called: float, is_deferred: bool = False) -> Delivery:
        is_locked = not self._place.has_sessions and not self._place.is_deleting
        return self._ledger.add(
            Delivery(
                place=self._place.name,
                id=message.message_id,
                number=message.sequence_number,
                token=str(message.lock_token) if message.lock_token else None,
                count=message.delivery_count,
                holder=self._name,
                opened=self._opened,
                called=called,
                at=time.time(),
                locked_until=message.locked_until_utc.timestamp() if is_locked else None,
                session=message.session_id,
                lock_secs=LOCK_SECS,
                is_deferred=is_deferred,
            )
        )

    def _settle(self, message, delivery: Delivery, verb: Verb):
        settle = {
            Verb.COMPLETE: self._receiver.complete_message,
            Verb.ABANDON: self._receiver.abandon_message,
            Verb.DEFER: self._receiver.defer_message,
            Verb.DEAD_LETTER: self._receiver.dead_letter_message,
        }[verb]
        began, outcome = time.time(), Outcome.DOUBT
        try:
            settle(message)
            outcome = Outcome.CONFIRMED
        finally:
            # After an error the link is opened again: its messages are delivered again, or to another client.
            self._ledger.add(Settlement(delivery, verb, began, time.time(), outcome))


def open_receiver(client: ServiceBusClient, place: Place):
    options = {}
    if place.is_deleting:
        options["receive_mode"] = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    if place.has_sessions:
        options |= {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": 2}
    return receiver_of(client, place, **options)


def receiver_of(client: ServiceBusClient, place: Place, **options):
    topic, _, subscription = place.name.partition("/")
    if subscription:
        return client.get_subscription_receiver(topic, subscription, **options)
    return client.get_queue_receiver(place.name, **options)


def choose(habits: dict[Verb, float], generator: random.Random) -> Verb:
    drawn = generator.random()
    for verb, share in habits.items():
        if (drawn := drawn - share) < 0:
            return verb
    return Verb.COMPLETE


@contextlib.contextmanager
def quietly(opened):
    """`with opened`, whose closing may fail, because the other side may be closed."""
    with contextlib.ExitStack() as stack:
        entered = opened.__enter__()

        @stack.callback
        def close():
            with contextlib.suppress(Exception):
                opened.__exit__(None, None, None)

        yield entered


def join(threads: list[threading.Thread], seconds: float = 90):
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    stuck = [thread.name for thread in threads if thread.is_alive()]
    assert not stuck, f"these clients never end: {stuck}"


def browse(ledger: Ledger, connection_string: str):
    """Records all remaining messages, in queues and dead-letter queues, by browsing."""
    with ServiceBusClient.from_connection_string(connection_string) as client:
        for place in ledger.places.values():
            for sub_queue in (None, ServiceBusSubQueue.DEAD_LETTER):
                options = {} if sub_queue is None else {"sub_queue": sub_queue}
                if place.has_sessions and sub_queue is None:
                    for number in range(SESSIONS):
                        browse_one(ledger, client, place, False, session_id=f"session-{number}", max_wait_time=5)
                else:
                    browse_one(ledger, client, place, sub_queue is not None, **options)


def browse_one(ledger: Ledger, client: ServiceBusClient, place: Place, is_dead: bool, **options):
    with receiver_of(client, place, **options) as receiver:
        start = 1
        while page := receiver.peek_messages(250, sequence_number=start):
            for message in page:
                ledger.add(Remainder(place.name, message.message_id, message.sequence_number, is_dead, message.session_id))
            start = page[-1].sequence_number + 1
