"""Two brokers on one database behind a balancer: one serves, the other takes over. Clients notice a pause."""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import postgres
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from daemon import CONNECTION_STRING, binary
from nodes import LEASE_SECS, Node

#: Time until the other broker takes over after a kill, with a margin for a busy machine.
TAKE_OVER_SECS = 60


class Balancer:
    """Forwards connections to the ready broker or, without one, to a standby."""

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._socket.getsockname()[1]
        self.connection_string = CONNECTION_STRING.format(port=self.port)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _choose(self) -> Node | None:
        ready = next((node for node in self.nodes if node.is_ready()), None)
        return ready or next((node for node in self.nodes if node.is_standby()), None)

    def _serve(self, client: socket.socket):
        with client, contextlib.suppress(OSError):
            if not (node := self._choose()):
                return
            with socket.create_connection(("127.0.0.1", node.amqp_port)) as broker:
                back = threading.Thread(target=pass_on, args=(broker, client), daemon=True)
                back.start()
                pass_on(client, broker)
                back.join()

    def close(self):
        self._socket.close()


def pass_on(source: socket.socket, target: socket.socket):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Pair:
    def __init__(self, url: str):
        self.url = url
        self.nodes = [Node(url, "a"), Node(url, "b")]
        for node in self.nodes:
            node.launch()
        self.balancer = Balancer(self.nodes)
        postgres.until(lambda: sum(node.is_ready() for node in self.nodes) == 1, "one of two serves")

    @property
    def active(self) -> Node:
        return postgres.until(lambda: next((node for node in self.nodes if node.is_ready()), None), "a node serves")

    def other(self, node: Node) -> Node:
        return next(one for one in self.nodes if one is not node)

    def client(self) -> ServiceBusClient:
        """With more retries than the default, whose three attempts end before the other node takes over."""
        options = {"retry_total": 12, "retry_backoff_factor": 0.3, "retry_backoff_max": 2}
        return ServiceBusClient.from_connection_string(self.balancer.connection_string, **options)

    def cluster(self, *arguments: str) -> str:
        command = [binary(), "cluster", *arguments, "--url", self.url]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def wait_for_standby(self, node: Node):
        postgres.until(node.is_standby, f"{node.name} stands by")
        # The table lists it as ready to take over.
        found = lambda: {"standby"} & {one["state"] for one in json.loads(self.cluster("status", "--json"))["nodes"]}
        postgres.until(found, "the standby is known")

    def close(self):
        self.balancer.close()
        for node in self.nodes:
            assert node.panics() == []
            node.close()


@pytest.fixture(scope="module")
def server():
    postgres.require()
    with contextlib.closing(postgres.Single()) as single:
        yield single.server


@pytest.fixture
def pair(server):
    url = server.url(server.create_database())
    pair = Pair(url)
    yield pair
    pair.close()


class Traffic:
    """A sender and a receiver of unmodified SDKs, which run until they are stopped; any exception fails the test, except that of a
    settlement whose broker has ended.
    """

    def __init__(self, pair: Pair, queue: str = "orders"):
        self.sent, self.completed, self.pauses = [], [], []
        #: Completed messages: a send that was repeated after a missing answer is two messages.
        self.sequence_numbers = []
        #: Settled, or delivered again.
        self.doubtful = set()
        self.restarts = 0
        self._stop = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(2)
        self._tasks = [self._pool.submit(task, pair, queue) for task in (self._send, self._receive)]

    def _send(self, pair: Pair, queue: str):
        with pair.client() as client, client.get_queue_sender(queue) as sender:
            while not self._stop.is_set():
                began = time.monotonic()
                sender.send_messages(ServiceBusMessage(f"{len(self.sent)}", message_id=f"{len(self.sent)}"))
                self.pauses.append(time.monotonic() - began)
                self.sent.append(f"{len(self.sent)}")
                time.sleep(0.005)

    def _receive(self, pair: Pair, queue: str):
        with pair.client() as client:
            while not self._receive_until_error(client, queue):
                # The Python SDK shuts down a receiver whose settlement meets a closing connection.
                self.restarts += 1

    def _receive_until_error(self, client: ServiceBusClient, queue: str) -> bool:
        with client.get_queue_receiver(queue) as receiver:
            is_done = False
            while not is_done:
                # The SDK retries only within this time.
                messages = receiver.receive_messages(max_message_count=10, max_wait_time=15)
                for message in messages:
                    try:
                        receiver.complete_message(message)
                    except ServiceBusError:
                        # The lock was its broker's: settled, or delivered again.
                        self.doubtful.add(str(message))
                        return False
                    self.completed.append(str(message))
                    self.sequence_numbers.append(message.sequence_number)
                is_done = self._stop.is_set() and not messages
        return True

    def wait_for(self, count: int):
        """Returns when the given number of further messages was sent and completed."""
        sent, completed = len(self.sent) + count, len(self.completed) + count

        def is_done():
            self.check()
            return len(self.sent) >= sent and len(self.completed) >= completed

        postgres.until(is_done, "traffic goes on")

    def check(self):
        for task in self._tasks:
            if task.done():
                task.result()
                assert self._stop.is_set(), "ended by itself"

    def finish(self):
        """All sent messages were received; none was completed twice."""
        self._stop.set()
        for task in self._tasks:
            task.result(timeout=TAKE_OVER_SECS)
        assert set(self.sent) <= set(self.completed) | self.doubtful
        assert self.restarts <= 5, "one for each broker that went"
        assert len(self.sequence_numbers) == len(set(self.sequence_numbers)), "something that was settled came back"


def test_one_node_serves_and_the_other_stands_by(pair):
    active, standby = pair.active, pair.other(pair.active)
    pair.wait_for_standby(standby)
    assert standby.get("/health/live")[0] == 200
    assert standby.get("/health")[0] == 503 and active.get("/health")[0] == 200
    assert standby.get("/orders")[0] == 503, "a standby refuses administration"
    assert re.search(r"^peeklock_ready 0$", standby.get("/metrics")[1], re.M)
    assert re.search(r"^peeklock_ready 1$", active.get("/metrics")[1], re.M)
    assert active.ready.exists() and not standby.ready.exists()
    # A reload changes the entities that the next term declares.
    standby.config.write_text(standby.config.read_text() + '\n[[queues]]\nname = "late"\n')
    standby.reload()
    pair.wait_for_standby(standby)
    assert active.stop() == 0
    postgres.until(standby.is_ready, "the other one serves")
    with pair.client() as client, client.get_queue_sender("late") as sender:
        sender.send_messages(ServiceBusMessage("declared by the reload"))
    active.launch()
    postgres.until(active.is_standby, "the first one is back")


def test_a_connection_to_a_standby_waits_for_a_while_and_is_closed(pair):
    standby = pair.other(pair.active)
    with socket.create_connection(("127.0.0.1", standby.amqp_port), timeout=TAKE_OVER_SECS) as connection:
        connection.sendall(b"AMQP\x03\x01\x00\x00")
        assert connection.recv(8) == b"", "nothing is said to a client who has to go elsewhere"


def test_a_killed_node_is_relieved_and_clients_notice_a_pause(pair):
    active = pair.active
    pair.wait_for_standby(pair.other(active))
    traffic = Traffic(pair)
    traffic.wait_for(50)
    active.kill()
    traffic.wait_for(50)
    assert pair.other(active).is_ready()
    active.launch()
    pair.wait_for_standby(active)
    traffic.finish()
    print(f"longest send: {max(traffic.pauses):.2f} s; receivers made anew: {traffic.restarts}")


def test_a_node_that_is_stopped_hands_over_and_clients_notice_a_short_pause(pair):
    traffic = Traffic(pair)
    for _ in range(3):
        traffic.wait_for(30)
        active = pair.active
        other = pair.other(active)
        pair.wait_for_standby(other)
        began = time.monotonic()
        active.process.send_signal(signal.SIGTERM)
        while active.is_ready():
            pass
        stopped = time.monotonic()
        while not other.is_ready():
            time.sleep(0.005)
        print(f"not ready to ready: {time.monotonic() - stopped:.3f} s of {time.monotonic() - began:.3f} s")
        assert active.process.wait(timeout=TAKE_OVER_SECS) == 0
        active.launch()
    traffic.wait_for(30)
    traffic.finish()
    print(f"longest send: {max(traffic.pauses):.2f} s; receivers made anew: {traffic.restarts}")


def test_an_operator_drains_a_node(pair):
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    traffic = Traffic(pair)
    traffic.wait_for(20)
    assert "hands over" in pair.cluster("drain", active.name)
    postgres.until(other.is_ready, "the other one serves")
    postgres.until(active.is_standby, "the drained one stands by")
    states = {one["node"]: one["state"] for one in json.loads(pair.cluster("status", "--json"))["nodes"]}
    assert states == {active.name: "drained", other.name: "serves"}
    assert "may serve" in pair.cluster("drain", active.name, "--undo")
    traffic.wait_for(20)
    traffic.finish()
    assert active.process.poll() is None, "it continues as a standby"


def test_a_node_that_is_drained_while_it_takes_over_hands_over(pair, server):
    database = pair.url.rpartition("/")[2]
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    with server.locked("peeklock.log", database):
        active.kill()
        takes_over = lambda: other.log.read_text().count("this node has the lease")
        postgres.until(takes_over, "the other one takes over")
        active.launch()
        pair.wait_for_standby(active)
        pair.cluster("drain", other.name)
        # It can't serve while the table is locked; the other one waits in its place.
        postgres.until(lambda: "this node has the lease" in active.log.read_text().rpartition("standing by")[2], "handed over")
        assert takes_over() == 1
    postgres.until(active.is_ready, "the first one serves again")
    assert other.is_standby()


def test_a_node_that_can_not_take_over_leaves_the_shard_to_one_that_can(pair, server):
    """The password is changed, and the nodes are restarted in the wrong order."""
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    password = lambda text: server.sql(f"alter role {postgres.ROLE} password '{text}'")
    password("changed")
    try:
        assert active.stop() == 0
        postgres.until(lambda: "password authentication failed" in other.log.read_text(), "the other one can't connect")
        active.environment["PEEKLOCK_STORAGE_URL"] = pair.url.replace(postgres.PASSWORD, "changed")
        active.launch()
        postgres.until(active.is_ready, "the one with the new password serves")
    finally:
        password(postgres.PASSWORD)


def test_a_node_that_can_not_connect_any_more_hands_over_though_it_renews_its_lease(pair, server):
    """The password is changed and the standby restarted; then the other node loses only the session that writes."""
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    password = lambda text: server.sql(f"alter role {postgres.ROLE} password '{text}'")
    with pair.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("before"))
    password("changed")
    try:
        assert other.stop() == 0
        other.environment["PEEKLOCK_STORAGE_URL"] = pair.url.replace(postgres.PASSWORD, "changed")
        other.launch()
        postgres.until(other.is_standby, "it stands by with the new password")
        writing = "application_name = 'peeklock shard 0 append'"
        database = pair.url.rpartition("/")[2]
        server.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where {writing} and datname = '{database}'")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            # Notices that the session has ended.
            pool.submit(send_unheeded, active)
            postgres.until(other.is_ready, "the node with the new password serves")
        assert "can't connect to the database" in active.log.read_text()
        with pair.client() as client, client.get_queue_receiver("orders") as receiver:
            assert "before" in map(str, receiver.receive_messages(max_message_count=10, max_wait_time=15))
    finally:
        password(postgres.PASSWORD)


def send_unheeded(node: Node):
    with contextlib.suppress(ServiceBusError):
        with ServiceBusClient.from_connection_string(node.connection_string, retry_total=0) as client:
            with client.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage("unheeded"))


def test_the_log_says_why_nothing_can_be_written_and_when_that_ends(pair, server):
    """The leases are renewed meanwhile, so the node serves on: the log is where an operator finds the reason."""
    active = pair.active
    database = pair.url.rpartition("/")[2]
    says = lambda text: lambda: any(text in line for line in active.log.read_text().splitlines())
    with pair.client() as client, client.get_queue_sender("orders") as sender:
        server.sql(f"alter table peeklock.log owner to {postgres.ADMINISTRATOR}", database)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sent = pool.submit(sender.send_messages, ServiceBusMessage("late"))
            try:
                postgres.until(says("the log can't be written; sends and settlements wait"), "a warning")
                assert "permission denied for table log" in last_line(active, "the log can't be written")
                assert active.is_ready()
                assert not says("the log is written again")()
            finally:
                server.sql(f"alter table peeklock.log owner to {postgres.ROLE}", database)
            sent.result(timeout=TAKE_OVER_SECS)
    postgres.until(says("the log is written again"), "the end of the failure")


def last_line(node: Node, text: str) -> str:
    return [line for line in node.log.read_text().splitlines() if text in line][-1]


def table_age_secs(node: Node) -> float:
    """Time since the table of leases answered."""
    return float(re.search(r"^peeklock_cluster_table_age_seconds (\S+)$", node.get("/metrics")[1], re.MULTILINE)[1])


def test_a_database_that_was_away_for_longer_than_a_lease_moves_nothing(pair, server):
    active = pair.active
    passive = pair.other(active)
    pair.wait_for_standby(passive)
    for _ in range(3):
        server.kill()
        away = lambda: all(table_age_secs(node) > LEASE_SECS for node in pair.nodes)
        postgres.until(away, "the leases have ended")
        server.start()
        back = lambda: all(table_age_secs(node) < LEASE_SECS for node in pair.nodes)
        postgres.until(back, "both nodes reach the database")
        with pair.client() as client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("kept"))
        assert active.is_ready() and passive.is_standby()
    assert "the lease of the shard is lost" not in active.log.read_text()


def test_a_stopped_owner_hands_out_nothing_when_it_goes_on(pair):
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    direct = lambda node: ServiceBusClient.from_connection_string(CONNECTION_STRING.format(port=node.amqp_port), retry_total=0)
    with direct(active) as client, client.get_queue_sender("short") as sender:
        sender.send_messages([ServiceBusMessage(f"{number}") for number in range(10)])
    with direct(active) as client:
        holder = client.get_queue_receiver("short")
        assert len(holder.receive_messages(max_message_count=10, max_wait_time=10)) == 10
        waiting = client.get_queue_receiver("short")
        assert waiting.receive_messages(max_message_count=10, max_wait_time=1) == []
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(receive_or_fail, waiting)
            time.sleep(1)
            # Longer than its lease, and than the locks: it would deliver them again.
            active.pause()
            try:
                postgres.until(other.is_ready, "the other one serves")
                with direct(other) as relief, relief.get_queue_receiver("short") as receiver:
                    found = []
                    while len(found) < 10:
                        for message in receiver.receive_messages(max_message_count=10, max_wait_time=10):
                            receiver.complete_message(message)
                            found.append(str(message))
                assert sorted(found) == [f"{number}" for number in range(10)]
                time.sleep(5)
            finally:
                active.resume()
            postgres.until(active.is_standby, "the stopped one stands by")
            assert late.result(timeout=TAKE_OVER_SECS) == []
    with direct(other) as client, client.get_queue_receiver("short") as receiver:
        assert receiver.receive_messages(max_message_count=10, max_wait_time=1) == []
    assert other.is_ready()


def test_a_reload_that_waits_for_the_database_keeps_no_term_from_ending(pair, server):
    active = pair.active
    active.config.write_text(active.config.read_text() + '\n[[queues]]\nname = "late"\n')
    says = lambda text: lambda: text in active.log.read_text()
    server.pause()
    try:
        active.process.send_signal(signal.SIGHUP)
        postgres.until(says("reading the configuration again"), "the reload begins")
        active.process.send_signal(signal.SIGTERM)
        postgres.until(says("reloaded; changes: 0"), "the reload gives way")
    finally:
        server.resume()
    assert active.process.wait(timeout=TAKE_OVER_SECS) == 0


def receive_or_fail(receiver) -> list:
    try:
        return receiver.receive_messages(max_message_count=10, max_wait_time=20)
    except ServiceBusError:
        return []


@pytest.mark.skipif("PEEKLOCK_MEASURE" not in os.environ, reason="takes minutes; set PEEKLOCK_MEASURE")
def test_how_long_a_take_over_of_many_messages_takes(pair):
    active = pair.active
    other = pair.other(active)
    pair.wait_for_standby(other)
    count = int(os.environ["PEEKLOCK_MEASURE"])
    with pair.client() as client, client.get_queue_sender("orders") as sender:
        for start in range(0, count, 4_000):
            batch = sender.create_message_batch()
            for number in range(start, min(start + 4_000, count)):
                batch.add_message(ServiceBusMessage("x" * 20))
            sender.send_messages(batch)
    active.kill()
    text = "this node has the lease"
    postgres.until(lambda: text in other.log.read_text(), "the lease is free")
    began = time.monotonic()
    with ServiceBusClient.from_connection_string(CONNECTION_STRING.format(port=other.amqp_port)) as client:
        with client.get_queue_receiver("orders") as receiver:
            assert receiver.receive_messages(max_message_count=1, max_wait_time=60)
    print(f"{count} messages: first delivery {time.monotonic() - began:.2f} s after the lease was free")
