"""Two brokers on three PostgreSQL servers: clients with a ledger while any of them is killed, paused or cut off."""

import contextlib

import pytest

import postgres
from cluster import Pair
from nemesis import Nemesis, finish, minutes, seed
from workload import QUEUES, TOPICS, Workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(0)]

#: As long as continuous integration has for it; hours by PEEKLOCK_NEMESIS_MINUTES.
MINUTES = 5


def test_a_pair_keeps_its_word_whatever_fails():
    postgres.require()
    number = seed()
    print(f"\nPEEKLOCK_NEMESIS_SEED={number}", flush=True)
    with contextlib.ExitStack() as stack:
        pair = Pair(stack, QUEUES, TOPICS)
        workload = Workload(pair.connection_string, number)
        workload.start()
        Nemesis(pair.steps(), workload, number).run(60 * minutes(MINUTES))
        finish(workload, pair.clock_error_secs)
        pair.check()
