"""The wall clock of the daemon's machine is wrong, by libfaketime (Debian: `libfaketime`); see docs/time.md.

libfaketime changes the wall clock. The boot clock, by which the broker measures elapsed time, is not read through the C library
and is not affected.
"""

import datetime
import time

import pytest
from azure.servicebus import ServiceBusMessage

import wall_clock
from bus import Bus, bodies, body, one
from daemon import Daemon

PATIENCE_SECS = 60
MINUTES = datetime.timedelta(minutes=5)

CONFIG = """
[[queues]]
name = "one"
"""


class Machine:
    """A daemon and its wall clock."""

    def __init__(self, directory, off: str):
        self.clock = wall_clock.WallClock(directory, off)
        self.daemon = Daemon(CONFIG, environment=self.clock.environment, program=wall_clock.program()).start()

    def wait_for(self, text: str):
        deadline = time.monotonic() + PATIENCE_SECS
        while text not in self.daemon.log.read_text():
            assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{self.daemon.log.read_text()}"
            time.sleep(0.05)


@pytest.fixture
def start_machine(tmp_path):
    if reason := wall_clock.missing():
        pytest.skip(f"{reason}: the wall clock of a real daemon is not tested")
    machines = []

    def start(off: str) -> Machine:
        machines.append(Machine(tmp_path, off))
        return machines[-1]

    yield start
    for machine in machines:
        assert machine.daemon.panics() == []
        machine.daemon.close()


def now():
    return datetime.datetime.now(datetime.timezone.utc)


async def test_an_hour_forth_and_back_leaves_no_trace(start_machine, flavour):
    machine = start_machine("+0")
    async with Bus(flavour, machine.daemon.connection_string) as bus:
        await bus.send("one", ServiceBusMessage(b"before"))
        machine.clock.set_off("+1h")
        machine.wait_for("the wall clock differs from the broker's time")
        receiver = await bus.open_receiver("one")
        message = await one(receiver)
        machine.clock.set_off("+0")
        machine.wait_for("the wall clock agrees with the broker's time again")
        if "stepped forward" in machine.daemon.log.read_text():
            pytest.skip("the machine is too slow: the jump lasted for longer than a start allows")
        assert body(message) == b"before"
        assert abs(message.locked_until_utc - now()) < MINUTES
        await receiver.complete_message(message)


async def test_a_start_ten_years_ahead_is_corrected(start_machine, flavour):
    machine = start_machine("+3650d")
    async with Bus(flavour, machine.daemon.connection_string) as bus:
        machine.clock.set_off("+0")
        machine.wait_for("the broker's time was set back to the wall clock")
        await bus.send("one", ServiceBusMessage(b"after", time_to_live=datetime.timedelta(hours=1)))
        receiver = await bus.open_receiver("one")
        message = await one(receiver)
        assert body(message) == b"after"
        for moment in (message.enqueued_time_utc, message.locked_until_utc):
            assert abs(moment - now()) < MINUTES
        await receiver.complete_message(message)
        assert bodies(await bus.peek("one")) == []
