"""Memory for the state of everything stored: sends are refused at its limit, other operations continue."""

import asyncio
import datetime
import json
import platform
import subprocess
import urllib.request

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from bus import Bus, bodies, one, until
from daemon import Daemon, binary

# The properties of messages scheduled on a topic are in memory, so a few messages fill it.
CONFIG = """
[limits]
state_memory_max = "96 MiB"

[[queues]]
name = "orders"

[[topics]]
name = "news"
[[topics.subscriptions]]
name = "all"
"""
PROPERTIES = {f"p{number}": "v" * 15_000 for number in range(4)}
BATCH = 15
# 60 KB each: more than the limit by far.
BATCHES_MAX = 200


def health(daemon) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/health/ready", timeout=10) as answer:
        return json.load(answer)


async def schedule_until_refused(sender) -> list[int]:
    due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    numbers = []
    with pytest.raises(ServiceBusQuotaExceededError, match="no memory left for more messages"):
        for _ in range(BATCHES_MAX):
            batch = [ServiceBusMessage("later", application_properties=PROPERTIES) for _ in range(BATCH)]
            numbers += await sender.schedule_messages(batch, due)
    return numbers


async def fill(daemon, sender) -> list[int]:
    """Schedules until it is refused, also after the buffers of earlier requests are freed."""
    numbers = await schedule_until_refused(sender)
    quiet = 0
    while quiet < 20:
        await asyncio.sleep(0.05)
        if "sends_refused" in health(daemon):
            quiet += 1
        else:
            numbers += await schedule_until_refused(sender)
            quiet = 0
    return numbers


@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux says what memory the process has")
async def test_sends_are_refused_at_the_limit_and_taken_again_when_there_is_memory(flavour, start_daemon):
    daemon = start_daemon(CONFIG)
    async with Bus(flavour, daemon.connection_string) as bus, bus.sender("news") as news:
        await bus.send("orders", ServiceBusMessage("one"), ServiceBusMessage("two"))
        numbers = await fill(daemon, news)
        assert len(numbers) >= BATCH
        assert health(daemon) == {"status": "ready", "degraded": True, "sends_refused": "memory full"}
        async with bus.sender("orders") as orders, bus.receiver("orders") as receiver:
            with pytest.raises(ServiceBusQuotaExceededError):
                await orders.send_messages(ServiceBusMessage("three"))
            await receiver.complete_message(await one(receiver))
            await receiver.dead_letter_message(await one(receiver), reason="bad", error_description="a test wants it so")
        for start in range(0, len(numbers), 100):
            await news.cancel_scheduled_messages(numbers[start : start + 100])

        async def is_over() -> bool:
            return health(daemon) == {"status": "ready"}

        await until(is_over, "memory is available again")
        await bus.send("orders", ServiceBusMessage("four"))
        assert bodies(await bus.drain("orders", 1)) == [b"four"]


def store(command: str, data, directory) -> dict:
    arguments = [binary(), "store", command, "--json", "--data-dir", data, directory]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)


@pytest.mark.local_store("a backup of its files")
@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux says what memory the process has")
async def test_a_backup_is_made_and_restored_while_sends_are_refused(flavour, start_daemon, tmp_path):
    daemon = start_daemon(CONFIG)
    async with Bus(flavour, daemon.connection_string) as bus, bus.sender("news") as news:
        await bus.send("orders", ServiceBusMessage("one"), ServiceBusMessage("two"))
        numbers = await fill(daemon, news)
        # Afterwards they may be accepted again: on a busy machine memory is given back late.
        assert health(daemon)["sends_refused"] == "memory full"
        report = await asyncio.to_thread(store, "backup", daemon.path / "data", tmp_path / "backup")
        assert report["running"] and report["complete"]
    restored = Daemon(CONFIG.replace("96 MiB", "1 GiB"))
    try:
        report = store("restore", restored.path / "data", tmp_path / "backup")
        assert report["messages"] == 2 + len(numbers)
        restored.start()
        async with Bus(flavour, restored.connection_string) as bus, bus.sender("news") as news:
            await bus.send("orders", ServiceBusMessage("four"))
            assert bodies(await bus.drain("orders", 3)) == [b"one", b"two", b"four"]
            # Each of them is there.
            for start in range(0, len(numbers), 100):
                await news.cancel_scheduled_messages(numbers[start : start + 100])
    finally:
        restored.close()
