"""Which copies a subscription gets for which rules: a matrix of rules and messages, as Python sends and sees them."""

import asyncio
import datetime
import uuid

from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, body
from rules import properties

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
SPAN = datetime.timedelta(days=1, minutes=5)


def typed(kind: str, value) -> dict:
    """A value of an AMQP type that the SDK writes only if it is given explicitly."""
    return {"TYPE": kind, "VALUE": value}


#: A duration as .NET writes it; this SDK has no type for it in messages.
TIMESPAN = typed(
    "DESCRIBED",
    (typed("SYMBOL", b"com.microsoft:timespan"), typed("LONG", SPAN // datetime.timedelta(microseconds=1) * 10)),
)

#: Application properties by body.
MESSAGES = {
    "int": {"n": 5},
    "long": {"n": typed("LONG", 2**40)},
    "ulong": {"n": typed("ULONG", 2**64 - 1)},
    "byte": {"n": typed("BYTE", -5)},
    "double": {"n": 5.5},
    "whole": {"n": 5.0},
    "text": {"n": "5"},
    "null": {"n": None},
    "none": {},
    "truth": {"yes": True, "no": False},
    "moment": {"at": MOMENT},
    "id": {"id": ID},
    "bytes": {"raw": typed("BINARY", b"\x00\xff"), "text": b"as text"},
    "span": {"span": TIMESPAN},
    "names": {"Größe": 1, "a b": 2, "é": "ü"},
    "colors": {"color": "red", "shade": "Red", "empty": ""},
}
ALL = list(MESSAGES)
NUMBERS = ["int", "long", "ulong", "byte", "double", "whole"]


def but(*left_out: str) -> list[str]:
    return [name for name in ALL if name not in left_out]


#: The result of rules: names of copied messages in order, and those that were dead-lettered.
PLAIN = {
    "true": ("1=1", ALL),
    "false": ("1=0", []),
    "equal": ("n = 5", ["int", "whole"]),
    "equal to a double": ("n = 5.0", ["int", "whole"]),
    "different": ("n <> 5", ["long", "ulong", "byte", "double"]),
    "an int parameter": (("n = @n", {"@n": 5}), ["int", "whole"]),
    "a long parameter": (("n = @n", {"@n": 2**40}), ["long"]),
    "a double parameter": (("n = @n OR n = @N + 0.5", {"@n": 5.0}), ["int", "double", "whole"]),
    "a negative parameter": (("n = @n", {"@n": -5}), ["byte"]),
    "a text parameter": (("n = @n", {"@n": "5"}), ["text"]),
    "a name without its sign": (("n = @n", {"n": 5}), ["int", "whole"]),
    "beyond 63 bits": ("n > 9223372036854775807", ["ulong"]),
    "greater": ("n > 5", ["long", "ulong", "double"]),
    "numbers of all types": ("n >= -5 AND n <= 1e300", NUMBERS),
    "in": ("n IN (5, 5.5, -5, 'x')", ["int", "byte", "double", "whole"]),
    # A comparison of a string with a number does not make IN unknown: only its left side can.
    "not in": ("n NOT IN (5, 5.5)", ["long", "ulong", "byte", "text"]),
    "exists": ("EXISTS(n)", [*NUMBERS, "text", "null"]),
    "is null": ("n IS NULL", but(*NUMBERS, "text")),
    "is not null": ("n IS NOT NULL", [*NUMBERS, "text"]),
    "neither": ("NOT (n = 1) AND NOT EXISTS(n)", []),
    "a boolean": ("yes = TRUE", ["truth"]),
    "a boolean parameter": (("no = @no AND yes <> @no", {"@no": False}), ["truth"]),
    "a condition by itself": ("NOT no AND yes", ["truth"]),
    "an instant as text": ("at = '2026-01-02T03:04:05Z' AND at < '2026-01-03'", ["moment"]),
    "an instant as parameter": (("at >= @at AND at <= @at", {"@at": MOMENT}), ["moment"]),
    "a UUID": (f"id = '{ID}' AND id = '{{{str(ID).upper()}}}'", ["id"]),
    "a length of time": (("span = @span AND span > @less", {"@span": SPAN, "@less": SPAN / 2}), ["span"]),
    "bytes exist and compare to nothing": ("EXISTS(raw) AND NOT EXISTS(missing)", ["bytes"]),
    "bytes that are text": ("text = 'as text'", ["bytes"]),
    "names of any letters": ("[Größe] = 1 AND user.\"a b\" = 2 AND [é] = 'ü'", ["names"]),
    "like": ("color LIKE 'r%' AND shade LIKE '_ed' AND empty LIKE '%'", ["colors"]),
    "like is case-sensitive": ("shade LIKE 'r%'", []),
    "like with a parameter": (("shade LIKE @like ESCAPE '!'", {"@like": "R%"}), ["colors"]),
    "an empty text is not null": ("empty = '' AND empty IS NOT NULL", ["colors"]),
    "texts in order": ("color > shade AND color >= 'red' AND 'a' < 'b'", ["colors"]),
    "joined": ("color + shade = 'redRed'", ["colors"]),
    "computed": ("n * 2 - 1 = 9 AND EXISTS(n) OR n % 3 = -2", ["int", "byte", "whole"]),
    "a correlation filter of a number": ({"properties": {"n": 5}}, ["int", "whole"]),
    "a correlation filter of an instant": ({"properties": {"at": MOMENT}}, ["moment"]),
    "a correlation filter of a length of time": ({"properties": {"span": SPAN}}, ["span"]),
}
#: Arithmetic with a string fails, and so do results beyond 64 bits.
DEAD = {"computed": ["ulong", "text"]}


def message(name: str) -> ServiceBusMessage:
    return ServiceBusMessage(name, application_properties=MESSAGES[name])


async def dead_letters(stage, where) -> list[str]:
    return [body(m).decode() for m in await stage.bus.peek(where, sub_queue=DEAD_LETTER)]


async def test_which_messages_match_which_filter(stage):
    """All in one topic, each filter in its own subscription, so that they must not affect each other."""
    where = {title: await stage.subscribe(f"s{n}", {"r": PLAIN[title][0]}) for n, title in enumerate(PLAIN)}
    await stage.send(*map(message, ALL))
    copies = await asyncio.gather(*(stage.copies(subscription) for subscription in where.values()))
    got = {title: [body(m).decode() for m in each] for title, each in zip(where, copies)}
    assert got == {title: names for title, (_, names) in PLAIN.items()}
    letters = await asyncio.gather(*(dead_letters(stage, subscription) for subscription in where.values()))
    assert {title: names for title, names in zip(where, letters) if names} == DEAD
    assert all(b"RuleName" not in (m.application_properties or {}) for each in copies for m in each)


#: Copies of the message `colors`, in the order of the rules' names after that of all plain rules; each with its changed properties, `None` for removed ones.
CHANGED = {
    "two with an action and three without": (
        {
            "one": "color = 'red'",
            "two": {"properties": {"shade": "Red"}},
            "three": "EXISTS(empty)",
            "four": ["color LIKE 'r%'", "SET quantity = 4"],
            "five": [{"properties": {"color": "red"}}, "REMOVE shade"],
        },
        [{}, {"RuleName": "five", "shade": None}, {"RuleName": "four", "quantity": 4}],
    ),
    "actions alone": ({"r": ["color = 'red'", "SET color = 'blue'"]}, [{"RuleName": "r", "color": "blue"}]),
    "values of every type": (
        {
            "r": [
                "color = 'red'",
                (
                    "SET text = @text; SET int = @int; SET long = @long; SET half = @half; SET yes = @yes; SET at = @at; SET no = FALSE",
                    {"@text": "é", "@int": 5, "@long": 2**40, "@half": 0.5, "@yes": True, "@at": MOMENT},
                ),
            ]
        },
        [
            {"RuleName": "r", "text": "é", "int": 5, "long": 2**40, "half": 0.5, "yes": True, "no": False}
            | {"at": int(MOMENT.timestamp() * 1000)}
        ],
    ),
    "computed values": (
        {"r": ["color = 'red'", "SET a = 2 * 3 + 1, SET b = a / 2; SET c = color + ' & ' + shade SET color = c REMOVE c"]},
        [{"RuleName": "r", "a": 7, "b": 3, "color": "red & Red"}],
    ),
    "names in any case": (
        {"r": ["COLOR = 'red'", "SET COLOR = 'x'; REMOVE Shade; SET [New Name] = 1"]},
        [{"RuleName": "r", "color": "x", "shade": None, "New Name": 1}],
    ),
    "a rule name that was set": ({"r": ["color = 'red'", "SET RuleName = 'mine'"]}, [{"RuleName": "r"}]),
    "no match, no action": ({"r": ["color = 'blue'", "SET a = 1"], "plain": "color = 'red'"}, [{}]),
    "actions do not see each other": (
        {"a": ["color = 'red'", "SET color = 'blue'"], "b": ["color = 'red'", "SET was = color"], "c": "color = 'blue'"},
        [{"RuleName": "a", "color": "blue"}, {"RuleName": "b", "was": "red"}],
    ),
}


async def test_which_copies_actions_make(stage):
    where = {title: await stage.subscribe(f"s{n}", CHANGED[title][0]) for n, title in enumerate(CHANGED)}
    await stage.send(message("colors"), message("none"))
    copies = await asyncio.gather(*(stage.copies(subscription) for subscription in where.values()))
    got = {title: [properties(m) for m in each] for title, each in zip(where, copies)}
    changed = lambda changes: {k: v for k, v in (MESSAGES["colors"] | changes).items() if v is not None}
    assert got == {title: [changed(changes) for changes in expected] for title, (_, expected) in CHANGED.items()}
    for each in copies:
        assert {body(m) for m in each} == {b"colors"}
        assert [m.sequence_number for m in each] == list(range(1, len(each) + 1)), "numbers of their own"
        assert len({m.enqueued_sequence_number for m in each}) == 1
