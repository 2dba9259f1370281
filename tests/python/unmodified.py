"""Applications as users write them: the SDKs' own settings, no retries besides theirs. Each records its outcomes in a ledger.

Their queues detect duplicates, for applications that need each message once: repeated sends of an SDK do no harm there.
"""

import json
import pathlib
import re
import shutil
import subprocess
import threading
import time
import uuid

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from checker import View, pause_after, report, violations
from ledger import Delivery, Ledger, Outcome, Place, Send, Settlement, Verb
from workload import browse

LOCK_SECS = 30
SEND_PAUSE_SECS = 0.05
BATCH = 500
#: Longer than a pause of the service, and than a lock that a broker lost.
IDLE_SECS = 20
#: A send of the JavaScript SDK whose connection ends waits for its answer for 60 seconds, and is repeated after another 30.
SERVICE_SECS = 150
JS = pathlib.Path(__file__).resolve().parents[1] / "js"

PLACES = [Place(name, name, is_unique=True) for name in ("python", "js")]
_OPTIONS = {"requires_duplicate_detection": True, "lock_duration": f"PT{LOCK_SECS}S", "max_delivery_count": 100}
QUEUES = {place.name: _OPTIONS for place in PLACES}


def outcome(is_confirmed: bool) -> Outcome:
    return Outcome.CONFIRMED if is_confirmed else Outcome.DOUBT


class PythonApplication:
    """One thread sends, one receives with the receiver's iterator."""

    def __init__(self, connection_string: str, ledger: Ledger, queue: str = "python"):
        self._ledger = ledger
        self._queue = queue
        self._client = ServiceBusClient.from_connection_string(connection_string)
        self._is_sending = True
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        with self._client.get_queue_sender(self._queue) as sender:
            while self._is_sending:
                id, began, is_confirmed = str(uuid.uuid4()), time.time(), False
                try:
                    sender.send_messages(ServiceBusMessage(id, message_id=id))
                    is_confirmed = True
                except Exception as error:
                    self._ledger.error("python send", error)
                self._ledger.add(Send(self._queue, id, began, time.time(), outcome(is_confirmed)))
                time.sleep(SEND_PAUSE_SECS)

    def _receive(self):
        opened = time.time()
        try:
            with self._client.get_queue_receiver(self._queue, max_wait_time=IDLE_SECS) as receiver:
                called = time.time()
                for message in receiver:
                    self._settle(receiver, message, opened, called)
                    called = time.time()
        except Exception as error:
            self._ledger.error("python receive", error)

    def _settle(self, receiver, message, opened: float, called: float):
        lock = {"locked_until": message.locked_until_utc.timestamp(), "lock_secs": LOCK_SECS}
        which = (self._queue, message.message_id, message.sequence_number, str(message.lock_token))
        told = (message.delivery_count, "python", opened, called, time.time())
        delivery = self._ledger.add(Delivery(*which, *told, **lock))
        began, errors = time.time(), ()
        try:
            receiver.complete_message(message)
        except Exception as error:
            errors = (self._ledger.error("python complete", error),)
        self._ledger.add(Settlement(delivery, Verb.COMPLETE, began, time.time(), outcome(not errors), errors))

    def finish(self):
        """Returns when all was received."""
        self._is_sending = False
        for thread in self._threads:
            thread.join(timeout=180)
            assert not thread.is_alive(), "the Python application never ends"
        self._client.close()


class JsApplication:
    """tests/js/ledger-client.mjs, in a process of its own."""

    def __init__(self, connection_string: str, ledger: Ledger, options: dict | None = None):
        self._ledger = ledger
        self._queue = "js"
        command = [shutil.which("node"), JS / "ledger-client.mjs", connection_string, self._queue]
        command += [json.dumps(options)] if options else []
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=JS)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            told = json.loads(line)
            match told.pop("kind"):
                case "error":
                    self._ledger.error(f"js {told['who']}", RuntimeError(told["text"]))
                case "send":
                    times = (told["began"], told["ended"])
                    self._ledger.add(Send(self._queue, told["id"], *times, outcome(told["confirmed"])))
                case "settlement":
                    self._note(told)

    def _note(self, told: dict):
        times = {"opened": 0.0, "called": told["at"], "at": told["at"], "lock_secs": LOCK_SECS}
        rest = {key: told[key] for key in ("id", "number", "token", "count", "locked_until")}
        delivery = self._ledger.add(Delivery(place=self._queue, holder="js", **rest, **times))
        settled = (told["began"], told["ended"], outcome(told["confirmed"]), tuple(told["errors"]))
        self._ledger.add(Settlement(delivery, Verb.COMPLETE, *settled))

    def finish(self):
        """Returns when all was received."""
        self._process.stdin.close()
        try:
            assert self._process.wait(timeout=180) == 0
        finally:
            self._process.kill()
        self._reader.join(timeout=30)


class Applications:
    """One application of each kind, with one ledger. The one in JavaScript finds a backlog of the given size; for its options see there."""

    def __init__(self, connection_string: str, js_backlog: int = 0, js_options: dict | None = None):
        self.ledger = Ledger(PLACES)
        self._connection_string = connection_string
        fill(self.ledger, connection_string, "js", js_backlog)
        self._all = [PythonApplication(connection_string, self.ledger)]
        self._all.append(JsApplication(connection_string, self.ledger, js_options))

    def wait_until_served(self, *names: str):
        """Returns when these applications, or all, have sent and settled a further message."""
        moment, deadline = time.time(), time.monotonic() + SERVICE_SECS
        while pause_after(self.ledger, moment, names or tuple(self.ledger.places)) == float("inf"):
            assert time.monotonic() < deadline, f"no service for {SERVICE_SECS} s: {self.ledger.errors}"
            time.sleep(0.1)

    def finish(self):
        """Lets them settle all they sent, and checks that they noticed no more than a pause."""
        for application in self._all:
            application.finish()
        browse(self.ledger, self._connection_string)
        found = violations(self.ledger)
        print(f"    {self.ledger.summary()}; longest pauses: {longest_pauses(self.ledger)}", flush=True)
        assert not found, report(self.ledger, found)
        noticed = more_than_pauses(self.ledger)
        assert not noticed, f"the applications noticed more than a pause: {noticed}"
        assert self.ledger.remainders == []


def longest_pauses(ledger: Ledger) -> dict[str, str]:
    """For each application, how long nothing was accepted, or nothing settled, in seconds."""
    found = {}
    for place in ledger.places:
        sends = [send.ended for send in ledger.accepted() if send.target == place]
        settlements = [one.ended for one in ledger.settlements if one.delivery.place == place]
        gaps = (max(late - early for early, late in zip(times, times[1:])) for times in map(sorted, (sends, settlements)))
        found |= zip((f"{place} sends", f"{place} settles"), (f"{gap:.1f} s" for gap in gaps))
    return found


def fill(ledger: Ledger, connection_string: str, queue: str, count: int):
    ids, began = [str(uuid.uuid4()) for _ in range(count)], time.time()
    with ServiceBusClient.from_connection_string(connection_string) as client, client.get_queue_sender(queue) as sender:
        for start in range(0, count, BATCH):
            sender.send_messages([ServiceBusMessage(id, message_id=id) for id in ids[start : start + BATCH]])
    for id in ids:
        ledger.add(Send(queue, id, began, time.time(), Outcome.CONFIRMED))


#: An attempt to settle that found no connection, or lost it before the answer came: the message may be settled or not.
NO_ANSWER = re.compile(
    r"\b(ServiceTimeout|ServiceCommunicationProblem|ECONNRESET|ECONNREFUSED)\b"
    r"|\bAMQP connection is closed"
    r"|\b(ServiceBusConnectionError|ServiceBusCommunicationError|OperationTimeoutError)\b"
)
#: Locks end with the broker. An attempt after the one that settled the message gets the same error.
NO_LOCK = re.compile(r"\block\b|Lock(Lost|Expired)")


def more_than_pauses(ledger: Ledger) -> list[str]:
    """Errors that affect an application.

    An SDK with a subscription continues by itself. The outcome of a settlement may be unknown, if there was a fault then and if
    the message was still settled once.
    """
    # Settlements are checked one by one below.
    others = [(who, what) for _, who, what in ledger.errors if who not in ("js subscribe", "python complete", "js complete")]
    found = [f"{who}: {what}" for who, what in others]
    view = View(ledger, 0.0)
    for settlement in ledger.settlements:
        if settlement.errors and (reason := cost_of(view, settlement)):
            found.append(f"{settlement.delivery.copy} {reason}: {'; '.join(settlement.errors)}")
    return found


def cost_of(view: View, failed: Settlement) -> str | None:
    """The effect of a failed settlement, if it is more than a pause."""
    copy = failed.delivery.copy
    if not all(NO_ANSWER.search(error) or NO_LOCK.search(error) for error in failed.errors):
        return "was refused"
    since = min(failed.began, failed.delivery.locked_at)
    if not any(fault.began <= failed.ended and since <= fault.healed for fault in view.ledger.faults):
        return "was not settled while nothing was broken"
    if view.remaining[copy]:
        return "is left"
    if len([one for one in view.settlements[copy] if one.outcome is Outcome.CONFIRMED]) > 1:
        return "was settled twice"
    # The next receiver settles it; if that outcome is unknown as well, it is checked separately.
    tried = [one.delivery for one in view.settlements[copy]]
    if any(delivery not in tried for delivery in view.deliveries[copy]):
        return "came again, and nobody settled it"
    return None
