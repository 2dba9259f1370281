"""Damaged bytes affect only their message: not its queue, not other messages, not the next start."""

import asyncio
import json
import pathlib
import subprocess
import time
import urllib.request

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from bus import Bus, bodies, body, take
from daemon import Daemon, binary, entities_text

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("damage to its files")

QUEUE, OTHER = "orders", "other"
NUMBERS = range(1, 6)
DAMAGED = 3


def text(number: int) -> bytes:
    return f"content number {number} of a queue ".encode() * 20


def flip(daemon: Daemon, number: int) -> pathlib.Path:
    """Flips eight bytes in the middle of the stored content; the file."""
    for path in sorted((daemon.path / "data").glob("*.segment")):
        data = path.read_bytes()
        at = data.find(text(number))
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + 300)
                file.write(bytes(byte ^ 0xFF for byte in data[at + 300 : at + 308]))
            return path
    raise AssertionError("the content is in no segment")


def ready(daemon: Daemon) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/health/ready", timeout=10) as answer:
        assert answer.status == 200
        return json.load(answer)


def check(daemon: Daemon) -> tuple[int, dict]:
    command = [binary(), "store", "check", daemon.path / "data", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def damaged_daemon(start_daemon):
    """A daemon with two queues; bodies are not cached, so that they are read from the disk."""
    config = '[storage]\nbody_cache = "0 KiB"\n' + entities_text({QUEUE: {}, OTHER: {}})
    return start_daemon(config)


async def fill(bus: Bus):
    for queue in (QUEUE, OTHER):
        await bus.send(queue, *[ServiceBusMessage(text(number)) for number in NUMBERS])


async def all_but_the_damaged(bus: Bus):
    """Receives the remaining messages; a peek or receive by number is refused."""
    receiver = await bus.open_receiver(QUEUE)
    got = await take(receiver, len(NUMBERS) - 1)
    assert bodies(got) == [text(number) for number in NUMBERS if number != DAMAGED]
    for message in got:
        await receiver.complete_message(message)
    with pytest.raises(ServiceBusError, match="damaged") as peeked:
        await receiver.peek_messages(max_message_count=1, sequence_number=DAMAGED)
    assert not peeked.value._retryable
    with pytest.raises(ServiceBusError, match="damaged"):
        await receiver.receive_deferred_messages([DAMAGED])


async def test_flipped_bytes_in_one_content_cost_one_message(damaged_daemon, flavour):
    daemon = damaged_daemon
    async with Bus(flavour, daemon.connection_string) as bus:
        await fill(bus)
    assert daemon.stop() == 0
    file = flip(daemon, DAMAGED)
    code, report = check(daemon)
    assert code == 3
    [found] = report["damage"]
    assert (found["entity"], found["sequence_number"], found["kind"]) == (QUEUE, DAMAGED, "value")
    assert report["next_start"] == {"served": True}
    # The second round is the start after the damage was found.
    for sends in (False, True):
        daemon.start()
        async with Bus(flavour, daemon.connection_string) as bus:
            if sends:
                # The others of the first round are completed.
                assert await bus.drain_nothing(QUEUE)
            else:
                await all_but_the_damaged(bus)
            assert bodies(await bus.peek(OTHER)) == [text(number) for number in NUMBERS]
        told = ready(daemon)
        assert (told["status"], told["degraded"], told["damage_count"]) == ("ready", True, 1)
        [damage] = told["damage"]
        assert (damage["entity"], damage["sequence_number"]) == (QUEUE, DAMAGED)
        assert (damage["file"], damage["offset"]) == (file.name, found["offset"])
        assert daemon.stop() == 0
    assert "server-busy" not in daemon.log.read_text()


async def test_rot_under_a_running_broker_costs_one_message(damaged_daemon, flavour):
    daemon = damaged_daemon
    async with Bus(flavour, daemon.connection_string) as bus:
        await fill(bus)
        flip(daemon, DAMAGED)
        await all_but_the_damaged(bus)
        assert bodies(await bus.peek(OTHER)) == [text(number) for number in NUMBERS]
        assert [damage["sequence_number"] for damage in ready(daemon)["damage"]] == [DAMAGED]
    # Neither the clean stop nor a kill keeps it from starting again.
    for end in (daemon.stop, daemon.kill):
        end()
        daemon.start()
        async with Bus(flavour, daemon.connection_string) as bus:
            assert bodies(await bus.peek(OTHER)) == [text(number) for number in NUMBERS]


async def test_a_store_that_does_not_open_is_salvaged(damaged_daemon, flavour):
    """The header of a frame is lost, and with it the unknown contents of that frame."""
    daemon = damaged_daemon
    async with Bus(flavour, daemon.connection_string) as bus:
        await fill(bus)
    daemon.kill()
    data = daemon.path / "data"
    [path] = [path for path in data.glob("*.segment") if text(DAMAGED) in path.read_bytes()]
    before = path.read_bytes()
    frame = before.rfind(b"LFRM", 0, before.find(text(DAMAGED)))
    with path.open("r+b") as file:
        file.seek(frame)
        file.write(bytes(8))
    code, report = check(daemon)
    assert (code, report["next_start"]["served"]) == (3, False)
    serve = [binary(), "serve", "--config", daemon.config, "--data-dir", data, "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    refused = subprocess.run(serve, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 3
    assert "peeklock store salvage" in refused.stdout + refused.stderr
    salvage = [binary(), "store", "salvage", data]
    tried = subprocess.run([*salvage, "--dry-run"], capture_output=True, text=True, timeout=60)
    assert tried.returncode == 0 and "Nothing was changed" in tried.stdout
    assert check(daemon)[1] == report
    done = subprocess.run(salvage, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (data / "quarantine" / "0001" / path.name).read_bytes()[frame + 8 :] == before[frame + 8 :]
    again = subprocess.run(salvage, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0 and "nothing is damaged" in again.stdout
    assert check(daemon)[0] == 0
    daemon.start()
    async with Bus(flavour, daemon.connection_string) as bus:
        left = bodies(await bus.peek(OTHER)) + bodies(await bus.peek(QUEUE))
        assert left and all(one in [text(number) for number in NUMBERS] for one in left)
        await bus.send(OTHER, ServiceBusMessage(b"after"))
        assert body((await bus.peek(OTHER))[-1]) == b"after"
    assert ready(daemon) == {"status": "ready"}


def metrics(daemon: Daemon) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=10) as answer:
        assert answer.status == 200
        return answer.read().decode().splitlines()


async def test_damage_found_by_the_scrubber_is_reported_before_a_read(start_daemon, flavour):
    storage = '[storage]\nbody_cache = "0 KiB"\nsegment_size = "1 MiB"\nscrub_interval = "1 second"\nscrub_rate = "1 GiB"\n'
    daemon = start_daemon(storage + entities_text({QUEUE: {}}))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage(text(number)) for number in NUMBERS])
        # Only complete files are read again.
        for _ in range(4):
            await bus.send(QUEUE, ServiceBusMessage(b"x" * 600_000))
        assert "degraded" not in ready(daemon)
        assert "peeklock_damage 0" in metrics(daemon)
        flip(daemon, DAMAGED)
        deadline = time.monotonic() + 60
        while "degraded" not in ready(daemon):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        told = ready(daemon)
        [damage] = told["damage"]
        assert (damage["entity"], damage["sequence_number"]) == (QUEUE, DAMAGED)
        assert (told["damage_count"], told["quarantined_messages"]) == (1, 0)
        receiver = await bus.open_receiver(QUEUE)
        got = await take(receiver, len(NUMBERS) - 1)
        assert DAMAGED not in [message.sequence_number for message in got]
        told = ready(daemon)
        # The same place, found once more.
        assert (told["damage_count"], told["quarantined_messages"]) == (1, 1)
        assert {"peeklock_damage 1", "peeklock_quarantined_messages 1"} < set(metrics(daemon))
