"""Two brokers on three PostgreSQL servers: clients with a ledger while any of them is killed, paused or cut off."""

import contextlib
import random
import shutil
import time

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

import postgres
import unmodified
from cluster import Pair
from ledger import Fault
from nemesis import Nemesis, finish, minutes, seed
from workload import QUEUES, TOPICS, Workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(0)]

#: The time in continuous integration; PEEKLOCK_NEMESIS_MINUTES sets longer runs.
MINUTES = 2


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_unmodified_clients_notice_a_lost_primary_and_a_lost_broker_as_pauses():
    postgres.require()
    with contextlib.ExitStack() as stack:
        pair = Pair(stack, unmodified.QUEUES, {})
        applications = unmodified.Applications(pair.connection_string())
        applications.wait_until_served()
        began, generator = time.time(), random.Random(0)
        pair.promote(generator)
        # The other one still waits, by the times of its SDK.
        applications.wait_until_served("python")
        serving = pair.serving()
        pair.kill(serving, generator)
        applications.wait_until_served()
        assert pair.serving() is not serving
        applications.ledger.add(Fault("primary killed, then the serving broker", began, time.time()))
        applications.finish()
        pair.check()


def test_a_node_that_is_cut_off_from_the_database_stands_by():
    """Otherwise a load balancer would continue to send clients to it, who get no answers there."""
    postgres.require()
    with contextlib.ExitStack() as stack:
        pair = Pair(stack, {"orders": {}}, {}, '[cluster]\nlease_time = "PT3S"\n')
        active = pair.serving()
        other = pair.passive()
        client = stack.enter_context(ServiceBusClient.from_connection_string(pair.connection_string(), retry_total=0))
        for link in active.links:
            link.silence()
        postgres.until(lambda: other.is_serving, "the other one takes over")
        postgres.until(lambda: active.status("/health/ready") == 503, "the one that was cut off stands by")
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("sent"))
        with client.get_queue_receiver("orders") as receiver:
            (received,) = receiver.receive_messages(max_wait_time=10)
            receiver.complete_message(received)
        for link in active.links:
            link.heal()
        postgres.until(lambda: "standing by" in active.daemon.log.read_text(), "it waits again")
        assert other.is_serving and not active.is_serving
        pair.check()


def test_a_pair_keeps_its_promises_whatever_fails():
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
