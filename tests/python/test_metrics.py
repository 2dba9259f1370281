"""`GET /metrics` counts the operations of clients correctly."""

import datetime
import re
import urllib.request

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from cryptography import x509

import certificates
from bus import DEAD_LETTER, Bus, body, nothing, one, take, until
from daemon import Daemon, entities_text

QUEUE = "counted"
HOUR = datetime.timedelta(hours=1)

LINE = re.compile(r'(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>[\d.e+-]+)')


def samples(daemon: Daemon) -> dict[tuple[str, frozenset], float]:
    """Every series with its value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=10) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            labels = frozenset(re.findall(r'(\w+)="([^"]*)"', match["labels"] or ""))
            assert (match["name"], labels) not in found, f"twice: {line}"
            found[match["name"], labels] = float(match["value"])
    return found


def value(found, name: str, **labels) -> float:
    return found[name, frozenset(labels.items())]


def of_queue(found, name: str, **labels) -> float:
    return value(found, name, entity=QUEUE, entity_type="queue", **labels)


async def settled(daemon: Daemon, name: str, expected: float, **labels):
    """Counters are published at the end of a turn, which may be after the answer."""

    async def reached() -> bool:
        return of_queue(samples(daemon), name, **labels) == expected

    await until(reached)


@pytest.mark.local_store("counters of its files")
async def test_counters_agree_with_the_work_of_clients(start_daemon, flavour):
    daemon = start_daemon(
        entities_text({QUEUE: {"dead_lettering_on_message_expiration": True, "max_delivery_count": 2}}),
        time_travel=True,
    )
    assert of_queue(samples(daemon), "peeklock_messages_received_total") == 0, "before the first message"
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage(f"message {number}") for number in range(6)])
        await bus.send(QUEUE, ServiceBusMessage("brief", time_to_live=HOUR))
        assert of_queue(samples(daemon), "peeklock_messages", state="active") == 7
        receiver = await bus.open_receiver(QUEUE)
        for settle in ("complete_message", "complete_message", "dead_letter_message", "defer_message"):
            message = await one(receiver)
            await getattr(receiver, settle)(message)
        # The second abandon exceeds the maximum.
        for _ in range(2):
            message = await one(receiver)
            assert body(message) == b"message 4"
            await receiver.abandon_message(message)
        message = await one(receiver)
        await receiver.complete_message(message)
        daemon.advance(hours=2)
        assert await nothing(receiver)
        await settled(daemon, "peeklock_messages_expired_total", 1)
        found = samples(daemon)
        assert of_queue(found, "peeklock_messages_received_total") == 7
        assert of_queue(found, "peeklock_messages_delivered_total") == 7
        outcomes = {"complete": 3, "defer": 1, "dead_letter": 1, "abandon": 2, "delete": 0}
        for outcome, count in outcomes.items():
            assert of_queue(found, "peeklock_messages_settled_total", outcome=outcome) == count, outcome
        for reason, count in {"application": 1, "max_delivery": 1, "ttl": 1, "filter": 0}.items():
            assert of_queue(found, "peeklock_messages_dead_lettered_total", reason=reason) == count, reason
        assert of_queue(found, "peeklock_messages", state="dead_letter") == 3
        assert of_queue(found, "peeklock_messages", state="active") == 0
        assert of_queue(found, "peeklock_messages", state="deferred") == 1
        assert of_queue(found, "peeklock_receivers") == 1
        assert of_queue(found, "peeklock_wait_duration_seconds_count") == 6
        assert of_queue(found, "peeklock_accept_duration_seconds_count") == 7
        dead = await bus.peek(QUEUE, sub_queue=DEAD_LETTER)
        assert len(dead) == of_queue(found, "peeklock_messages", state="dead_letter")
        assert value(found, "peeklock_storage_batches_total") > 0


async def test_entities_beyond_the_limit_are_summed_up(start_daemon, flavour):
    text = "[metrics]\nentities_max = 1\n" + entities_text({"a": {}, "b": {}, "c": {}})
    daemon = start_daemon(text)
    async with Bus(flavour, daemon.connection_string) as bus:
        for queue in ("a", "b", "c"):
            await bus.send(queue, ServiceBusMessage("x"))
    found = samples(daemon)
    counted = {
        dict(labels)["entity"]: count
        for (name, labels), count in found.items()
        if name == "peeklock_messages_received_total"
    }
    assert sorted(counted.values()) == [1, 2] and counted["(others)"] == 2, counted


async def test_refused_credentials_are_counted(start_daemon, flavour):
    daemon = start_daemon(entities_text({"a": {}}))
    wrong = re.sub("SharedAccessKey=[^;]*", "SharedAccessKey=d3Jvbmc=", daemon.connection_string)
    async with Bus(flavour, wrong) as bus:
        with pytest.raises(ServiceBusError):
            await bus.send("a", ServiceBusMessage("x"))
    assert value(samples(daemon), "peeklock_auth_failures_total", reason="signature") >= 1


async def test_refused_operations_are_counted_by_condition(start_daemon, flavour):
    daemon = start_daemon(entities_text({"a": {}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        with pytest.raises(ServiceBusError):
            await bus.send("missing", ServiceBusMessage("x"))
    assert value(samples(daemon), "peeklock_operations_refused_total", error_type="amqp:not-found") >= 1


async def shows(daemon: Daemon, name: str, entity: str, states: dict[str, int]):
    """Waits until gauges have these values: they are published at the end of a turn as well."""

    async def reached() -> bool:
        found = samples(daemon)
        labels = {"entity": entity, "entity_type": "queue"}
        return all(value(found, name, state=state, **labels) == count for state, count in states.items())

    await until(reached, f"{name} of {entity}: {states}")


async def test_locks_and_deferred_messages_are_gauges(start_daemon, flavour):
    daemon = start_daemon(entities_text({QUEUE: {}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage(str(number)) for number in range(3)])
        receiver = await bus.open_receiver(QUEUE)
        locked = await one(receiver)
        await shows(daemon, "peeklock_messages", QUEUE, {"active": 2, "locked": 1, "deferred": 0})
        await receiver.defer_message(locked)
        await shows(daemon, "peeklock_messages", QUEUE, {"active": 2, "locked": 0, "deferred": 1})
        (deferred,) = await receiver.receive_deferred_messages([locked.sequence_number])
        await shows(daemon, "peeklock_messages", QUEUE, {"active": 2, "locked": 0, "deferred": 1})
        await receiver.complete_message(deferred)
        await shows(daemon, "peeklock_messages", QUEUE, {"active": 2, "locked": 0, "deferred": 0})
        eager = await bus.open_receiver(QUEUE, prefetch_count=20)
        assert len(await take(eager, 2)) == 2
        await shows(daemon, "peeklock_messages", QUEUE, {"active": 0, "locked": 2})

        async def has_credit() -> bool:
            return of_queue(samples(daemon), "peeklock_credit") >= 18

        await until(has_credit, "an eager receiver asks for more than there is")


async def test_sessions_are_gauges(start_daemon, flavour):
    daemon = start_daemon(entities_text({QUEUE: {"requires_session": True}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage("hello", session_id=name) for name in ("a", "b", "c")])
        await shows(daemon, "peeklock_sessions", QUEUE, {"waiting": 3, "locked": 0})
        holder = await bus.open_receiver(QUEUE, session_id="b")
        await shows(daemon, "peeklock_sessions", QUEUE, {"waiting": 2, "locked": 1})
        await holder.session.set_state(b"greeted")
        await settled(daemon, "peeklock_session_states", 1)


async def test_the_end_of_the_certificate_follows_a_reload(start_daemon, tmp_path):
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"

    def put(days: int) -> float:
        made = certificates.Authority(tmp_path, f"for-{days}", days).identity("server")
        certificate.write_bytes(made.certificate.read_bytes())
        key.write_bytes(made.key.read_bytes())
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()

    expected = put(days=3)
    daemon = start_daemon(f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n' + entities_text({QUEUE: {}}))
    assert value(samples(daemon), "peeklock_certificate_expiry_timestamp_seconds") == expected
    expected = put(days=9)
    daemon.reload()

    async def reached() -> bool:
        return value(samples(daemon), "peeklock_certificate_expiry_timestamp_seconds") == expected

    await until(reached)
