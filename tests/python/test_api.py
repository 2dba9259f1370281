"""The management API in JSON over plain HTTP, on messages that the SDK sends and receives."""

import contextlib
import datetime
import http.client
import json
import socket
import time
import urllib.parse
import uuid

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue, TransportType

from rest import Rest, signature


class Api(Rest):
    """Requests to the management API of one daemon."""

    def call(self, method: str, route: str, body=None, headers: dict = {}, **query):
        query = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
        if body is not None:
            headers = {"Content-Type": "application/json"} | headers
            body = json.dumps(body)
        answer = self.request(method, f"/$api/v1/{route}?{query}", body, headers)
        return answer.status, json.loads(answer.body) if answer.body else None

    def get(self, route: str, **query):
        status, found = self.call("GET", route, **query)
        assert status == 200, found
        return found

    def pages(self, route: str, field: str, **query):
        """The rows of all pages of a list."""
        found, start = [], None
        while True:
            page = self.get(route, **query, **({"from": start} if start else {}))
            found += page[field]
            start = page["next"]
            if not start:
                return found


@pytest.fixture
def api(daemon):
    return Api(daemon)


def client_of(daemon) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(daemon.connection_string, retry_total=0)


def get(daemon, path: str):
    """A request as a browser makes it for a page: without a token."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_messages_of_the_sdk_are_shown_in_every_state(api, daemon, queue):
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(ServiceBusMessage("later", message_id="deferred"))
        receiver.defer_message(receiver.receive_messages(max_wait_time=20)[0])
        sender.send_messages(
            ServiceBusMessage('{"a": 1}', message_id="m", subject="red", application_properties={"size": 5, b"k": "v"})
        )
        [number] = sender.schedule_messages(ServiceBusMessage("tomorrow"), tomorrow)
    shown = {message["state"]: message for message in api.pages("messages", "messages", path=queue, top=1)}
    assert set(shown) == {"active", "deferred", "scheduled"}
    active = shown["active"]
    assert (active["message_id"], active["subject"], active["body"]["text"]) == ("m", "red", '{"a": 1}')
    assert active["properties"]["k"] == {"type": "string", "value": "v"}
    assert active["properties"]["size"]["value"] == "5"
    assert shown["deferred"]["message_id"] == "deferred"
    assert shown["scheduled"]["sequence_number"] == str(number)
    assert shown["scheduled"]["scheduled_for"].startswith(tomorrow.date().isoformat())
    found = api.get("messages", path=queue, where="sys.Label = 'red' AND size > 4")["messages"]
    assert [message["message_id"] for message in found] == ["m"]


def test_messages_sent_by_the_api_are_received_by_the_sdk(api, daemon, queue):
    message = {
        "body": {"json": {"a": 1}},
        "message_id": "m",
        "subject": "s",
        "properties": {"text": "t", "long": {"type": "long", "value": "9007199254740993"}, "yes": True},
        "time_to_live_ms": 60_000,
    }
    status, sent = api.call("POST", "messages", {"messages": [message]}, path=queue)
    assert status == 201, sent
    with client_of(daemon) as client, client.get_queue_receiver(queue) as receiver:
        [received] = receiver.receive_messages(max_wait_time=20)
        receiver.complete_message(received)
    assert str(received.sequence_number) == sent["sequence_numbers"][0]
    assert json.loads(str(received)) == {"a": 1}
    assert (received.message_id, received.subject, received.content_type) == ("m", "s", "application/json")
    assert received.application_properties == {b"text": b"t", b"long": 9007199254740993, b"yes": True}
    assert received.time_to_live == datetime.timedelta(minutes=1)


def test_dead_letters_are_found_by_reason(api, daemon, queue):
    reason = f"reason-{uuid.uuid4()}"
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        left = 3
        while left:
            for message in receiver.receive_messages(max_message_count=left, max_wait_time=20):
                receiver.dead_letter_message(message, reason=reason, error_description="d")
                left -= 1
    groups = [group for group in api.pages("dead-letters", "groups") if group["reason"] == reason]
    assert [(group["path"], group["queue"], group["description"]) for group in groups] == [(queue, "dead_letter", "d")]
    assert groups[0]["count"] == 3
    dead = api.get("messages", path=f"{queue}/$deadletterqueue", where=f"DeadLetterReason = '{reason}'")["messages"]
    assert len(dead) == 3
    with client_of(daemon) as client:
        with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            [peeked] = receiver.peek_messages(max_message_count=1)
    assert dead[0]["sequence_number"] == str(peeked.sequence_number) == groups[0]["first_sequence_number"]


def test_entities_and_rules_are_administered(api, daemon):
    topic = f"topic-{uuid.uuid4()}"
    path = f"{topic}/Subscriptions/red"
    assert api.call("POST", "entities", {"path": topic, "kind": "topic"})[0] == 201
    options = {"LockDuration": "PT30S", "MaxDeliveryCount": 3}
    assert api.call("POST", "entities", {"path": path, "kind": "subscription", "options": options})[0] == 201
    rule = {"filter": {"kind": "sql", "expression": "color = 'red'"}, "action": "SET seen = TRUE"}
    assert api.call("PUT", "rule", rule, path=path, name="red")[0] == 201
    assert api.call("DELETE", "rule", path=path, name="$Default")[0] == 204
    found = api.get("entity", path=path)
    assert found["options"]["LockDuration"] == "PT30S"
    assert [rule["name"] for rule in found["rules"]] == ["red"]
    assert [row["path"] for row in api.pages("entities", "entities", search=topic, top=1)] == [topic, path]
    test = {"topic": topic, "message": {"properties": {"color": "red"}}}
    status, tried = api.call("POST", "rules/test", test)
    assert status == 200, tried
    assert [(result["rule"], result["matches"]) for result in tried["results"]] == [("red", True)]
    for color in ("blue", "red"):
        message = {"body": {"text": color}, "properties": {"color": color}}
        assert api.call("POST", "messages", {"messages": [message]}, path=topic)[0] == 201
    with client_of(daemon) as client, client.get_subscription_receiver(topic, "red") as receiver:
        [received] = receiver.receive_messages(max_wait_time=20)
        assert (str(received), received.application_properties[b"seen"]) == ("red", True)
        receiver.complete_message(received)
    status, changed = api.call("PATCH", "entity", {"options": {"Status": "Disabled"}}, path=topic)
    assert (status, changed["status"]) == (200, "Disabled")
    assert api.call("DELETE", "entity", path=topic)[0] == 204
    assert api.call("GET", "entity", path=topic)[0] == 404


def act_on_all(api, path: str, **body) -> int:
    """Acts page by page, and returns the number of messages acted on."""
    done, start = 0, None
    while True:
        status, page = api.call("POST", "messages/act", body | ({"from": start} if start else {}), path=path)
        assert status == 200, page
        assert page["skipped"] == []
        done += page["done"]
        start = page["next"]
        if not start:
            return done


def test_dead_letters_are_resubmitted_and_survive_a_kill(own_daemon):
    api, queue = Api(own_daemon), "plain-0"
    with client_of(own_daemon) as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            sender.send_messages([ServiceBusMessage(str(number), message_id=str(number)) for number in range(10)])
            left = 10
            while left:
                for message in receiver.receive_messages(max_message_count=left, max_wait_time=20):
                    receiver.dead_letter_message(message, reason="even" if int(str(message)) % 2 == 0 else "odd")
                    left -= 1
    dead = f"{queue}/$deadletterqueue"
    assert act_on_all(api, dead, action="resubmit", where="DeadLetterReason = 'even'", limit=2) == 5
    own_daemon.kill()
    own_daemon.start()
    api = Api(own_daemon)
    assert len(api.pages("messages", "messages", path=dead)) == 5
    received = []
    with client_of(own_daemon) as client, client.get_queue_receiver(queue) as receiver:
        while len(received) < 5:
            for message in receiver.receive_messages(max_message_count=5, max_wait_time=20):
                assert (message.message_id, message.dead_letter_reason) == (str(message), None)
                received.append(int(str(message)))
                receiver.complete_message(message)
    assert sorted(received) == [0, 2, 4, 6, 8]


def test_deferred_messages_become_available(api, daemon, queue):
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender:
        with client.get_queue_receiver(queue) as receiver:
            sender.send_messages(ServiceBusMessage("a"))
            [message] = receiver.receive_messages(max_wait_time=20)
            receiver.defer_message(message)
            assert act_on_all(api, queue, action="undefer", where="TRUE") == 1
            [again] = receiver.receive_messages(max_wait_time=20)
            assert again.sequence_number == message.sequence_number
            receiver.complete_message(again)


def test_locks_of_the_sdk_are_shown(api, daemon, queue):
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender:
        with client.get_queue_receiver(queue) as receiver:
            sender.send_messages(ServiceBusMessage("a"))
            [message] = receiver.receive_messages(max_wait_time=20)
            [lock] = api.pages("locks", "locks", path=queue)
            assert lock["sequence_number"] == str(message.sequence_number)
            assert lock["lock_token"] == str(message.lock_token)
            until = datetime.datetime.fromisoformat(lock["locked_until"].replace("Z", "+00:00"))
            assert abs(until - message.locked_until_utc) < datetime.timedelta(milliseconds=2)
            assert len(api.pages("receivers", "receivers", path=queue)) == 1
            status, page = api.call(
                "POST", "messages/act", {"action": "delete", "sequence_numbers": [lock["sequence_number"]]}, path=queue
            )
            assert (status, page["done"]) == (200, 0)
            assert "locked" in page["skipped"][0]["reason"]
            receiver.complete_message(message)
    assert api.pages("locks", "locks", path=queue) == []


def test_the_state_of_a_session_is_shown_while_it_is_held(api, daemon, queues):
    queue = queues.take("session")
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a", session_id="Red"))
        with client.get_queue_receiver(queue, session_id="Red") as receiver:
            receiver.session.set_state('{"step": 7}')
            shown = api.get("session-state", path=queue, id="red")
            assert (shown["id"], shown["state"]["text"], shown["state"]["bytes"]) == ("Red", '{"step": 7}', 11)
            receiver.session.set_state(b"\xff\x00")
            state = api.get("session-state", path=queue, id="Red")["state"]
            assert (state["text"], state["base64"]) == (None, "/wA=")


def test_changes_are_in_the_audit_log(api):
    name = f"audited-{uuid.uuid4()}"
    assert api.call("POST", "entities", {"path": name, "kind": "queue"})[0] == 201
    assert api.call("DELETE", "entity", path=name)[0] == 204
    lines, after = [], None
    while True:
        page = api.get("log", kind="audit", after=after)
        lines += page["lines"]
        if not page["next"]:
            break
        after = page["next"]
    noted = [line["fields"] for line in lines if line["fields"].get("entity") == name]
    assert [(fields["operation"], fields["protocol"], fields["status"]) for fields in noted] == [
        ("create", "console", 201),
        ("delete", "console", 204),
    ]
    assert all(fields["principal"] == "RootManageSharedAccessKey" for fields in noted)
    assert "SAS_KEY_VALUE" not in json.dumps(lines)


def test_the_clock_is_moved_where_that_is_allowed(api, traveller):
    assert api.call("GET", "clock")[0] == 404
    api, before = Api(traveller), traveller.now()
    status, moved = api.call("POST", "clock", {"advance_ms": 3_600_000})
    assert status == 200, moved
    now = datetime.datetime.fromisoformat(moved["now"].replace("Z", "+00:00"))
    assert now - before >= datetime.timedelta(hours=1)
    assert api.call("POST", "clock", {"advance_ms": 0})[0] == 400
    assert api.call("POST", "clock", {"advance_ms": 1}, headers={"Authorization": ""})[0] == 401


@pytest.mark.local_store("bytes of its files")
def test_the_overview_shows_waiting_messages_and_resources(start_daemon):
    daemon = start_daemon('[[queues]]\nname = "q"\n')
    api = Api(daemon)
    with client_of(daemon) as client, client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        held = []
        while len(held) < 2:
            held += receiver.receive_messages(max_message_count=2 - len(held), max_wait_time=20)
        receiver.defer_message(held[0])
        # The figures are up to a second old.
        deadline = time.monotonic() + 60
        while (overview := api.get("overview"))["messages"]["deferred"] == 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        messages, storage = overview["messages"], overview["storage"]
        assert (messages["active"], messages["locked"], messages["deferred"]) == (3, 1, 1)
        assert overview["oldest_message_age_ms"] is not None
        assert 0 < storage["live_bytes"] <= storage["allocated_bytes"] and storage["free_bytes"] > 0


def test_nothing_is_shown_without_a_key(api):
    for headers in ({"Authorization": ""}, {"Authorization": signature("http://localhost/", key="wrong")}):
        for route in ("session", "overview", "entities"):
            status, refused = api.call("GET", route, headers=headers)
            assert status == 401, route
            assert refused["error"]["code"].startswith("token-"), refused
    session = api.get("session")
    assert (session["principal"], session["rights"]) == ("RootManageSharedAccessKey", ["Manage", "Send", "Listen"])


def test_requests_of_other_sites_are_refused(api):
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        assert api.request("GET", "/$api/v1/overview", headers={"Origin": origin}).status == 403, origin


def test_the_console_is_a_page_unless_an_entity_is_meant(api, daemon):
    # A request with a token is for an entity.
    assert api.request("GET", "/console/").status == 200
    status, headers, body = get(daemon, "/console/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert b"<script" in body
    assert b"<script" not in api.request("GET", "/console/").body
    assert get(daemon, "/console")[0] == 308
    assert get(daemon, "/console/none.js")[0] == 404
    assert get(daemon, "/console?api-version=2021-05")[0] == 401


def test_the_console_can_be_turned_off(start_daemon):
    daemon = start_daemon(config="[console]\nenabled = false\n")
    assert Api(daemon).get("session")["tier"] == "Premium"
    assert [get(daemon, path)[0] for path in ("/console", "/console/", "/console/app.js")] == [404] * 3


def one_connection(api, search: str):
    """The connection that a search finds, as soon as there is exactly one with these links."""
    return wait_for(lambda: only(api.pages("connections", "connections", search=search)))


def only(found: list):
    return found[0] if len(found) == 1 else None


def wait_for(condition, seconds: int = 60):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("transport", [TransportType.Amqp, TransportType.AmqpOverWebsocket])
def test_connections_of_the_sdk_are_shown_with_their_links(api, daemon, queue, transport):
    options = {"transport_type": transport}
    if transport is TransportType.AmqpOverWebsocket:
        options["custom_endpoint_address"] = f"http://127.0.0.1:{daemon.http_port}"
    with ServiceBusClient.from_connection_string(daemon.connection_string, **options) as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue, prefetch_count=5) as receiver:
            sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
            received = []
            while len(received) < 2:
                received += receiver.receive_messages(max_message_count=2, max_wait_time=20)
            # The SDK opens a connection for each of them.
            found = wait_for(lambda: pair(api, queue))
            sending = next(one for one in found if one["figures"]["messages_in"])
            receiving = next(one for one in found if one["figures"]["messages_out"])
            for one in found:
                assert one["transport"] == ("amqp" if transport is TransportType.Amqp else "websocket")
                assert one["figures"]["identities"] == [{"credential": "rule", "name": "RootManageSharedAccessKey"}]
                assert (one["product"], one["tls"]) == ("azsdk-python-servicebus", False) or one["user_agent"]
                assert one["address"].startswith("127.0.0.1:") and one["container_id"]
            assert receiving["figures"]["messages_out"] == 2 == receiving["figures"]["unsettled"]
            shown = api.get("connection", id=receiving["id"])
            link = next(link for link in shown["links"] if link["purpose"] == "receive")
            assert (link["entity"], link["direction"], link["messages"], link["unsettled"]) == (queue, "out", 2, 2)
            # Locks name the receiver, and the receiver is a link of this connection.
            assert {lock["receiver"] for lock in api.pages("locks", "locks", path=queue)} == {link["receiver"]}
            assert any(link["purpose"] == "tokens" for link in shown["links"])
            shown = api.get("connection", id=sending["id"])
            [link] = [link for link in shown["links"] if link["purpose"] == "send"]
            assert (link["entity"], link["direction"]) == (queue, "in")
            for message in received:
                receiver.complete_message(message)
            wait_for(lambda: api.get("connection", id=receiving["id"])["figures"]["unsettled"] == 0)
    wait_for(lambda: not api.pages("connections", "connections", search=queue))


def pair(api, queue):
    found = api.pages("connections", "connections", search=queue)
    return found if len(found) == 2 and all(one["figures"] for one in found) else None


def test_the_sdk_goes_on_after_its_connection_was_closed(api, daemon, queue):
    with client_of(daemon) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        before = one_connection(api, queue)
        status, _ = api.call("DELETE", "connection", id=before["id"])
        # The SDK reads only when it is used: the connection is cut soon if it has not answered.
        assert status in (202, 204)
        wait_for(lambda: before["id"] not in [one["id"] for one in api.pages("connections", "connections")])
        status, refused = api.call("DELETE", "connection", id=before["id"])
        assert (status, refused["error"]["code"]) == (404, "entity-not-found")
    with ServiceBusClient.from_connection_string(daemon.connection_string) as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            sender.send_messages(ServiceBusMessage("during"))
            receiver.receive_messages(max_wait_time=20)
            for one in wait_for(lambda: pair(api, queue)):
                assert api.call("DELETE", "connection", id=one["id"])[0] in (202, 204)
            sender.send_messages(ServiceBusMessage("after"))
            bodies = set()
            while "after" not in bodies:
                bodies |= {str(message) for message in receiver.receive_messages(max_wait_time=20)}
    audited = [line for line in api.get("log", kind="audit")["lines"] if line["fields"]["operation"] == "close-connection"]
    assert any(before["id"] in line["fields"]["entity"] for line in audited)


def test_a_peer_that_vanishes_or_never_authenticates_leaves_the_list(api, daemon):
    def connected(container_id: str) -> list:
        return api.pages("connections", "connections", search=container_id)

    name = f"raw-{uuid.uuid4()}"
    # Protocol header, and an open with this container-id.
    encoded = name.encode()
    fields = b"\xa1" + bytes([len(encoded)]) + encoded
    body = b"\x00\x53\x10\xc0" + bytes([len(fields) + 1, 1]) + fields
    frame = (len(body) + 8).to_bytes(4) + b"\x02\x00\x00\x00" + body
    sasl_init = b"\x00\x53\x41\xc0\x0c\x01\xa3\x09ANONYMOUS"
    sasl = (len(sasl_init) + 8).to_bytes(4) + b"\x02\x01\x00\x00" + sasl_init
    with contextlib.closing(socket.create_connection(("127.0.0.1", daemon.amqp_port))) as peer:
        peer.sendall(b"AMQP\x03\x01\x00\x00" + sasl + b"AMQP\x00\x01\x00\x00" + frame)
        [shown] = wait_for(lambda: connected(name))
        assert shown["figures"]["identities"] == [] and shown["figures"]["links"] == 0
        # No close: the socket is reset.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    wait_for(lambda: not connected(name))
