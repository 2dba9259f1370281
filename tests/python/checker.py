"""Compares a ledger with the guarantees of a broker; each rule yields its violations.

A rule reports nothing where the clients can't know: an attempt with an unknown outcome may have been carried out or not.
"""

import collections
from typing import Callable, Iterator, NamedTuple

from ledger import Delivery, Ledger, Outcome, Send, Settlement, Verb


class Violation(NamedTuple):
    rule: str
    #: The id of the message concerned, or empty.
    id: str
    text: str


class View:
    """A ledger with its records grouped as the rules need them."""

    def __init__(self, ledger: Ledger, clock_error_secs: float):
        self.ledger = ledger
        #: Maximum difference between the brokers' clock and the clients'.
        self.clock_error_secs = clock_error_secs
        self.attempts: dict[tuple[str, str], list[Send]] = collections.defaultdict(list)
        self.deliveries: dict[tuple[str, int], list[Delivery]] = collections.defaultdict(list)
        self.settlements: dict[tuple[str, int], list[Settlement]] = collections.defaultdict(list)
        self.remaining: dict[tuple[str, int], list] = collections.defaultdict(list)
        self.ids: dict[tuple[str, int], str] = {}
        self.copies: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
        for send in ledger.sends:
            self.attempts[send.target, send.id].append(send)
        for delivery in sorted(ledger.deliveries, key=lambda one: one.at):
            self.deliveries[delivery.copy].append(delivery)
        for settlement in sorted(ledger.settlements, key=lambda one: one.began):
            self.settlements[settlement.delivery.copy].append(settlement)
        for remainder in ledger.remainders:
            self.remaining[remainder.copy].append(remainder)
        for record in [*ledger.deliveries, *ledger.remainders]:
            self.ids[record.copy] = record.id
            self.copies[record.place, record.id].add(record.number)

    def taking_away(self, copy: tuple[str, int]) -> list[Settlement]:
        return [one for one in self.settlements[copy] if one.verb.takes_away]

    def is_deleting(self, copy: tuple[str, int]) -> bool:
        return self.ledger.places[copy[0]].is_deleting


def accepted_is_there(view: View) -> Iterator[Violation]:
    """An accepted message arrives in every place of its target, or is still there."""
    cancelled = {(cancel.target, cancel.id) for cancel in view.ledger.cancels}
    for send in view.ledger.accepted():
        for place in view.ledger.places.values():
            is_expected = place.target == send.target and (send.target, send.id) not in cancelled
            # A delivery of receive-and-delete is lost with its connection, as with Service Bus.
            if place.is_deleting and view.ledger.faults:
                continue
            if is_expected and not view.copies[place.name, send.id]:
                yield Violation("lost", send.id, f"accepted by {send.target}, in {place.name} neither delivered nor left")


def delivered_does_not_vanish(view: View) -> Iterator[Violation]:
    """A delivered copy exists until it is settled; a dead-lettered one is in the dead-letter queue."""
    for copy, deliveries in view.deliveries.items():
        if view.is_deleting(copy):
            continue
        attempts, remains = view.taking_away(copy), view.remaining[copy]
        completes = [one for one in attempts if one.verb is Verb.COMPLETE]
        if not completes and not remains:
            tried = "its dead-lettering" if attempts else "no settlement"
            yield Violation("lost", deliveries[0].id, f"{copy} was delivered, then vanished after {tried}")
        if len(remains) > 1:
            yield Violation("twice", deliveries[0].id, f"{copy} is left {len(remains)} times")


def settled_does_not_come_back(view: View) -> Iterator[Violation]:
    """After a confirmed settlement no lock is taken on that copy, and it is not left in its queue."""
    for copy in list(view.settlements):
        for done in view.taking_away(copy):
            if done.outcome is not Outcome.CONFIRMED:
                continue
            what = f"{copy} after its confirmed {done.verb.value}"
            for delivery in view.deliveries[copy]:
                if is_given_later(delivery, done, view.clock_error_secs):
                    yield Violation("came back", delivery.id, f"{what} was delivered to {delivery.holder}")
            for remainder in view.remaining[copy]:
                if done.verb is Verb.COMPLETE or not remainder.is_dead:
                    yield Violation("came back", remainder.id, f"{what} is left")


def is_given_later(delivery: Delivery, done: Settlement, clock_error_secs: float) -> bool:
    """Whether the broker delivered it after a settlement. A receiver may report an earlier delivery late."""
    is_new_receiver = delivery.opened > done.ended or delivery.holder == done.delivery.holder
    is_new_lock = delivery.locked_at > done.began + clock_error_secs
    return delivery.called > done.ended and (is_new_receiver or is_new_lock)


def copies_are_explained(view: View) -> Iterator[Violation]:
    """No more copies than attempts to send; only one with duplicate detection; none that was not sent."""
    for (name, id), numbers in view.copies.items():
        place = view.ledger.places[name]
        attempts = view.attempts[place.target, id]
        if not attempts:
            yield Violation("unknown", id, f"{sorted(numbers)} in {name} were never sent")
            continue
        allowed = 1 if place.is_unique else len(attempts)
        if len(numbers) > allowed:
            text = f"{len(numbers)} copies {sorted(numbers)} in {name}, {allowed} allowed after {len(attempts)} attempts"
            yield Violation("duplicate", id, text)


def deleted_comes_once(view: View) -> Iterator[Violation]:
    """Receive-and-delete delivers each copy at most once, and none of the copies that are left."""
    for copy, deliveries in view.deliveries.items():
        if view.is_deleting(copy) and len(deliveries) + len(view.remaining[copy]) > 1:
            yield Violation("twice", deliveries[0].id, f"{copy} was received and deleted, and seen again")


def redelivery_has_a_reason(view: View) -> Iterator[Violation]:
    """A copy is delivered again only after its lock ended: abandoned, expired, deferred, or with a fault in between."""
    for copy, deliveries in view.deliveries.items():
        if view.is_deleting(copy):
            continue
        for first, second in zip(deliveries, deliveries[1:]):
            if first.locked_until is not None and second.at >= first.locked_until - view.clock_error_secs:
                continue
            tries = [one for one in view.settlements[copy] if one.delivery is first]
            if any(not one.verb.takes_away or one.outcome is Outcome.DOUBT for one in tries):
                continue
            if any(fault.began <= second.at and fault.healed >= first.called for fault in view.ledger.faults):
                continue
            if any(first.called <= at <= second.at for at, _, _ in view.ledger.errors):
                continue
            yield Violation("unexplained", first.id, f"{copy} was delivered to {first.holder}, then to {second.holder}")


def sessions_keep_their_order(view: View) -> Iterator[Violation]:
    """Nothing is delivered while an earlier message of its session exists without an attempt to settle it."""
    sessions = collections.defaultdict(set)
    for record in [*view.ledger.deliveries, *view.ledger.remainders]:
        if view.ledger.places[record.place].has_sessions:
            sessions[record.place, record.session].add(record.copy)
    for copies in sessions.values():
        ordered = sorted(copies)
        for index, copy in enumerate(ordered):
            for delivery in view.deliveries[copy]:
                if not delivery.is_deferred and (earlier := overtaken(view, delivery, ordered[:index])):
                    text = f"{copy} was delivered to {delivery.holder} before {earlier}, which was there"
                    yield Violation("order", delivery.id, text)


def overtaken(view: View, delivery: Delivery, earlier: list[tuple[str, int]]) -> tuple[str, int] | None:
    for copy in reversed(earlier):
        tries = [one for one in view.settlements[copy] if one.verb is not Verb.ABANDON and one.began <= delivery.at]
        is_held = any(one.holder == delivery.holder and one.at <= delivery.at for one in view.deliveries[copy])
        if not tries and not is_held:
            return copy
    return None


def sessions_have_one_holder(view: View) -> Iterator[Violation]:
    """A receiver that lost a session to another one settles nothing in it any more."""
    sessions = collections.defaultdict(list)
    for settlement in view.ledger.settlements:
        delivery = settlement.delivery
        if view.ledger.places[delivery.place].has_sessions and settlement.outcome is Outcome.CONFIRMED:
            sessions[delivery.place, delivery.session].append(settlement)
    for (_, session), settlements in sessions.items():
        settlements.sort(key=lambda one: one.began)
        # The last settlement that ended before each one began, and all holders that had ended by then.
        replaced: dict[str, float] = {}
        for index, settlement in enumerate(settlements):
            holder = settlement.delivery.holder
            if replaced.get(holder, float("inf")) <= settlement.began:
                text = f"{holder} settled in session {session} after another holder had"
                yield Violation("two holders", settlement.delivery.id, text)
            for other in {one.delivery.holder for one in settlements[:index]} - {holder}:
                replaced.setdefault(other, settlement.ended)


def scheduled_is_in_time(view: View) -> Iterator[Violation]:
    """No message is delivered before it is due, nor after it was cancelled."""
    due = {(send.target, send.id): send.due for send in view.ledger.sends if send.due is not None}
    cancelled = {
        (cancel.target, cancel.id): cancel for cancel in view.ledger.cancels if cancel.outcome is Outcome.CONFIRMED
    }
    for delivery in view.ledger.deliveries:
        key = (view.ledger.places[delivery.place].target, delivery.id)
        if key in due and delivery.at < due[key] - view.clock_error_secs:
            yield Violation("early", delivery.id, f"{due[key] - delivery.at:.3f} s before it was due")
    for record in [*view.ledger.deliveries, *view.ledger.remainders]:
        key = (view.ledger.places[record.place].target, record.id)
        if key in cancelled:
            yield Violation("cancelled", record.id, f"{record.copy} is there although it was cancelled")


RULES: tuple[Callable[[View], Iterator[Violation]], ...] = (
    accepted_is_there,
    delivered_does_not_vanish,
    settled_does_not_come_back,
    copies_are_explained,
    deleted_comes_once,
    redelivery_has_a_reason,
    sessions_keep_their_order,
    sessions_have_one_holder,
    scheduled_is_in_time,
)


def violations(ledger: Ledger, clock_error_secs: float = 0.25) -> list[Violation]:
    view = View(ledger, clock_error_secs)
    return [violation for rule in RULES for violation in rule(view)]


def report(ledger: Ledger, found: list[Violation], limit: int = 10) -> str:
    """Violations with the history of their messages, and the faults of the run."""
    lines = [f"{len(found)} violations; {ledger.summary()}"]
    for violation in found[:limit]:
        lines += [f"{violation.rule}: {violation.id}: {violation.text}", ledger.history(violation.id)]
    lines += [f"fault {fault.name}: {fault.began:.3f} to {fault.healed:.3f}" for fault in ledger.faults]
    return "\n".join(lines)


def pause_after(ledger: Ledger, moment: float, names: tuple[str, ...] = ()) -> float:
    """Seconds from a given time until sends and settlements were confirmed in every place, or in the named ones; infinite if they
    were not."""
    places = [ledger.places[name] for name in names or ledger.places]
    first = {("send", place.target): float("inf") for place in places}
    first |= {("settle", place.name): float("inf") for place in places if not place.is_deleting}
    spans = [(("send", send.target), send) for send in since(ledger.sends, moment)]
    spans += [(("settle", one.delivery.place), one) for one in since(ledger.settlements, moment)]
    for key, record in spans:
        if key in first:
            first[key] = min(first[key], confirmed_at(record))
    return max(first.values(), default=moment) - moment


def confirmed_at(record: Send | Settlement) -> float:
    return record.ended if record.outcome is Outcome.CONFIRMED else float("inf")


def since(records: list, moment: float) -> Iterator:
    """Records that ended after a given time, the newest first, so that a long ledger costs no time."""
    for record in reversed(records[:]):
        if record.ended < moment:
            return
        yield record
