"""Applies faults to a setup in steps chosen by a seed, ends each fault, and checks that service resumes in bounded time.

A step is a method of a setup: it causes a fault, waits for the given time, and ends the fault.
"""

import os
import random
import secrets
import time
from typing import Callable

from checker import pause_after, report, violations
from ledger import Fault
from proxies import Link, Way
from workload import Workload, browse

SEED_VARIABLE = "PEEKLOCK_NEMESIS_SEED"
MINUTES_VARIABLE = "PEEKLOCK_NEMESIS_MINUTES"
#: Duration of a fault.
BROKEN_SECS = (0.2, 3.0)
#: Maximum time without service in a place after all faults have ended: much longer than needed, but bounded.
SERVICE_SECS = 90
#: Time for the clients to settle the remaining messages after the last send.
QUIET_SECS = 20

Step = Callable[[random.Random], None]


def seed() -> int:
    """The seed of the variable, or a new one; the caller prints it."""
    return int(os.environ.get(SEED_VARIABLE) or secrets.randbits(32))


def minutes(default: float) -> float:
    return float(os.environ.get(MINUTES_VARIABLE) or default)


class LinkFaults:
    """Faults of links, for the links that a setup names."""

    def __init__(self, links: Callable[[], list[Link]]):
        self._links = links

    def steps(self, name: str) -> dict[str, Step]:
        faults: dict[str, Callable[[Link], None]] = {
            "cut": Link.cut,
            "reset": Link.reset,
            "silenced": Link.silence,
            "delayed": lambda link: link.delay(0.1),
            "held up": lambda link: link.hold(Way.UP),
            "held down": lambda link: link.hold(Way.DOWN),
        }
        return {f"{name} {fault}": self._step(fault_link) for fault, fault_link in faults.items()}

    def _step(self, fault_link: Callable[[Link], None]) -> Step:
        def step(generator: random.Random):
            links = self._links()
            try:
                for link in links:
                    fault_link(link)
                broken(generator)
            finally:
                for link in links:
                    link.heal()

        return step


def broken(generator: random.Random):
    """Keeps the fault for a while."""
    time.sleep(generator.uniform(*BROKEN_SECS))


class Nemesis:
    """Steps against a workload, until the time is over; each step is taken once before any is taken twice."""

    def __init__(self, steps: dict[str, Step], workload: Workload, seed: int):
        self._steps = steps
        self._workload = workload
        self._generator = random.Random(seed)
        self._left: list[str] = []
        #: Name of the step and seconds without service after it.
        self.pauses: list[tuple[str, float]] = []

    def run(self, seconds: float):
        deadline = time.monotonic() + seconds
        self.wait_for_service("the start", time.time())
        while time.monotonic() < deadline:
            if not self._left:
                self._left = sorted(self._steps)
                self._generator.shuffle(self._left)
            self.take(self._left.pop())

    def take(self, name: str):
        ledger, began = self._workload.ledger, time.time()
        self._steps[name](self._generator)
        healed = time.time()
        pause_secs = self.wait_for_service(name, healed)
        # For clients, a fault ends only when all are served again.
        ledger.add(Fault(name, began, healed + pause_secs))
        self.pauses.append((name, pause_secs))
        print(f"    {name}: {healed - began:.1f} s, then {pause_secs:.1f} s until everything was served", flush=True)

    def wait_for_service(self, name: str, moment: float) -> float:
        while (pause_secs := pause_after(self._workload.ledger, moment)) == float("inf"):
            errors = "\n".join(f"{at:.3f} {who}: {what}" for at, who, what in self._workload.ledger.errors[-20:])
            assert time.time() < moment + SERVICE_SECS, f"no service {SERVICE_SECS} s after {name}:\n{errors}"
            time.sleep(0.1)
        return pause_secs


def finish(workload: Workload, clock_error_secs: float = 0.25):
    """Lets the clients settle the remaining messages, browses what is left and checks the ledger."""
    workload.stop_sending()
    settled = lambda: len(workload.ledger.settlements) + len(workload.ledger.deliveries)
    deadline, before = time.monotonic() + QUIET_SECS, -1
    while time.monotonic() < deadline and settled() != before:
        before = settled()
        time.sleep(4)
    workload.stop()
    browse(workload.ledger, workload.connection_string())
    found = violations(workload.ledger, clock_error_secs)
    print(f"    {workload.ledger.summary()}", flush=True)
    assert not found, report(workload.ledger, found)
