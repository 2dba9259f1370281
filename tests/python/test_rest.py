"""Messages over HTTP: every operation on every kind of entity, and both ways between HTTP and the SDK."""

import asyncio
import contextlib
import datetime
import email.utils
import http.client
import json
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage

from bus import body, one
from daemon import entities_text
from rest import BATCH, DEAD_LETTERS, Rest, path, signature

HOUR = datetime.timedelta(hours=1)
PATIENCE_SECS = 40


@pytest.fixture
def rest(daemon):
    return Rest(daemon)


def sub_code(answer) -> str | None:
    text = answer.body.decode()
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    found = re.fullmatch(
        r"<Error><Code>(\d+)</Code><Detail>(?:SubCode=(\d+)\. )?.*TrackingId:[-0-9a-f]{36}_G0, SystemTracker:peeklock, "
        r"Timestamp:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d</Detail></Error>",
        text,
    )
    assert found and int(found[1]) == answer.status, text
    return found[2]


def instant(text: str) -> datetime.datetime:
    return email.utils.parsedate_to_datetime(text)


def sources(queues, topics) -> list[tuple]:
    """Targets and sources of every kind."""
    topic = topics.take()
    return [(name, name) for name in [queues.take(), queues.take("path/with/slashes")]] + [(topic, topic / "one")]


# --- every operation on every kind of entity ---


def test_messages_are_sent_locked_and_completed(rest, queues, topics):
    for target, source in sources(queues, topics):
        sent = rest.send(target, b"hello", {"Label": "greeting"}, {"Content-Type": "text/plain"})
        assert (sent.status, sent.body) == (201, b"")
        locked = rest.peek_lock(source)
        assert (locked.status, locked.body, locked.headers["Content-Type"]) == (201, b"hello", "text/plain")
        broker = locked.broker
        assert (broker["Label"], broker["DeliveryCount"], broker["State"]) == ("greeting", 1, "Active")
        assert broker["TimeToLive"] == pytest.approx(922337203685.47754), "of a message without one, as recorded"
        # Only a topic's copy had an earlier number.
        assert (broker["SequenceNumber"], broker["EnqueuedSequenceNumber"]) == (1, 0 if source == target else 1)
        assert locked.location.endswith(f"/messages/1/{broker['LockToken']}")
        assert instant(broker["LockedUntilUtc"]) > instant(broker["EnqueuedTimeUtc"])
        assert rest.peek_lock(source, timeout=0).status == 204, "locked"
        assert rest.at("DELETE", locked.location).status == 200
        assert rest.at("DELETE", locked.location).status == 404
        assert rest.take(source, timeout=0).status == 204


def test_a_received_message_has_no_headers_but_its_own(rest, queue):
    """azure-servicebus 0.50 takes every other header for a property, as recorded with the service in its `control_plane_tests`."""
    rest.send(queue, b"x", headers={"Table": "7"})
    answer = rest.take(queue)
    known = {"brokerproperties", "content-type", "date", "transfer-encoding"}
    assert {name.lower() for name in answer.headers} - known == {"table"}
    rest.send(queue)
    assert (empty := rest.take(queue)).status == 200 and empty.body == b""


def test_messages_are_received_and_deleted(rest, queues, topics):
    for target, source in sources(queues, topics):
        rest.send(target, b"gone")
        taken = rest.take(source)
        assert (taken.status, taken.body, taken.location) == (200, b"gone", None)
        assert "LockToken" not in taken.broker
        empty = rest.take(source, timeout=0)
        assert (empty.status, empty.body) == (204, b"")


def test_unlocked_messages_come_again(rest, queues, topics):
    for target, source in sources(queues, topics):
        rest.send(target, b"again")
        locked = rest.peek_lock(source)
        assert rest.at("PUT", locked.location).status == 200
        again = rest.peek_lock(source)
        assert (again.body, again.broker["DeliveryCount"]) == (b"again", 2)
        assert rest.at("PUT", locked.location).status == 404, "the old lock"
        assert rest.at("DELETE", again.location).status == 200


async def test_renewed_locks_last_longer(rest, queues, topics, traveller):
    rest = Rest(traveller)
    for target, source in sources(queues, topics):
        rest.send(target, b"slow")
        locked = rest.peek_lock(source)
        traveller.advance_to(instant(locked.broker["LockedUntilUtc"]) - datetime.timedelta(seconds=2))
        assert rest.at("POST", locked.location).status == 200
        traveller.advance(seconds=10)
        assert rest.at("DELETE", locked.location).status == 200


async def test_lost_locks_are_not_found(queues, topics, traveller):
    rest = Rest(traveller)
    for target, source in sources(queues, topics):
        rest.send(target, b"late")
        locked = rest.peek_lock(source)
        traveller.advance(minutes=2)
        for method in ["DELETE", "PUT", "POST"]:
            lost = rest.at(method, locked.location)
            assert (lost.status, sub_code(lost)) == (404, "40400")
        assert rest.take(source).broker["DeliveryCount"] == 2


def test_dead_letters_are_received(rest, queues, topics):
    topic = topics.take()
    for target, source in [(queue := queues.take("one_try"), queue)]:
        rest.send(target, b"bad", headers={"Own": "1"})
        rest.at("PUT", rest.peek_lock(source).location)
        dead = rest.peek_lock(source, under=DEAD_LETTERS)
        assert (dead.status, dead.body) == (201, b"bad")
        assert dead.headers["DeadLetterReason"] == '"MaxDeliveryCountExceeded"'
        assert dead.headers["Own"] == "1"
        assert "/$DeadLetterQueue/messages/" in dead.location
        assert rest.at("POST", dead.location).status == 200
        assert rest.at("DELETE", dead.location).status == 200
        assert rest.take(source, timeout=0, under=DEAD_LETTERS).status == 204
    assert rest.take(topic / "one", timeout=0, under="/$DeadLetterQueue").status == 204


def test_paths_are_not_particular(rest, queue, topic):
    assert rest.request("POST", f"//{queue.upper()}/Messages/", b"x").status == 201
    assert rest.request("DELETE", f"/{queue}/MESSAGES/Head?timeout=20").status == 200
    rest.send(topic, b"y")
    assert rest.request("DELETE", f"/{topic}/SUBSCRIPTIONS/ONE/messages/head").status == 200
    nested = rest.request("POST", "/path%2Fwith%2fslashes-15/messages", b"z")
    assert nested.status == 201
    assert rest.take("path/with/slashes-15").body == b"z"


def test_batches(rest, queues, topics):
    for target, source in sources(queues, topics):
        entries = [
            {"Body": "first", "BrokerProperties": {"Label": "M1", "TimeToLiveTimeSpan": "0.00:00:40"}},
            {"Body": "second", "UserProperties": {"Priority": "Low"}},
            {"Body": "/wA=", "IsBodyBase64Encoded": True, "UserProperties": {"N": 7, "T": True, "F": 0.5}},
        ]
        assert rest.send_batch(target, entries).status == 201
        first, second, third = (rest.take(source) for _ in range(3))
        assert (first.body, first.broker["Label"], first.broker["TimeToLive"]) == (b"first", "M1", 40)
        assert (second.body, second.headers["priority"]) == (b"second", '"Low"')
        assert third.body == b"\xff\x00"
        assert [third.headers[name] for name in ["N", "T", "F"]] == ["7", "true", "0.5"]


def test_a_batch_with_one_bad_entry_leaves_nothing(rest, queue):
    for bad in [{"Body": [1]}, {"BrokerProperties": {"TimeToLive": -1}}, {"BrokerProperties": {"MessageId": "m" * 129}}]:
        refused = rest.send_batch(queue, [{"Body": "good"}, bad])
        assert (refused.status, sub_code(refused)) == (400, "40000")
    assert rest.send_batch(queue, []).status == 400
    assert rest.send_batch(queue, {"Body": "no array"}).status == 400
    assert rest.take(queue, timeout=0).status == 204
    # Only the exact type: with a parameter the request is a single message.
    single = rest.request("POST", f"/{queue}/messages", b"[]", {"Content-Type": f"{BATCH}; charset=utf-8"})
    assert single.status == 201
    assert rest.take(queue).body == b"[]"


# --- between HTTP and the SDK ---


async def test_the_sdk_receives_messages_sent_over_http(rest, bus, queue):
    at = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    broker = {
        "MessageId": "id",
        "CorrelationId": "correlation",
        "Label": "gr\u00fcn \U0001f600",
        "To": "to",
        "ReplyTo": "back",
        "ReplyToSessionId": "reply session",
        "SessionId": "session",
        "PartitionKey": "session",
        "TimeToLive": 3600.5,
        "Unknown": {"nested": []},
    }
    headers = {
        "Content-Type": "application/json",
        "Text": '"text \\"quoted\\" gr\\u00fcn"',
        "Bare": "12345,ABC",
        "Number": "7",
        "Large": str(2**40),
        "Fraction": "0.5",
        "Truth": "true",
        "At": f'"{email.utils.format_datetime(at, usegmt=True)}"',
    }
    assert rest.send(queue, b'{"a": 1}', broker, headers).status == 201
    received = await one(await bus.open_receiver(queue))
    assert body(received) == b'{"a": 1}'
    assert (received.message_id, received.correlation_id, received.subject) == ("id", "correlation", broker["Label"])
    assert (received.to, received.reply_to, received.reply_to_session_id) == ("to", "back", "reply session")
    assert (received.session_id, received.partition_key) == ("session", "session")
    assert received.content_type == "application/json"
    assert received.time_to_live == datetime.timedelta(seconds=3600.5)
    assert received.application_properties == {
        b"text": 'text "quoted" gr\u00fcn'.encode(),
        b"bare": b"12345,ABC",
        b"number": 7,
        b"large": 2**40,
        b"fraction": 0.5,
        b"truth": True,
        b"at": int(at.timestamp() * 1000),
    }


async def test_http_receives_messages_of_the_sdk(rest, bus, queue):
    some_id = uuid.uuid4()
    sent = ServiceBusMessage(
        b"bytes \xff",
        message_id="id",
        correlation_id="correlation",
        subject="gr\u00fcn \U0001f600",
        content_type="text/plain",
        to="to",
        reply_to="back",
        session_id="session",
        reply_to_session_id="reply session",
        partition_key="session",
        time_to_live=HOUR,
        application_properties={
            "Text": 'a "quoted" gr\u00fcn',
            "Number": 7,
            "Fraction": 0.5,
            "Truth": False,
            "Id": some_id,
            "no header name": 1,
        },
    )
    await bus.send(queue, sent)
    received = await asyncio.to_thread(rest.take, queue)
    assert (received.status, received.body) == (200, b"bytes \xff")
    assert received.headers["Content-Type"] == "text/plain"
    broker = received.broker
    assert broker | {
        "MessageId": "id",
        "CorrelationId": "correlation",
        "Label": "gr\u00fcn \U0001f600",
        "To": "to",
        "ReplyTo": "back",
        "SessionId": "session",
        "ReplyToSessionId": "reply session",
        "PartitionKey": "session",
        "TimeToLive": 3600,
    } == broker
    assert instant(broker["ExpiresAtUtc"]) - instant(broker["EnqueuedTimeUtc"]) == HOUR
    names = ["Text", "Number", "Fraction", "Truth", "Id"]
    assert [received.headers[name] for name in names] == [
        '"a \\"quoted\\" gr\\u00fcn"',
        "7",
        "0.5",
        "false",
        f'"{some_id}"',
    ]


async def test_bodies_that_are_no_bytes_have_a_form_in_http(rest, bus, queue):
    await bus.send(
        queue,
        AmqpAnnotatedMessage(value_body="text gr\u00fcn"),
        AmqpAnnotatedMessage(value_body=b"bytes"),
        AmqpAnnotatedMessage(value_body={b"k": [1, True, None]}),
        AmqpAnnotatedMessage(sequence_body=[1, "two"]),
        AmqpAnnotatedMessage(data_body=[b"two ", b"parts"]),
    )
    found = [(await asyncio.to_thread(rest.take, queue)).body for _ in range(5)]
    assert found == ["text gr\u00fcn".encode(), b"bytes", b'{"k":[1,true,null]}', b'[1,"two"]', b"two parts"]


async def test_locks_of_one_protocol_are_no_secret_to_the_other(rest, bus, queue):
    """A client that knows a lock token may settle with it; the token has the same text in both."""
    await bus.send(queue, ServiceBusMessage("x"), ServiceBusMessage("y"))
    receiver = await bus.open_receiver(queue)
    first = await one(receiver)
    assert rest.request("DELETE", f"/{queue}/messages/{first.sequence_number}/{first.lock_token}").status == 200
    locked = await asyncio.to_thread(rest.peek_lock, queue)
    assert locked.body == b"y"
    assert [m.sequence_number for m in await bus.peek(queue)] == [2]


async def test_scheduled_messages_wait(bus, queue, traveller):
    rest = Rest(traveller)
    at = (traveller.now() + HOUR).replace(microsecond=0)
    text = email.utils.format_datetime(at, usegmt=True)
    assert rest.send(queue, b"later", {"ScheduledEnqueueTimeUtc": text}).status == 201
    assert (await asyncio.to_thread(rest.take, queue, 0)).status == 204
    (waiting,) = await bus.peek(queue)
    assert waiting.scheduled_enqueue_time_utc == at
    traveller.advance_to(at)
    came = await asyncio.to_thread(rest.take, queue)
    assert came.body == b"later"
    assert came.broker["ScheduledEnqueueTimeUtc"] == text


async def test_rules_see_properties_sent_over_http(rest, topics):
    topic = topics.take("topic_rules")
    rest.send(topic, b"red", {"Label": "red"})
    rest.send(topic, b"eu", headers={"region": '"eu"', "amount": "5"})
    rest.send_batch(topic, [{"Body": "batch", "UserProperties": {"Region": "eu", "Amount": 5}}])
    assert rest.take(topic / "red").body == b"red"
    assert [rest.take(topic / "eu").body for _ in range(2)] == [b"eu", b"batch"]
    assert [rest.take(topic / "all").body for _ in range(3)] == [b"red", b"eu", b"batch"]
    assert rest.take(topic / "none", timeout=0).status == 204


async def test_http_sends_to_sessions_and_receives_none(rest, bus, queues):
    queue = queues.take("session")
    refused = rest.send(queue, b"no session")
    assert (refused.status, sub_code(refused), refused.headers["Allow"]) == (405, None, "POST")
    assert rest.send(queue, b"in a session", {"SessionId": "s"}).status == 201
    refused = rest.peek_lock(queue)
    assert (refused.status, sub_code(refused), refused.headers["Allow"]) == (405, None, "POST, DELETE")
    assert b"an entity that requires sessions" in refused.body
    receiver = await bus.open_receiver(queue, session_id="s")
    assert body(await one(receiver)) == b"in a session"


# --- waiting ---


async def test_a_waiting_receive_gets_a_later_message(rest, queues, topics):
    with ThreadPoolExecutor() as pool:
        for target, source in sources(queues, topics):
            for receive in [rest.take, rest.peek_lock]:
                waiting = pool.submit(receive, source, 60)
                # The order of the two can't be observed, and does not matter.
                rest.send(target, b"at last")
                assert waiting.result().body == b"at last"


def test_a_receive_ends_when_its_time_is_over(rest, queue):
    assert rest.take(queue, timeout=1).status == 204
    for nonsense in ["-1", "1.5", "soon"]:
        assert rest.request("DELETE", f"/{queue}/messages/head?timeout={nonsense}").status == 400


async def test_nothing_is_lost_when_a_client_hangs_up(queue, traveller):
    """A message that was being sent to a disconnected client is available again, at the latest when its lock ends."""
    rest = Rest(traveller)
    for number in range(10):
        for _ in range(10):
            rest.socket("POST", f"/{queue}/messages/head?timeout=60").close()
        rest.send(queue, f"{number}".encode())
        deadline = time.monotonic() + PATIENCE_SECS
        while (found := rest.peek_lock(queue, timeout=1)).status == 204:
            assert time.monotonic() < deadline, "the message is lost"
            traveller.advance(minutes=2)
        assert found.body == f"{number}".encode()
        assert rest.at("DELETE", found.location).status == 200


def test_a_client_that_hangs_up_receives_no_more(rest, queue):
    """Noticed as soon as the connection ends: a message sent after that is available to others at once."""
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        rest.socket("POST", f"/{queue}/messages/head?timeout=60").close()
        # Other requests pass the time; each further receive would leave one more waiting receiver.
        assert rest.request("GET", "/nowhere").status == 200
        rest.send(queue, b"x")
        if rest.take(queue, timeout=0).status == 200:
            break
        assert time.monotonic() < deadline, "somebody who is gone takes all"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    ("length", "rest_of_request"), [("2", b"{}"), ("0", b"\r\n"), ("0", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")]
)
def test_a_client_that_sends_more_after_the_head_and_hangs_up_receives_no_more(
    rest, queue, method, length, rest_of_request
):
    """A body of its own packet, which a receive does not need; the line end that some clients add; another request."""
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        with rest.socket(method, f"/{queue}/messages/head?timeout=60", {"Content-Length": length}) as peer:
            assert rest.request("GET", "/nowhere").status == 200
            peer.sendall(rest_of_request)
        assert rest.request("GET", "/nowhere").status == 200
        rest.send(queue, b"x")
        if rest.take(queue, timeout=0).status == 200:
            break
        assert time.monotonic() < deadline, "somebody who is gone takes all"


def test_a_connection_stays_open_after_a_receive_with_a_body(rest, queue):
    rest.send(queue, b"x")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)) as connection:
        authorization = {"Authorization": signature(f"http://localhost:{rest.port}/")}
        for status in [200, 204]:
            # `http.client` sends the body after the head.
            connection.request("DELETE", f"/{queue}/messages/head?timeout=0", b"{}", authorization)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Connection"]) == (status, None)
            answer.read()
    assert rest.request("DELETE", f"/{queue}/messages/head?timeout=0", b"x" * 5000).status == 413


# --- what is refused ---


def test_missing_messages_are_gone(rest, queue, topic):
    lock = uuid.uuid4()
    for method, path in [
        ("POST", "/nowhere/messages"),
        ("POST", "/nowhere/messages/head"),
        ("DELETE", "/nowhere/messages/head"),
        ("DELETE", f"/nowhere/messages/1/{lock}"),
        ("POST", f"/{topic}/subscriptions/nobody/messages/head"),
        ("POST", f"/{queue}/subscriptions/one/messages/head"),
    ]:
        gone = rest.request(method, path)
        assert (gone.status, sub_code(gone)) == (410, "41000"), path


def test_locks_that_never_were_are_not_found(rest, queue, topic):
    for lock in [uuid.uuid4(), "nonsense", "0"]:
        for method in ["DELETE", "PUT", "POST"]:
            for entity in [queue, f"{topic}/subscriptions/one", f"{queue}/$DeadLetterQueue"]:
                lost = rest.request(method, f"/{entity}/messages/1/{lock}")
                assert (lost.status, sub_code(lost)) == (404, "40400")


def test_a_lock_is_of_its_queue_only(rest, queues):
    here, there = queues.take(), queues.take()
    rest.send(here, b"x")
    locked = rest.peek_lock(here)
    assert rest.at("DELETE", locked.location.replace(here, there)).status == 404
    assert rest.at("DELETE", locked.location).status == 200


def test_invalid_requests_are_refused(rest, queue, topic):
    for entity, under in [(topic, ""), (topic, DEAD_LETTERS)]:
        assert rest.take(entity, timeout=0, under=under).status == 400
    for path in [f"/{topic}/subscriptions/one/messages", f"/{queue}/$deadletterqueue/messages"]:
        assert rest.request("POST", path, b"x").status == 400
    for broker in ["", "no json", "[]", '{"Label": []}', '{"TimeToLive": 0}', '{"ScheduledEnqueueTimeUtc": "soon"}']:
        refused = rest.request("POST", f"/{queue}/messages", b"x", {"BrokerProperties": broker})
        assert (refused.status, sub_code(refused)) == (400, "40000"), broker
    assert rest.send(queue, b"x", {"SessionId": "a", "PartitionKey": "b"}).status == 400
    assert rest.send(queue, b"x", {"MessageId": "m" * 129}).status == 400
    assert rest.take(queue, timeout=0).status == 204


def test_too_large_requests_are_refused(rest, queue):
    """A body beyond the limit is refused as such; a message, with its properties, as the service does."""
    megabyte = 1024 * 1024
    assert rest.send(queue, b"x" * (megabyte - 1000)).status == 201
    large = rest.send(queue, b"x" * (megabyte - 1))
    assert (large.status, sub_code(large)) == (403, "40300")
    large = rest.send_batch(queue, [{"Body": "x", "UserProperties": {"Large": "x" * 70_000}}])
    assert (large.status, sub_code(large)) == (403, "40300")
    # A head beyond the limit is answered, and the connection ended, before the rest of it is read: the answer may be lost.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert rest.send(queue, b"x", headers={"Large": "x" * 70_000}).status == 431
    half = [{"Body": "x" * (megabyte // 2)}]
    assert rest.send_batch(queue, half * 2).status == 403
    assert rest.send_batch(queue, half).status == 201
    assert len(rest.take(queue).body) == megabyte - 1000
    assert len(rest.take(queue).body) == megabyte // 2
    assert rest.take(queue, timeout=0).status == 204


def test_the_head_of_a_request_has_at_most_32_kib(rest, queue):
    """As docs/rest.md says; a batch takes more."""
    assert rest.send(queue, b"x", headers={"Large": "x" * 30_000}).status == 201
    # The connection is ended before the rest of the head is read: the answer may be lost.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert rest.send(queue, b"x", headers={"Large": "x" * 33_000}).status == 431
    assert rest.send_batch(queue, [{"Body": "y", "UserProperties": {"Large": "x" * 32_000, "More": "x" * 30_000}}]).status == 201
    assert rest.take(queue).body == b"x"
    assert rest.take(queue).body == b"y"


def test_a_huge_body_is_refused_unread(rest, queue):
    """A hundred megabytes announced: the answer comes before a byte of them."""
    length = str(100 * 1024 * 1024)
    for headers in [{"Content-Length": length}, {"Content-Length": length, "Content-Type": BATCH}]:
        with rest.socket("POST", f"/{queue}/messages", headers) as peer:
            assert peer.recv(4096).startswith(b"HTTP/1.1 413 ")
    # Without a length: it is read up to the limit.
    with rest.socket("POST", f"/{queue}/messages", {"Transfer-Encoding": "chunked"}) as peer:
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(16):
            peer.sendall(chunk)
        try:
            for _ in range(1600):
                peer.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            return
        raise AssertionError("it was all read")


def test_a_body_that_breaks_off_is_no_message(rest, queue):
    with rest.socket("POST", f"/{queue}/messages", {"Content-Length": "10"}) as peer:
        peer.sendall(b"half")
    assert rest.take(queue, timeout=1).status == 204


def test_a_deleted_entity_ends_waiting_receives(start_daemon):
    text = entities_text({"brief": {"auto_delete_on_idle": "PT5M"}})
    daemon = start_daemon(text, time_travel=True)
    rest = Rest(daemon)
    assert rest.send("brief", b"x").status == 201
    daemon.advance(minutes=6)
    assert rest.take("brief", timeout=0).status == 410


# --- deleting without receiving: an extension ---


def purge(rest, source, query: str = ""):
    answer = rest.request("POST", f"/{path(source)}/messages/purge{query}")
    return json.loads(answer.body)["deleted"] if answer.status == 200 else answer.status


def test_a_purge_deletes_all_unlocked_messages(rest, queues, topics):
    for target, source in sources(queues, topics):
        for number in range(5):
            rest.send(target, str(number).encode())
        locked = rest.peek_lock(source)
        assert purge(rest, source, "?count=2") == 2
        assert purge(rest, source) == 2
        assert purge(rest, source) == 0
        assert rest.at("PUT", locked.location).status == 200
        assert rest.take(source, timeout=0).body == b"0"


def test_a_purge_of_many_messages_takes_several_batches(rest, queue):
    entries = [{"Body": "x"}] * 3_000
    for _ in range(3):
        assert rest.request("POST", f"/{queue}/messages", json.dumps(entries), {"Content-Type": BATCH}).status == 201
    assert purge(rest, queue) == 9_000


async def test_a_purge_ends_at_the_time_given(bus, queue, traveller):
    rest = Rest(traveller)
    rest.send(queue, b"early")
    until = traveller.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    traveller.advance(seconds=1)
    rest.send(queue, b"late")
    assert purge(rest, queue, f"?until={until}") == 1
    assert purge(rest, queue, f"?until={until}") == 0
    assert [body(message) for message in await bus.peek(queue)] == [b"late"]


def test_unlocked_sessions_and_dead_letters_are_purged(rest, queues):
    queue = queues.take("session")
    for session in "abc":
        rest.send(queue, b"x", {"SessionId": session})
    assert purge(rest, queue) == 3
    assert purge(rest, queue + DEAD_LETTERS) == 0


def test_a_purge_that_makes_no_sense_is_refused(rest, queue, topic):
    for query in ["?count=0", "?count=-1", "?count=many", "?until=soon", "?until="]:
        assert purge(rest, queue, query) == 400, query
    assert purge(rest, topic) == 400, "a topic has no messages to receive"
    assert purge(rest, "nowhere") == 410
