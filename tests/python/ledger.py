"""A ledger of the operations of a broker's clients and their outcomes, which `checker.py` checks.

Times are seconds of this machine's wall clock, which the brokers under test share.
"""

import dataclasses
import enum
import threading
import time


class Outcome(enum.Enum):
    #: The broker confirmed it.
    CONFIRMED = "confirmed"
    #: The answer was an error, or there was none: it may be done or not.
    DOUBT = "in doubt"


class Verb(enum.Enum):
    COMPLETE = "complete"
    DEAD_LETTER = "dead-letter"
    ABANDON = "abandon"
    DEFER = "defer"

    @property
    def takes_away(self) -> bool:
        """Whether the message can't be received from its queue afterwards."""
        return self in (Verb.COMPLETE, Verb.DEAD_LETTER)


@dataclasses.dataclass(frozen=True)
class Place:
    """A place of receiving: a queue or a subscription, and its guarantees."""

    name: str
    #: The target of its messages.
    target: str
    #: With duplicate detection: an id exists once, regardless of the number of sends.
    is_unique: bool = False
    has_sessions: bool = False
    #: Received by receive-and-delete: at most once.
    is_deleting: bool = False


@dataclasses.dataclass(frozen=True)
class Send:
    """One attempt to send, or to schedule: then with the time when it is due."""

    target: str
    id: str
    began: float
    ended: float
    outcome: Outcome
    session: str | None = None
    due: float | None = None


@dataclasses.dataclass(frozen=True)
class Cancel:
    """One attempt to cancel a scheduled message."""

    target: str
    id: str
    began: float
    ended: float
    outcome: Outcome


@dataclasses.dataclass(frozen=True)
class Delivery:
    place: str
    id: str
    #: The sequence number: which copy it is.
    number: int
    token: str | None
    count: int
    #: The holder of the session or link: a new name each time a receiver is opened.
    holder: str
    #: When that receiver was opened, and when the client began to receive this message.
    opened: float
    called: float
    at: float
    #: None in a session, whose lock applies, and with receive-and-delete.
    locked_until: float | None = None
    session: str | None = None
    #: The lock duration there, to compute when the lock was taken.
    lock_secs: float = 0.0
    #: Received by its number, because it was deferred.
    is_deferred: bool = False

    @property
    def copy(self) -> tuple[str, int]:
        return (self.place, self.number)

    @property
    def locked_at(self) -> float:
        """When the broker took the lock, by its clock; before everything where there is no lock."""
        return float("-inf") if self.locked_until is None else self.locked_until - self.lock_secs


@dataclasses.dataclass(frozen=True)
class Settlement:
    delivery: Delivery
    verb: Verb
    began: float
    ended: float
    outcome: Outcome
    #: The errors that the client got: one text for each reported attempt of its SDK.
    errors: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Remainder:
    """A message found by browsing at the end, in the queue itself or in its dead-letter queue."""

    place: str
    id: str
    number: int
    is_dead: bool = False
    session: str | None = None

    @property
    def copy(self) -> tuple[str, int]:
        return (self.place, self.number)


@dataclasses.dataclass(frozen=True)
class Fault:
    """The time of a fault; `healed` is its end."""

    name: str
    began: float
    healed: float


class Ledger:
    """All records, written by any number of threads."""

    def __init__(self, places: list[Place]):
        self.places = {place.name: place for place in places}
        self.sends: list[Send] = []
        self.cancels: list[Cancel] = []
        self.deliveries: list[Delivery] = []
        self.settlements: list[Settlement] = []
        self.remainders: list[Remainder] = []
        self.faults: list[Fault] = []
        #: Errors that the clients' application code got: time, client, text.
        self.errors: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()

    def add(self, record):
        lists = {
            **{Send: self.sends, Cancel: self.cancels, Delivery: self.deliveries, Settlement: self.settlements},
            **{Remainder: self.remainders, Fault: self.faults},
        }
        with self._lock:
            lists[type(record)].append(record)
        return record

    def error(self, who: str, what: BaseException) -> str:
        """Returns it as text."""
        text = f"{type(what).__name__}: {what}"
        with self._lock:
            self.errors.append((time.time(), who, text))
        return text

    def accepted(self) -> list[Send]:
        return [send for send in self.sends if send.outcome is Outcome.CONFIRMED]

    def history(self, id: str) -> str:
        """All records of a message, in order, for inspection."""
        with self._lock:
            records = [
                *((send.began, send) for send in self.sends if send.id == id),
                *((cancel.began, cancel) for cancel in self.cancels if cancel.id == id),
                *((delivery.at, delivery) for delivery in self.deliveries if delivery.id == id),
                *((one.began, one) for one in self.settlements if one.delivery.id == id),
                *((float("inf"), remainder) for remainder in self.remainders if remainder.id == id),
            ]
        return "\n".join(f"    {record}" for _, record in sorted(records, key=lambda pair: pair[0]))

    def summary(self) -> str:
        doubts = sum(send.outcome is Outcome.DOUBT for send in self.sends)
        confirmed = sum(one.outcome is Outcome.CONFIRMED for one in self.settlements)
        return (
            f"{len(self.accepted())} accepted, {doubts} sends in doubt, {len(self.deliveries)} deliveries, "
            f"{confirmed} settlements confirmed, {len(self.settlements) - confirmed} in doubt, "
            f"{len(self.remainders)} left, {len(self.errors)} errors, {len(self.faults)} faults"
        )
