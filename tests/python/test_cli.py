"""The command line together with the official SDK: each sees the effects of the other."""

import contextlib
import datetime
import fcntl
import http.server
import json
import os
import queue as queue_module
import struct
import subprocess
import termios
import threading
import time
import uuid

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.management import SqlRuleAction, SqlRuleFilter

from administration import administration_client
from daemon import binary

DEAD_LETTER = ServiceBusSubQueue.DEAD_LETTER
LOCAL = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={key};UseDevelopmentEmulator=true;"


class Cli:
    """The binary with the connection string of a daemon."""

    def __init__(self, connection_string: str):
        self.connection_string = connection_string

    def run(self, *arguments, status: int = 0, input: str | None = None) -> subprocess.CompletedProcess:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
        environment["PEEKLOCK_CONNECTION"] = self.connection_string
        command = [str(binary()), *map(str, arguments)]
        done = subprocess.run(command, env=environment, input=input, capture_output=True, text=True, timeout=120)
        assert done.returncode == status, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done

    def text(self, *arguments, **options) -> str:
        return self.run(*arguments, **options).stdout

    def json(self, *arguments, **options) -> list:
        return [json.loads(line) for line in self.text(*arguments, "--json", **options).splitlines()]

    def bodies(self, *arguments) -> list[str]:
        return [message["body"]["text"] for message in self.json(*arguments)]


@pytest.fixture
def cli(daemon):
    return Cli(daemon.connection_string)


@pytest.fixture
def client(daemon):
    with ServiceBusClient.from_connection_string(daemon.connection_string, retry_total=0) as client:
        yield client


@pytest.fixture
def admin(daemon):
    return administration_client(daemon)


def send(client, queue, *messages):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(m) if isinstance(m, str) else m for m in messages])


def receive(client, queue, count, **options) -> list:
    with client.get_queue_receiver(queue, **options) as receiver:
        found = []
        while len(found) < count:
            came = receiver.receive_messages(max_message_count=count - len(found), max_wait_time=30)
            assert came, f"{len(found)} of {count} came"
            for message in came:
                receiver.complete_message(message)
            found += came
        return found


def dead_letter(client, queue, *bodies, reason="Bad"):
    send(client, queue, *bodies)
    with client.get_queue_receiver(queue) as receiver:
        left = len(bodies)
        while left:
            for message in receiver.receive_messages(max_message_count=left, max_wait_time=30):
                receiver.dead_letter_message(message, reason=reason, error_description="no good")
                left -= 1


def test_peek_shows_every_property_of_a_message_sent_by_the_sdk(cli, client, queue):
    identity = uuid.uuid4()
    message = ServiceBusMessage(
        '{"a": 1}',
        message_id="id",
        correlation_id="correlation",
        subject="subject",
        content_type="application/json",
        to="to",
        reply_to="reply",
        reply_to_session_id="reply session",
        partition_key="session",
        session_id="session",
        time_to_live=datetime.timedelta(hours=1),
        application_properties={"text": "ä", "number": 5, "flag": True, "half": 0.5, "uuid": identity},
    )
    send(client, queue, message)
    [shown] = cli.json("peek", queue)
    expected = {
        "sequence_number": "1",
        "state": "active",
        "delivery_count": 0,
        "message_id": "id",
        "correlation_id": "correlation",
        "subject": "subject",
        "content_type": "application/json",
        "to": "to",
        "reply_to": "reply",
        "reply_to_session_id": "reply session",
        "partition_key": "session",
        "session_id": "session",
        "time_to_live_ms": 3_600_000,
        "body": {"kind": "data", "bytes": 8, "truncated": False, "text": '{"a": 1}'},
    }
    assert {key: shown[key] for key in expected} == expected
    properties = {name: one["value"] for name, one in shown["properties"].items()}
    assert properties == {"text": "ä", "number": 5, "flag": True, "half": 0.5, "uuid": str(identity)}
    assert shown["properties"]["uuid"]["type"] == "uuid"
    assert shown["expires_at"] > shown["enqueued_at"]


def test_the_sdk_receives_messages_of_the_command_send(cli, client, queue):
    arguments = ["--body", "hello", "--id", "7", "--subject", "greeting", "--content-type", "text/plain"]
    arguments += ["--correlation-id", "c", "--to", "t", "--reply-to", "r", "--ttl", "10m", "--partition-key", "k"]
    arguments += ["--prop", "region=eu", "--prop", "amount:int=5", "--prop", "ok:bool=true"]
    assert "sent 1 message" in cli.text("send", queue, *arguments)
    [message] = receive(client, queue, 1)
    assert b"".join(message.body) == b"hello"
    assert (message.message_id, message.subject, message.content_type) == ("7", "greeting", "text/plain")
    assert (message.correlation_id, message.to, message.reply_to) == ("c", "t", "r")
    assert (message.time_to_live, message.partition_key) == (datetime.timedelta(minutes=10), "k")
    assert message.application_properties == {b"region": b"eu", b"amount": 5, b"ok": True}


def test_a_body_comes_from_a_file_or_from_standard_input(cli, client, queue, tmp_path):
    (tmp_path / "body").write_bytes(b"\xff\x00")
    cli.run("send", queue, "--body", f"@{tmp_path / 'body'}")
    cli.run("send", queue, "--body", "@-", input="from a pipe")
    assert [b"".join(message.body) for message in receive(client, queue, 2)] == [b"\xff\x00", b"from a pipe"]


def test_many_messages_are_sent_and_shown(cli, queue):
    assert cli.json("send", queue, "--body", "x", "--repeat", 700)[0]["sent"] == 700
    assert len(cli.json("peek", queue, "--all")) == 700
    assert len(cli.json("peek", queue)) == 20
    assert [m["sequence_number"] for m in cli.json("peek", queue, "--from", 690, "-n", 2)] == ["690", "691"]


def test_a_condition_in_the_sql_of_rules_chooses(cli, client, queue):
    for amount in range(6):
        send(client, queue, ServiceBusMessage(str(amount), application_properties={"amount": amount}))
    assert cli.bodies("peek", queue, "--where", "amount >= 4") == ["4", "5"]
    assert cli.bodies("peek", queue, "--seq", "2,3") == ["1", "2"]
    failed = cli.run("peek", queue, "--where", "amount >", status=2)
    assert "SQL" in failed.stderr


def test_scheduled_messages_wait(cli, client, queue):
    [answer] = cli.json("send", queue, "--body", "later", "--in", "1h")
    [shown] = cli.json("peek", queue, "--state", "scheduled")
    assert [shown["sequence_number"]] == answer["sequence_numbers"]
    assert shown["state"] == "scheduled" and shown["scheduled_for"] > shown["enqueued_at"]
    assert cli.json("peek", queue, "--state", "active") == []
    assert cli.json("purge", queue, "--state", "scheduled", "--dry-run")[0]["deleted"] == 1
    assert cli.json("purge", queue, "--state", "scheduled")[0]["deleted"] == 1
    assert cli.json("peek", queue) == []


def test_receive_settles_as_requested(cli, client, queue):
    send(client, queue, "a", "b", "c", "d", "e")
    assert cli.bodies("receive", queue) == ["a"]
    assert cli.bodies("receive", queue, "--dead-letter", "--reason", "R", "--description", "D") == ["b"]
    assert cli.bodies("receive", queue, "--defer") == ["c"]
    assert cli.bodies("receive", queue, "-n", 2, "--abandon") == ["d", "e"]
    assert cli.bodies("receive", queue, "-n", 1, "--delete") == ["d"]
    [left] = cli.json("peek", queue, "--state", "active")
    assert left["body"]["text"] == "e" and left["delivery_count"] == 1
    [dead] = cli.json("peek", f"{queue}/$dlq")
    assert dead["dead_letter"] == {"reason": "R", "description": "D", "source": None}
    [deferred] = cli.json("peek", queue, "--state", "deferred")
    assert deferred["body"]["text"] == "c"
    assert cli.json("receive", queue, "--all", "--wait", "0s")[0]["body"]["text"] == "e"
    assert cli.json("receive", queue, "--wait", "0s") == []


def test_receive_takes_everything_in_batches(cli, client, queue):
    send(client, queue, *[f"{n}" for n in range(250)])
    assert len(cli.json("receive", queue, "--all", "--wait", "0s")) == 250
    assert cli.json("peek", queue) == []


def into(cli, output, *arguments) -> subprocess.CompletedProcess:
    """Runs a command whose standard output is `output`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
    environment["PEEKLOCK_CONNECTION"] = cli.connection_string
    command = [str(binary()), *map(str, arguments)]
    return subprocess.run(command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120)


@pytest.fixture
def full_disk():
    with open("/dev/full", "w") as device:
        yield device


@pytest.fixture
def ended_reader():
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("output", ["full_disk", "ended_reader"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_messages_that_could_not_be_printed_are_not_completed(cli, client, queue, output, form, request):
    send(client, queue, "a", "b")
    done = into(cli, request.getfixturevalue(output), "receive", queue, "-n", "2", *form)
    assert done.returncode == 1 and "standard output can't be written" in done.stderr, done
    assert "delivered again" in done.stderr
    assert cli.bodies("peek", queue) == ["a", "b"]


def test_a_result_that_could_not_be_printed_is_a_failure(cli, queue, full_disk):
    for command in [["export"], ["ls"], ["peek", queue, "--all", "--json"], ["completions", "bash"]]:
        cli.text("send", queue, "--body", "x")
        done = into(cli, full_disk, *command)
        assert done.returncode == 1 and "No space left on device" in done.stderr, done


def test_commands_that_follow_end_with_the_reader_of_their_output(cli, queue, ended_reader):
    cli.text("send", queue, "--body", "x")
    for command in [["tail", queue, "-n", "1"], ["peek", queue, "--follow"], ["ls", "--watch"], ["top"], ["tail", "--log", "-n", "1"]]:
        done = into(cli, ended_reader, *command)
        assert (done.returncode, done.stderr) == (0, ""), done


def test_dead_letters_go_back_once_with_their_properties(cli, client, queue):
    bodies = [f"{n}" for n in range(120)]
    dead_letter(client, queue, *bodies)
    sent = ServiceBusMessage("with properties", message_id="own", subject="s", application_properties={"p": 1})
    dead_letter(client, queue, sent, reason="Other")
    [shown] = cli.json("resubmit", queue, "--where", "DeadLetterReason = 'Other'", "--dry-run")[-1:]
    assert shown["done"] == 1 and shown["dry_run"]
    assert len(cli.json("peek", f"{queue}/$dlq", "--all")) == 121
    assert cli.json("resubmit", queue, "--where", "DeadLetterReason = 'Other'", "--keep-id")[-1]["done"] == 1
    [message] = receive(client, queue, 1)
    assert (message.message_id, message.subject, message.delivery_count) == ("own", "s", 0)
    assert message.application_properties == {b"p": 1}
    # Messages that were held meanwhile are available again, and no delivery was counted.
    left = cli.json("peek", f"{queue}/$dlq", "--all")
    assert len(left) == 120 and {message["delivery_count"] for message in left} == {0}
    assert cli.json("resubmit", queue)[-1]["done"] == 120
    assert cli.json("peek", f"{queue}/$dlq") == []
    assert [b"".join(m.body).decode() for m in receive(client, queue, 120)] == bodies
    assert cli.json("resubmit", queue)[-1]["done"] == 0


def test_dead_letters_go_elsewhere_in_one_transaction(cli, client, queues):
    source, target = queues.take(), queues.take()
    dead_letter(client, source, "a", "b", "c")
    assert cli.json("resubmit", source, "--seq", 2, "--to", target)[-1]["done"] == 1
    assert cli.bodies("peek", target) == ["b"]
    assert cli.bodies("peek", f"{source}/$dlq") == ["a", "c"]
    assert cli.json("move", f"{source}/$dlq", target)[-1]["done"] == 2
    assert cli.bodies("peek", target) == ["b", "a", "c"]


def test_a_killed_resubmission_loses_and_doubles_nothing(cli, client, queues):
    queue = queues.take("brief_lock")
    bodies = [f"{n}" for n in range(300)]
    send(client, queue, *bodies)
    assert len(cli.json("receive", queue, "--all", "--wait", "0s", "--dead-letter")) == 300
    environment = os.environ | {"PEEKLOCK_CONNECTION": cli.connection_string}
    killed = subprocess.Popen([str(binary()), "resubmit", queue], env=environment, stdout=subprocess.DEVNULL)
    while killed.poll() is None and cli.json("show", queue)[0]["counts"]["active"] == 0:
        pass
    killed.kill()
    killed.wait()
    deadline = time.monotonic() + 60
    while cli.json("peek", f"{queue}/$dlq"):
        assert time.monotonic() < deadline
        # Messages locked by the killed command stay until those locks end; the exit code says so.
        subprocess.run([str(binary()), "resubmit", queue], env=environment, capture_output=True, timeout=60)
    assert sorted(cli.bodies("peek", queue, "--all"), key=int) == bodies


def test_a_missing_destination_is_found_before_anything_moves(cli, client, queue):
    dead_letter(client, queue, "a")
    failed = cli.run("resubmit", queue, "--to", "absent", status=1)
    assert "absent" in failed.stderr and "peeklock ls" in failed.stderr
    assert cli.json("resubmit", queue)[-1]["done"] == 1


def test_messages_locked_by_a_receiver_stay(cli, client, queue):
    dead_letter(client, queue, "a", "b")
    with client.get_queue_receiver(queue, sub_queue=DEAD_LETTER) as receiver:
        [held] = receiver.receive_messages(max_message_count=1, max_wait_time=30)
        failed = cli.run("resubmit", queue, "--json", status=1)
        assert json.loads(failed.stdout)["done"] == 1
        assert json.loads(failed.stdout)["skipped"][0]["sequence_number"] == "1"
        receiver.complete_message(held)
    assert cli.bodies("peek", queue) == ["b"]


def test_a_dead_letter_of_a_subscription_goes_to_its_topic(cli, client, topic):
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("news"))
    with client.get_subscription_receiver(topic, "one") as receiver:
        [message] = receiver.receive_messages(max_message_count=1, max_wait_time=30)
        receiver.dead_letter_message(message, reason="Bad")
    assert cli.json("resubmit", f"{topic}/Subscriptions/one")[-1]["done"] == 1
    assert cli.bodies("peek", f"{topic}/Subscriptions/one") == ["news"]
    assert cli.bodies("peek", f"{topic}/Subscriptions/two") == ["news", "news"]


def test_deferred_messages_become_available(cli, client, queue):
    send(client, queue, "a", "b")
    cli.run("receive", queue, "-n", 2, "--defer")
    assert cli.json("undefer", queue, "--seq", 2)[-1]["done"] == 1
    assert cli.json("undefer", queue, "--dry-run")[-1]["done"] == 1
    assert cli.bodies("peek", queue, "--state", "active") == ["b"]
    assert cli.json("undefer", queue)[-1]["done"] == 1
    assert [b"".join(m.body) for m in receive(client, queue, 2)] == [b"b", b"a"]


def test_messages_of_a_session_are_moved_and_made_available(cli, queues):
    queue, target = queues.take("session"), queues.take("session")
    for session, body in [("red", "a"), ("red", "b"), ("red", "c"), ("blue", "d")]:
        cli.run("send", queue, "--body", body, "--session", session)
    cli.run("receive", queue, "--session", "red", "-n", 2, "--defer")
    assert cli.json("undefer", queue, "--session", "blue", "--dry-run")[-1]["done"] == 0
    assert cli.json("undefer", queue, "--session", "red", "--seq", 2)[-1]["done"] == 1
    assert cli.json("undefer", queue, "--session", "red")[-1]["done"] == 1
    assert cli.bodies("peek", queue, "--session", "red") == ["c", "b", "a"]
    # Messages that are not selected are released, and keep their place.
    assert cli.json("move", queue, target, "--session", "red", "--where", "sys.SequenceNumber > 3")[-1]["done"] == 2
    assert cli.bodies("receive", target, "--session", "red", "-n", 2) == ["b", "a"]
    assert cli.bodies("receive", queue, "--session", "red") == ["c"]
    assert cli.bodies("receive", queue, "--session", "blue") == ["d"]
    assert "--session" in cli.run("move", f"{queue}/$dlq", target, "--session", "red", status=2).stderr


def test_purge_reaches_into_a_session(cli, queues):
    queue = queues.take("session")
    for session in ["red", "blue"]:
        for number in range(3):
            cli.run("send", queue, "--body", f"{session}-{number}", "--session", session)
        cli.run("receive", queue, "--session", session, "-n", 2, "--defer")
        cli.run("send", queue, "--body", "later", "--session", session, "--in", "1h")
    for command in ["purge", "undefer"]:
        options = ["--state", "deferred"] if command == "purge" else []
        assert "session" in cli.run(command, queue, *options, status=1).stderr
    in_red = ["purge", queue, "--session", "red"]
    assert cli.json(*in_red, "--state", "deferred", "--seq", 1, "--dry-run")[-1]["deleted"] == 1
    assert cli.json(*in_red, "--state", "deferred", "--seq", 1)[-1] == {"deleted": 1, "dry_run": False, "left": 0}
    assert cli.json(*in_red, "--state", "deferred")[-1]["deleted"] == 1
    assert cli.json(*in_red, "--state", "scheduled")[-1]["deleted"] == 1
    assert cli.json(*in_red, "--where", "sys.SequenceNumber > 100")[-1]["deleted"] == 0
    assert cli.json(*in_red)[-1]["deleted"] == 1
    assert cli.bodies("peek", queue, "--session", "red") == []
    assert sorted(cli.bodies("peek", queue, "--session", "blue")) == ["blue-0", "blue-1", "blue-2", "later"]
    assert "--session" in cli.run("purge", f"{queue}/$dlq", "--session", "red", status=2).stderr


def test_a_session_that_is_held_is_left_alone(cli, client, queues):
    queue, target = queues.take("session"), queues.take("session")
    cli.run("send", queue, "--body", "a", "--session", "red")
    with client.get_queue_receiver(queue, session_id="red"):
        failed = cli.run("move", queue, target, "--session", "red", status=1)
    assert "session" in failed.stderr
    assert cli.bodies("peek", queue, "--session", "red") == ["a"]


def test_deferred_messages_of_a_subscription_do_not_go_to_its_topic_unasked(cli, client, topic):
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("news"))
    one = f"{topic}/Subscriptions/one"
    cli.run("receive", one, "--defer")
    for address in [one, f"{one}/$dlq", f"{topic}/Subscriptions/two/$dlq"]:
        assert "--to" in cli.run("undefer", address, status=2).stderr
    assert cli.bodies("peek", one, "--state", "deferred") == ["news"]
    assert cli.bodies("peek", f"{topic}/Subscriptions/two") == ["news"]


def test_commands_for_whole_entities_refuse_dead_letter_queues(cli, client, topic, queue):
    send(client, queue, "kept")
    one = f"{topic}/Subscriptions/one"
    for inside in [f"{queue}/$dlq", f"{queue}/$transfer", f"{one}/$DeadLetterQueue"]:
        entity = inside.rsplit("/", 1)[0]
        for command in [["delete"], ["delete", "--dry-run"], ["show"], ["update"], ["rule", "ls"], ["rule", "test"]]:
            options = ["max_delivery_count=3"] if command == ["update"] else []
            assert f"write {entity}" in cli.run(*command, inside, *options, status=2).stderr
    assert "whole entity" in cli.run("create", "queue", "new/$dlq", status=2).stderr
    assert "whole entity" in cli.run("rule", "rm", f"{one}/$dlq", "$Default", status=2).stderr
    assert cli.bodies("peek", queue) == ["kept"]


def test_dead_letters_are_no_scheduled_messages(cli, client, topic):
    with client.get_topic_sender(topic) as sender:
        sender.schedule_messages(ServiceBusMessage("later"), datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
        sender.send_messages(ServiceBusMessage("dead"))
    with client.get_subscription_receiver(topic, "one") as receiver:
        [message] = receiver.receive_messages(max_message_count=1, max_wait_time=30)
        receiver.dead_letter_message(message)
    dead = f"{topic}/Subscriptions/one/$dlq"
    for options in [[], ["--dry-run"]]:
        assert "no scheduled messages" in cli.run("purge", dead, "--state", "scheduled", *options, status=2).stderr
    assert cli.bodies("peek", dead) == ["dead"]
    assert cli.json("show", topic)[0]["counts"]["scheduled"] == 1


def test_an_export_names_entities_that_a_file_cannot_have(cli, admin, topic):
    action = SqlRuleAction("SET a = @p", parameters={"@p": 2})
    admin.create_rule(topic, "one", "both", filter=SqlRuleFilter("a = @p", parameters={"@p": 1}), action=action)
    failed = cli.run("export", topic, status=1)
    assert "rule both" in failed.stderr and "@p" in failed.stderr and 'name = "both"' in failed.stdout


def test_purge_deletes_only_the_selected_messages(cli, client, queue):
    send(client, queue, *[ServiceBusMessage(f"{n}", subject="even" if n % 2 == 0 else "odd") for n in range(10)])
    assert cli.json("purge", queue, "--where", "sys.Label = 'odd'", "--dry-run")[0]["deleted"] == 5
    assert cli.json("purge", queue, "--where", "sys.Label = 'odd'")[0]["deleted"] == 5
    left = cli.json("peek", queue)
    assert [m["subject"] for m in left] == ["even"] * 5 and {m["delivery_count"] for m in left} == {0}
    assert cli.json("purge", queue)[0]["deleted"] == 5
    assert cli.json("peek", queue) == []
    dead_letter(client, queue, "x")
    assert cli.json("purge", f"{queue}/$dlq")[0]["deleted"] == 1


def test_sessions_are_listed_shown_cleared_and_purged(cli, client, queues):
    queue = queues.take("session")
    for session in ["red", "blue"]:
        cli.run("send", queue, "--body", session, "--session", session)
    with client.get_queue_receiver(queue, session_id="red") as receiver:
        receiver.session.set_state("half way")
    assert sorted(one["id"] for one in cli.json("sessions", "ls", queue)) == ["blue", "red"]
    assert cli.json("sessions", "show", queue, "red")[0]["state"] == "half way"
    cli.run("sessions", "clear", queue, "red", "--dry-run")
    assert cli.json("sessions", "show", queue, "red")[0]["state"] == "half way"
    cli.run("sessions", "clear", queue, "red")
    assert cli.json("sessions", "show", queue, "red")[0]["state"] is None
    assert cli.bodies("receive", queue, "--session", "red") == ["red"]
    assert cli.bodies("peek", queue, "--session", "blue") == ["blue"]
    assert cli.json("purge", queue)[0]["deleted"] == 1
    assert cli.json("receive", queue, "--next-session", "--wait", "0s") == []


def test_entities_are_created_changed_and_deleted(cli, admin):
    queue, topic = f"cli-{uuid.uuid4()}", f"cli-{uuid.uuid4()}"
    cli.run("create", "queue", queue, "lock_duration=PT30S", "RequiresSession=true", "max_delivery_count=3")
    found = admin.get_queue(queue)
    assert (found.lock_duration, found.requires_session, found.max_delivery_count) == (
        datetime.timedelta(seconds=30),
        True,
        3,
    )
    cli.run("update", queue, "max_delivery_count=4")
    found = admin.get_queue(queue)
    assert (found.lock_duration, found.max_delivery_count) == (datetime.timedelta(seconds=30), 4)
    assert "has these values already" in cli.text("update", queue, "max_delivery_count=4")
    cli.run("create", "topic", topic)
    cli.run("create", "subscription", f"{topic}/Subscriptions/one")
    rows = cli.json("ls", f"{topic}*")
    assert [row["path"] for row in rows] == [topic, f"{topic}/Subscriptions/one"]
    assert cli.json("show", queue)[0]["options"]["MaxDeliveryCount"] == "4"
    cli.run("delete", queue, "--dry-run")
    assert cli.json("show", queue)
    cli.run("delete", queue)
    assert "does not exist" in cli.run("show", queue, status=1).stderr
    cli.run("delete", topic)
    assert cli.text("ls", topic) == ""


def test_rules_are_added_listed_and_removed(cli, client, admin, topic):
    path = f"{topic}/Subscriptions/one"
    cli.run("rule", "add", path, "eu", "--sql", "region = 'eu'", "--action", "SET seen = TRUE")
    cli.run("rule", "add", path, "red", "--correlation", "label=red", "--correlation", "amount:int=5")
    cli.run("rule", "rm", path, "$Default", "--dry-run")
    cli.run("rule", "rm", path, "$Default")
    assert [rule.name for rule in admin.list_rules(topic, "one")] == ["eu", "red"]
    assert [rule["name"] for rule in cli.json("rule", "ls", path)] == ["eu", "red"]
    cli.run("send", topic, "--prop", "region=eu")
    cli.run("send", topic, "--prop", "region=us")
    cli.run("send", topic, "--subject", "red", "--prop", "amount:int=5")
    shown = cli.json("peek", path)
    assert len(shown) == 2 and shown[0]["properties"]["seen"]["value"] is True
    assert "SQL" in cli.run("rule", "add", path, "bad", "--sql", "region =", status=2).stderr


def test_export_and_apply_are_inverse_and_idempotent(cli, start_daemon, tmp_path):
    config = """
[[queues]]
name = "orders"
lock_duration = "PT30S"
forward_dead_lettered_messages_to = "zz"
[[queues]]
name = "zz"
max_delivery_count = 3
[[topics]]
name = "news"
[[topics.subscriptions]]
name = "all"
[[topics.subscriptions]]
name = "none"
rules = []
[[topics.subscriptions]]
name = "eu"
[[topics.subscriptions.rules]]
name = "a"
sql = "region = 'eu'"
action = "SET seen = TRUE"
[[topics.subscriptions.rules]]
name = "b"
correlation = { label = "x", properties = { zone = 1, amount = 5 } }
[[topics.subscriptions.rules]]
name = "typed"
correlation = { properties = { d = { type = "duration", value = "PT1H" }, n = { type = "null" } } }
[[topics.subscriptions.rules]]
name = "typed_sql"
sql = "id = @id AND price > @least"
[topics.subscriptions.rules.parameters]
"@id" = { type = "guid", value = "0f8fad5b-d9cb-469f-a165-70867728950e" }
"@least" = { type = "decimal", value = "1.50" }
"""
    source, target = Cli(start_daemon(config).connection_string), Cli(start_daemon("# Nothing is declared.\n").connection_string)
    exported = source.text("export")
    file = tmp_path / "entities.toml"
    file.write_text(exported)
    assert "nothing to change" in source.text("apply", file)
    assert "+ queue orders" in target.text("apply", file, "--diff")
    assert target.text("export") == ""
    changes = target.json("apply", file)
    assert all(change["applied"] for change in changes)
    assert "nothing to change" in target.text("apply", file)
    assert target.text("export") == exported
    file.write_text(exported.replace('lock_duration = "PT30S"', 'lock_duration = "PT45S"').replace("region = 'eu'", "region = 'us'"))
    [rule, queue] = sorted(target.json("apply", file, "--diff"), key=lambda change: change["change"])
    assert queue["details"] == ['lock_duration: "PT30S" -> "PT45S"']
    assert (rule["change"], rule["path"]) == ("replace rule", "news/Subscriptions/eu")
    target.run("apply", file)
    assert target.text("export") == file.read_text()
    file.write_text('[[queues]]\nname = "orders"\nrequires_session = true\n')
    failed = target.run("apply", file, status=1)
    assert "requires_session" in failed.stderr and "peeklock delete orders" in failed.stderr
    file.write_text('[[queues]]\nname = "zz"\nmax_delivery_count = 3\n')
    target.run("apply", file, "--prune")
    assert [row["path"] for row in target.json("ls")] == ["zz"]


@pytest.mark.parametrize("tier", ["standard", "basic"])
def test_entities_of_lower_tiers_are_created_changed_and_applied(start_daemon, tmp_path, tier):
    """The sizes of a namespace depend on its tier, which refuses others."""
    cli = Cli(start_daemon(f'[namespace]\nname = "shop"\ntier = "{tier}"\n').connection_string)
    cli.run("create", "queue", "made", "enable_partitioning=true")
    cli.run("update", "made", "max_delivery_count=4")
    refused = cli.run("create", "queue", "bad", "max_size_in_megabytes=81920", status=2)
    assert f'must be one of 1024, 2048, 3072, 4096, 5120 in the tier "{tier}"' in refused.stderr
    file = tmp_path / "entities.toml"
    file.write_text('[[queues]]\nname = "applied"\nmax_size_in_megabytes = 2048\n')
    assert "+ queue applied" in cli.text("apply", file)
    assert "nothing to change" in cli.text("apply", file)
    file.write_text(cli.text("export"))
    cli.run("delete", "made")
    assert "+ queue made" in cli.text("apply", file)
    assert "nothing to change" in cli.text("apply", file)


def test_a_token_opens_its_resource(cli, daemon, queue):
    import urllib.error
    import urllib.request

    def post(token: str, to: str) -> int:
        url = f"http://127.0.0.1:{daemon.http_port}/{to}/messages"
        request = urllib.request.Request(url, b"hello", {"Authorization": token}, method="POST")
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
        return 401

    token = cli.text("token", queue).strip()
    assert post(token, queue) == 201
    assert post(token, "another") == 401
    # The short names of the command line differ from the brokers' names of subqueues.
    assert post(cli.text("token", f"{queue}/$dlq").strip(), queue) == 201
    assert cli.bodies("peek", queue) == ["hello", "hello"]


def test_errors_give_advice(cli, daemon, queue):
    absent = f"absent-{uuid.uuid4()}"
    for command in [["peek", absent], ["receive", absent], ["send", absent], ["show", absent], ["purge", absent]]:
        failed = cli.run(*command, status=1)
        assert absent in failed.stderr and "peeklock ls" in failed.stderr, failed.stderr
        assert failed.stdout == ""
    wrong_key = Cli(f"Endpoint=sb://localhost:{daemon.amqp_port};" + LOCAL.format(key="wrong"))
    for command in [["peek", queue], ["ls"], ["send", queue]]:
        failed = wrong_key.run(*command, status=1)
        assert "SharedAccessKey" in failed.stderr and "wrong" not in failed.stderr, failed.stderr
    nobody = Cli("Endpoint=sb://localhost:1;" + LOCAL.format(key="x"))
    for command in [["peek", queue], ["ls"]]:
        failed = nobody.run(*command, status=1)
        assert "can't connect to localhost:1" in failed.stderr and "--connection" in failed.stderr
    rubbish = Cli("rubbish").run("ls", status=2)
    assert "Endpoint=sb://" in rubbish.stderr


def test_bad_input_is_refused_before_anything_is_sent(cli, queue):
    for arguments in [
        ["send", queue, "--prop", "nothing"],
        ["send", queue, "--prop", "a:double=1e400"],
        ["send", queue, "--ttl", "soon"],
        ["send", queue, "--ttl", "0s"],
        ["send", queue, "--body", "@/does/not/exist"],
        ["send", queue, "--repeat", 0],
        ["receive", queue, "--complete", "--abandon"],
        ["receive", queue, "--reason", "x"],
        ["peek", "$cbs"],
        ["token", "$cbs"],
        ["token", f"{queue}/$nothing"],
        ["token", queue, "--for", "0s"],
        ["create", "queue", "a", "lock_duraton=PT1M"],
        ["create", "queue", "a", "lock_duration=PT1H"],
        ["create", "subscription", "a"],
        ["rule", "ls", queue],
        ["apply", "/does/not/exist.toml"],
        ["move", queue, queue],
    ]:
        failed = cli.run(*arguments, status=2)
        assert failed.stderr and failed.stdout == "", arguments
    assert cli.json("peek", queue) == []
    assert "lock_duration" in cli.run("create", "queue", "a", "lock_duraton=PT1M", status=2).stderr
    assert "such as 10m" in cli.run("token", queue, "--for", "0s", status=2).stderr


def test_over_tls_with_the_ca_of_the_broker(daemon, queue):
    cli = Cli(daemon.connection_string_tls)
    cli.run("send", queue, "--body", "secret", "--ca", daemon.ca)
    assert [m["body"]["text"] for m in cli.json("peek", queue, "--ca", daemon.ca)] == ["secret"]
    assert cli.json("ls", queue, "--ca", daemon.ca)[0]["path"] == queue
    failed = cli.run("peek", queue, status=1)
    assert "--ca FILE" in failed.stderr
    assert "can't be used" in cli.run("peek", queue, "--ca", "/does/not/exist", status=1).stderr


def test_the_ready_file_names_the_broker(daemon, queue):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
    command = [str(binary()), "send", queue, "--body", "x", "--ready-file", str(daemon.ready)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)
    assert Cli(daemon.connection_string).bodies("peek", queue) == ["x"]
    command[-1] = "/does/not/exist"
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1 and "--ready-file" in failed.stderr


def test_control_characters_of_messages_do_not_reach_the_terminal(cli, queue):
    cli.run("send", queue, "--body", "\x1b[2Jbody", "--subject", "\x1b[31mred")
    assert "\x1b" not in cli.text("peek", queue)


def test_rules_are_tried_on_a_message_before_anything_is_sent(cli, topic):
    path = f"{topic}/Subscriptions/one"
    cli.run("rule", "add", path, "eu", "--sql", "region = 'eu'", "--action", "SET seen = TRUE; SET sys.Label = 'x'")
    verdicts = cli.json("rule", "test", topic, "--prop", "region=eu")
    assert {(one["subscription"], one["rule"], one["matches"]) for one in verdicts} == {
        (path, "$Default", True),
        (path, "eu", True),
        (f"{topic}/Subscriptions/two", "$Default", True),
    }
    [changed] = [one["changed"] for one in verdicts if one["rule"] == "eu"]
    assert changed == {"seen": "true", "sys.Label": "x"}
    assert [one["matches"] for one in cli.json("rule", "test", path, "--prop", "region=us")] == [True, False]
    assert cli.json("rule", "test", "--sql", "amount > 3", "--prop", "amount:int=5")[0]["matches"] is True
    assert cli.json("peek", path) == []


def test_throughput_is_measured_with_real_messages(cli, queue):
    assert cli.json("perf", "send", queue, "-n", 1000, "--size", 10)[0]["messages"] == 1000
    assert cli.json("show", queue)[0]["counts"]["active"] == 1000
    assert cli.json("perf", "receive", queue, "-n", 600)[0]["messages"] == 600
    assert cli.json("perf", "receive", queue, "--delete", "--wait", "0s")[0]["messages"] == 400


def test_doctor_names_the_fault_of_the_path_to_the_broker(cli, daemon):
    checks = cli.json("doctor")
    assert all(check["ok"] for check in checks)
    assert {"clock", "storage"} <= {check["check"] for check in checks}
    wrong_key = Cli(f"Endpoint=sb://localhost:{daemon.amqp_port};" + LOCAL.format(key="wrong"))
    failed = [check["check"] for check in wrong_key.json("doctor", status=1) if not check["ok"]]
    assert failed == ["administration over HTTP"]
    nobody = Cli("Endpoint=sb://localhost:1;" + LOCAL.format(key="x"))
    assert "firewall" in nobody.run("doctor", status=1).stdout


def wait_for(condition, seconds: int = 60):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.05)
    return found


class Lines:
    """The output of a running command."""

    def __init__(self, lines: queue_module.Queue):
        self._lines = lines

    def __call__(self) -> str:
        return self._lines.get(timeout=60)

    def soon(self) -> str | None:
        with contextlib.suppress(queue_module.Empty):
            return self._lines.get(timeout=0.5)


@contextlib.contextmanager
def running(cli, *arguments):
    """A command that runs until it is stopped, and the lines of its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")}
    environment["PEEKLOCK_CONNECTION"] = cli.connection_string
    command = [str(binary()), *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = queue_module.Queue()
    reader = threading.Thread(target=lambda: [lines.put(line.rstrip("\n")) for line in process.stdout], daemon=True)
    reader.start()
    try:
        yield Lines(lines)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()


def test_connections_of_the_sdk_are_listed_shown_and_closed(cli, client, queue):
    # One connection for each link in Python.
    with client.get_queue_receiver(queue, prefetch_count=3) as receiver:
        send(client, queue, "a")
        [message] = receiver.receive_messages(max_wait_time=30)
        [found] = wait_for(lambda: [one for one in cli.json("connections", "ls", queue) if one["figures"]["unsettled"]])
        assert found["figures"]["identities"] == [{"credential": "rule", "name": "RootManageSharedAccessKey"}]
        listed = cli.text("connections", "ls", queue)
        assert found["id"] in listed and "RootManageSharedAccessKey" in listed
        [shown] = cli.json("connections", "show", found["id"])
        [link] = [link for link in shown["links"] if link["purpose"] == "receive"]
        assert (link["entity"], link["unsettled"], link["messages"]) == (queue, 1, 1)
        assert queue in cli.text("connections", "show", found["id"])

        [lock] = cli.json("locks", "ls", queue)
        assert (lock["receiver"], lock["connection"]) == (link["receiver"], found["id"])
        assert lock["lock_token"] == str(message.lock_token)
        assert "RootManageSharedAccessKey" in cli.text("locks", "ls", queue)

        assert cli.json("connections", "close", found["id"], "--dry-run")[0]["outcome"] == "would close"
        assert cli.json("connections", "show", found["id"])
        # The Python SDK reads only when it is used; until then the connection is closing, and soon cut.
        [closed] = cli.json("connections", "close", found["id"])
        assert (closed["address"], closed["outcome"] in ("closed", "closing")) == (found["address"], True)
        wait_for(lambda: found["id"] not in cli.text("connections", "ls"))
        gone = cli.run("connections", "close", found["id"], status=1)
        assert "it has ended" in gone.stderr and "peeklock connections ls" in gone.stderr
        assert "it has ended" in cli.run("connections", "show", "0-1", status=1).stderr
        assert "not the id of a connection" in cli.run("connections", "show", "x", status=1).stderr


def test_a_lock_is_released_and_the_message_comes_again(cli, client, queue):
    send(client, queue, "a", "b")
    with client.get_queue_receiver(queue) as receiver:
        messages = []
        while len(messages) < 2:
            messages += receiver.receive_messages(max_message_count=2, max_wait_time=30)
        assert [lock["sequence_number"] for lock in cli.json("locks", "ls", queue)] == ["1", "2"]
        assert "is not locked" in cli.run("locks", "release", queue, "--seq", "3", status=1).stderr
        assert cli.json("locks", "release", queue, "--seq", "2", "--dry-run") == [{"sequence_number": "2", "released": False}]
        assert cli.json("locks", "release", queue, "--seq", "2") == [{"sequence_number": "2", "released": True}]
        [again] = receiver.receive_messages(max_wait_time=30)
        assert (str(again), again.delivery_count) == ("b", 1)
        receiver.complete_message(again)
        receiver.complete_message(messages[0])
    assert cli.json("locks", "ls", queue) == []


def test_locks_of_sessions_name_session_and_holder(cli, client, queues):
    session_queue = queues.take("session")
    send(client, session_queue, ServiceBusMessage("x", session_id="red"))
    with client.get_queue_receiver(session_queue, session_id="red") as receiver:
        receiver.receive_messages(max_wait_time=30)
        [lock] = cli.json("locks", "ls", session_queue)
        assert lock["session"] == "red" and lock["connection"]


def test_tail_follows_messages_from_now_on(cli, client, queue):
    send(client, queue, *[f"old {n}" for n in range(70)])
    with running(cli, "tail", queue, "-n", 2, "--json") as line:
        assert [json.loads(line())["body"]["text"] for _ in range(2)] == ["old 68", "old 69"]
        send(client, queue, "new")
        assert json.loads(line())["body"]["text"] == "new"
    # No message was removed, and those that don't match are skipped.
    with running(cli, "tail", queue, "--where", "sys.Label = 'red'") as line:
        # Its output shows that it has begun.
        while (shown := line.soon()) is None:
            send(client, queue, ServiceBusMessage("blue one", subject="blue"), ServiceBusMessage("red one", subject="red"))
        assert "red" in shown and "blue" not in shown
    assert cli.json("show", queue)[0]["counts"]["active"] >= 73


def test_tail_begins_with_the_last_messages_of_a_partitioned_queue(cli, client, admin):
    name = f"partitioned-{uuid.uuid4()}"
    admin.create_queue(name, enable_partitioning=True)
    with client.get_queue_sender(name) as sender:
        for number in range(20):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=str(number)))
    shown = cli.json("tail", name, "-n", 3, "--count", 3)
    assert [message["body"]["text"] for message in shown] == ["17", "18", "19"]
    admin.delete_queue(name)


def test_tail_follows_the_log_and_the_audit_log(cli, queue):
    assert all(line["level"] in ("INFO", "WARN", "ERROR") for line in cli.json("tail", "--log", "-n", 1, "--count", 1))
    with running(cli, "tail", "--audit", "-n", 1000) as line:
        cli.run("create", "queue", name := f"audited-{uuid.uuid4()}")
        while name not in line():
            pass
    cli.run("delete", name)
    assert cli.run("tail", status=2).stderr
    assert "cannot be used with" in cli.run("tail", queue, "--log", status=2).stderr


def test_top_shows_counts_and_rates(cli, client, queue):
    send(client, queue, "a", "b")
    dead_letter(client, queue, "c")
    # The first look has no rates; the dead letters come back to the head of no queue.
    [first] = cli.json("top", queue, "-n", 1)
    [row] = [row for row in first["entities"] if row["path"] == queue]
    assert row["counts"]["dead_lettered"] == 1 and row["per_second"] is None
    with running(cli, "top", queue, "--interval", "1s", "--json") as line:
        line()
        send(client, queue, *["x"] * 50)
        wait_for(lambda: any(row["per_second"]["accepted"] > 0 for row in json.loads(line())["entities"] if row["path"] == queue))
    table = cli.text("top", queue, "-n", 1, "--sort", "dead")
    assert queue in table and "OUT/S" in table and "\x1b" not in table


def test_top_in_a_terminal_ends_with_q(cli, client, queue):
    send(client, queue, "a")
    primary, secondary = os.openpty()
    fcntl.ioctl(primary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    before = termios.tcgetattr(secondary)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEEKLOCK_")} | {"TERM": "xterm"}
    environment["PEEKLOCK_CONNECTION"] = cli.connection_string
    command = [str(binary()), "top", queue, "--interval", "1s"]
    process = subprocess.Popen(command, env=environment, stdin=secondary, stdout=secondary, stderr=secondary)
    shown = b""
    try:
        while queue.encode() not in shown:
            shown += os.read(primary, 4096)
        os.write(primary, b"n")
        os.write(primary, b"q")
        while b"\x1b[?1049l" not in shown:
            shown += os.read(primary, 4096)
        assert process.wait(timeout=60) == 0
        assert termios.tcgetattr(secondary) == before, "the terminal is as it was"
    finally:
        process.kill()
        process.wait()
        os.close(primary)
        os.close(secondary)


def test_the_clock_is_shown_and_moved_where_time_travel_is_on(cli, traveller):
    assert "--time-travel" in cli.run("clock", status=1).stderr
    travelling = Cli(traveller.connection_string)
    before = datetime.datetime.fromisoformat(travelling.json("clock")[0]["now"])
    after = datetime.datetime.fromisoformat(travelling.text("clock", "--advance", "1h").strip())
    assert after - before >= datetime.timedelta(hours=1)


def test_commands_for_peeklock_only_are_refused_elsewhere(daemon):
    """A namespace that answers HTTP like Azure, without the management API."""

    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"<Error><Code>404</Code><Detail>nothing here</Detail></Error>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cli = Cli(f"Endpoint=sb://localhost:{server.server_port};" + LOCAL.format(key="x"))
        for command in [["connections", "ls"], ["locks", "ls", "q"], ["top", "-n", "1"], ["tail", "--log"], ["clock"]]:
            failed = cli.run(*command, status=1)
            assert "has no management API of Peeklock" in failed.stderr and "works with Peeklock only" in failed.stderr
        server.shutdown()
