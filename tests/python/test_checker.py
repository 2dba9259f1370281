"""The checker of ledgers finds violations, and reports nothing that Service Bus allows."""

import dataclasses

import pytest

from checker import pause_after, violations
from ledger import Cancel, Delivery, Fault, Ledger, Outcome, Place, Remainder, Send, Settlement, Verb
from unmodified import more_than_pauses

CONFIRMED, DOUBT = Outcome.CONFIRMED, Outcome.DOUBT
PLACES = [
    Place("work", "work"),
    Place("unique", "unique", is_unique=True),
    Place("sessions", "sessions", has_sessions=True),
    Place("news/a", "news"),
    Place("news/b", "news"),
    Place("volatile", "volatile", is_deleting=True),
    Place("later", "later"),
]
LOCK_SECS = 10.0
#: Errors of the SDKs for settlements while a broker was killed, shortened.
JS_IN_DOUBT = (
    "ServiceBusError ServiceTimeout: Operation to settle the message has timed out. The disposition of the message may or may not be",
    "Error : The underlying AMQP connection is closed.",
)
PYTHON_IN_DOUBT = ("MessageLockLostError: Service request failed. b'The lock supplied is invalid.'",)


class Story:
    """A ledger whose records each take a tenth of a second, one after another."""

    def __init__(self):
        self.ledger = Ledger(PLACES)
        self.now = 0.0

    def step(self, seconds: float = 0.1) -> tuple[float, float]:
        began, self.now = self.now, self.now + seconds
        return began, self.now

    def send(self, target: str, id: str, outcome=CONFIRMED, **more):
        return self.ledger.add(Send(target, id, *self.step(), outcome, **more))

    def deliver(self, place: str, id: str, number: int, holder: str = "one", session: str | None = None, **more):
        called, at = self.step()
        is_locked = not self.ledger.places[place].is_deleting and session is None
        locked_until = at + LOCK_SECS if is_locked else None
        settings = {"opened": 0.0, "lock_secs": LOCK_SECS, "locked_until": locked_until, "session": session} | more
        return self.ledger.add(Delivery(place, id, number, f"{number}-{at}", 0, holder, called=called, at=at, **settings))

    def settle(self, delivery: Delivery, verb=Verb.COMPLETE, outcome=CONFIRMED, errors: tuple[str, ...] = ()):
        return self.ledger.add(Settlement(delivery, verb, *self.step(), outcome, errors))

    def finish(self, place: str, id: str, number: int, **more):
        self.settle(self.deliver(place, id, number, **more))

    def left(self, place: str, id: str, number: int, **more):
        self.ledger.add(Remainder(place, id, number, **more))

    def cancel(self, target: str, id: str, outcome=CONFIRMED):
        self.ledger.add(Cancel(target, id, *self.step(), outcome))

    def fault(self, seconds: float = 1.0):
        self.ledger.add(Fault("broken", *self.step(seconds)))

    def rules(self) -> set[str]:
        return {violation.rule for violation in violations(self.ledger)}


@pytest.fixture
def story():
    return Story()


def test_an_orderly_life_breaks_no_rule(story):
    story.send("work", "done")
    story.finish("work", "done", 1)
    story.send("work", "waiting")
    story.left("work", "waiting", 2)
    story.send("work", "dead")
    story.settle(story.deliver("work", "dead", 3), Verb.DEAD_LETTER)
    story.left("work", "dead", 3, is_dead=True)
    story.send("news", "news")
    for place in ("news/a", "news/b"):
        story.finish(place, "news", 1)
    story.send("volatile", "v")
    story.deliver("volatile", "v", 1)
    assert story.rules() == set()


def test_an_accepted_message_that_is_nowhere(story):
    story.send("work", "gone")
    assert story.rules() == {"lost"}


def test_a_message_in_doubt_may_be_nowhere(story):
    story.send("work", "gone", DOUBT)
    assert story.rules() == set()


def test_a_message_that_one_of_two_subscriptions_misses(story):
    story.send("news", "news")
    story.finish("news/a", "news", 1)
    assert story.rules() == {"lost"}


@pytest.mark.parametrize("verb", [Verb.ABANDON, Verb.DEFER, Verb.DEAD_LETTER])
@pytest.mark.parametrize("outcome", Outcome)
def test_a_delivered_message_that_vanishes_uncompleted(story, verb, outcome):
    """Also the second copy of a message sent twice, where the first one is completed."""
    story.send("work", "gone", DOUBT)
    story.send("work", "gone")
    story.finish("work", "gone", 1)
    story.settle(story.deliver("work", "gone", 2), verb, outcome)
    assert story.rules() == {"lost"}


def test_a_completion_in_doubt_leaves_both_open(story):
    for id, number in (("done", 1), ("undone", 2)):
        story.send("work", id)
        story.settle(story.deliver("work", id, number), outcome=DOUBT)
    story.left("work", "undone", 2)
    assert story.rules() == set()


def test_a_completed_message_that_is_delivered_again(story):
    story.send("work", "back")
    story.finish("work", "back", 1)
    story.step(1)
    story.settle(story.deliver("work", "back", 1, holder="two"))
    assert "came back" in story.rules()


def test_a_completed_message_of_a_session_that_is_delivered_again(story):
    story.send("sessions", "back", session="s")
    story.finish("sessions", "back", 1, session="s")
    story.fault()
    story.finish("sessions", "back", 1, session="s", holder="two", opened=story.now)
    assert story.rules() == {"came back"}


def test_a_completed_message_that_is_left(story):
    story.send("work", "back")
    story.finish("work", "back", 1)
    story.left("work", "back", 1)
    assert story.rules() == {"came back"}


def test_a_dead_letter_that_is_still_in_its_queue(story):
    story.send("work", "back")
    story.settle(story.deliver("work", "back", 1), Verb.DEAD_LETTER)
    story.left("work", "back", 1)
    assert story.rules() == {"came back"}


def test_messages_delivered_earlier_to_a_slow_receiver_did_not_return(story):
    """It was locked for the first receiver, which shows it only after the second one had it and completed it."""
    story.send("work", "slow")
    given_secs = story.now
    story.step(LOCK_SECS + 1)
    story.finish("work", "slow", 1, holder="two")
    story.deliver("work", "slow", 1, holder="one", locked_until=given_secs + LOCK_SECS)
    story.ledger.error("one", OSError("the link is gone"))
    story.fault()
    assert "came back" not in story.rules()


def test_more_copies_than_attempts(story):
    story.send("work", "twin")
    for number in (1, 2):
        story.finish("work", "twin", number)
    assert story.rules() == {"duplicate"}


def test_two_attempts_may_make_two_copies(story):
    story.send("work", "twin", DOUBT)
    story.send("work", "twin")
    for number in (1, 2):
        story.finish("work", "twin", number)
    assert story.rules() == set()


def test_two_copies_where_duplicates_are_detected(story):
    story.send("unique", "twin", DOUBT)
    story.send("unique", "twin")
    for number in (1, 2):
        story.finish("unique", "twin", number)
    assert story.rules() == {"duplicate"}


def test_an_unsent_message(story):
    story.finish("work", "stranger", 1)
    assert story.rules() == {"unknown"}


def test_a_message_received_and_deleted_twice(story):
    story.send("volatile", "v")
    story.fault()
    for holder in ("one", "two"):
        story.deliver("volatile", "v", 1, holder=holder)
    assert story.rules() == {"twice"}


def test_a_delivery_of_receive_and_delete_may_be_lost_with_its_connection(story):
    story.send("volatile", "v")
    assert story.rules() == {"lost"}
    story.fault()
    assert story.rules() == set()


def test_a_redelivery_before_the_lock_is_over(story):
    story.send("work", "shared")
    first = story.deliver("work", "shared", 1)
    story.finish("work", "shared", 1, holder="two")
    assert story.rules() == {"unexplained"}
    story.settle(first, Verb.ABANDON)
    assert "unexplained" not in story.rules()


def test_a_redelivery_after_the_lock_or_a_fault_is_over(story):
    story.send("work", "shared")
    story.deliver("work", "shared", 1)
    story.step(LOCK_SECS)
    story.deliver("work", "shared", 1, holder="two")
    story.fault()
    story.finish("work", "shared", 1, holder="three")
    assert story.rules() == set()


def test_a_session_out_of_order(story):
    for id in ("first", "second"):
        story.send("sessions", id, session="s")
    story.finish("sessions", "second", 2, session="s")
    story.finish("sessions", "first", 1, session="s")
    assert story.rules() == {"order"}


def test_a_session_that_leaves_one_behind(story):
    for id in ("first", "second"):
        story.send("sessions", id, session="s")
    story.finish("sessions", "second", 2, session="s")
    story.left("sessions", "first", 1, session="s")
    assert story.rules() == {"order"}


def test_a_session_whose_message_is_given_back_starts_with_it(story):
    for id in ("first", "second"):
        story.send("sessions", id, session="s")
    story.settle(story.deliver("sessions", "first", 1, session="s"), Verb.ABANDON)
    story.finish("sessions", "first", 1, session="s")
    story.finish("sessions", "second", 2, session="s")
    assert story.rules() == set()


def test_a_session_settled_by_two_holders(story):
    for number in (1, 2, 3):
        story.send("sessions", f"{number}", session="s")
    story.finish("sessions", "1", 1, session="s", holder="one")
    late = story.deliver("sessions", "2", 2, session="s", holder="one")
    story.fault()
    story.finish("sessions", "2", 2, session="s", holder="two", opened=story.now)
    story.settle(dataclasses.replace(late, number=3), outcome=CONFIRMED)
    assert "two holders" in story.rules()


def test_a_scheduled_message_that_comes_early(story):
    story.send("later", "soon", due=60.0)
    story.finish("later", "soon", 1)
    assert story.rules() == {"early"}


@pytest.mark.parametrize("is_left", [False, True])
def test_a_cancelled_message_that_comes(story, is_left):
    story.send("later", "never", due=0.0)
    story.cancel("later", "never")
    story.left("later", "never", 1) if is_left else story.finish("later", "never", 1)
    assert story.rules() == {"cancelled"}


def test_a_cancellation_in_doubt_leaves_both_open(story):
    for id in ("gone", "there"):
        story.send("later", id, due=0.0)
        story.cancel("later", id, DOUBT)
    story.finish("later", "there", 1)
    assert story.rules() == set()


def test_the_pause_after_a_fault_lasts_until_every_place_is_served():
    story = Story()
    story.ledger.places = {"work": PLACES[0], "unique": PLACES[1]}
    story.step(1.1)
    for place, number in (("work", 1), ("unique", 1)):
        story.step(1)
        story.send(place, place)
        story.finish(place, place, number)
    assert pause_after(story.ledger, 1.1) == pytest.approx(2.6)
    assert pause_after(story.ledger, story.now) == float("inf")


def doubtful(story: Story, errors: tuple[str, ...], is_broken: bool = True) -> Delivery:
    """A message whose settlement failed, while something was broken or not."""
    story.send("work", "doubtful")
    delivery = story.deliver("work", "doubtful", 1)
    if is_broken:
        story.ledger.add(Fault("broken", story.now, story.now + 0.05))
    story.settle(delivery, outcome=DOUBT, errors=errors)
    return delivery


@pytest.mark.parametrize("errors", [JS_IN_DOUBT, PYTHON_IN_DOUBT])
@pytest.mark.parametrize("comes_again", [False, True])
def test_a_settlement_in_doubt_is_a_pause_if_the_message_is_settled_once(story, errors, comes_again):
    doubtful(story, errors)
    if comes_again:
        story.finish("work", "doubtful", 1, opened=story.now)
    assert more_than_pauses(story.ledger) == []
    assert story.rules() == set()


@pytest.mark.parametrize("errors", [JS_IN_DOUBT, PYTHON_IN_DOUBT])
def test_a_settlement_that_fails_while_nothing_is_broken_costs_something(story, errors):
    story.fault()
    story.step(LOCK_SECS)
    doubtful(story, errors, is_broken=False)
    assert "nothing was broken" in more_than_pauses(story.ledger)[0]


def test_an_error_that_leaves_no_doubt_costs_something(story):
    doubtful(story, (JS_IN_DOUBT[0], "ServiceBusError UnauthorizedAccess: the token is not for this"))
    assert "was refused" in more_than_pauses(story.ledger)[0]


def test_a_message_that_a_settlement_in_doubt_leaves_behind_costs_something(story):
    doubtful(story, JS_IN_DOUBT)
    story.left("work", "doubtful", 1)
    assert "is left" in more_than_pauses(story.ledger)[0]


def test_a_message_that_comes_again_and_is_not_settled_costs_something(story):
    doubtful(story, JS_IN_DOUBT)
    story.deliver("work", "doubtful", 1, opened=story.now)
    assert "nobody settled it" in more_than_pauses(story.ledger)[0]


def test_a_message_that_is_settled_twice_after_a_doubt_costs_something(story):
    doubtful(story, JS_IN_DOUBT)
    for _ in range(2):
        story.finish("work", "doubtful", 1, opened=story.now)
    assert "settled twice" in more_than_pauses(story.ledger)[0]


@pytest.mark.parametrize("who, costs", [("js send", True), ("python receive", True), ("js subscribe", False)])
def test_other_errors_cost_something_unless_the_sdk_goes_on(story, who, costs):
    story.fault()
    story.ledger.error(who, OSError("the connection is gone"))
    assert bool(more_than_pauses(story.ledger)) == costs
