"""Transactions by the controller of a generic AMQP 1.0 client, Apache Qpid Proton."""

import proton
import pytest
from proton.handlers import TransactionalClientHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

from test_proton import IDENTITY, TIMEOUT_SECS, receive, send


@pytest.fixture
def connection(daemon):
    connection = BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY)
    yield connection
    connection.close()


class Controller(TransactionalClientHandler):
    """Runs `work(self, transaction)` in one transaction for each of `ends`, which says whether it is committed."""

    def __init__(self, port, queue, ends, work, credit=0):
        super().__init__(prefetch=0, auto_accept=False)
        self.url = f"amqp://127.0.0.1:{port}"
        self.queue, self.ends, self.work, self.credit = queue, list(ends), work, credit
        self.deliveries, self.results, self.failed = [], [], None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False, **IDENTITY)
        self.sender = event.container.create_sender(self.connection, self.queue)
        if self.credit:
            self.receiver = event.container.create_receiver(self.connection, self.queue)
            self.receiver.flow(self.credit)
        else:
            self.declare()
        self.timer = event.container.schedule(TIMEOUT_SECS, self)

    def on_timer_task(self, event):
        self.end("too late")

    def declare(self):
        self.container.declare_transaction(self.connection, handler=self)

    def on_message(self, event):
        self.deliveries.append((event.delivery, event.message.body))
        if len(self.deliveries) == self.credit:
            self.declare()

    def on_transaction_declared(self, event):
        self.work(self, event.transaction)
        if self.ends.pop(0):
            event.transaction.commit()
        else:
            event.transaction.abort()

    def on_transaction_committed(self, event):
        self.go_on("committed")

    def on_transaction_aborted(self, event):
        self.go_on("aborted")

    def on_transaction_declare_failed(self, event):
        self.end("not declared")

    def on_transaction_commit_failed(self, event):
        self.end("not committed")

    def go_on(self, result):
        self.results.append(result)
        if self.ends:
            self.declare()
        else:
            self.end(None)

    def end(self, failure):
        self.failed = failure
        self.timer.cancel()
        self.connection.close()

    def run_to_the_end(self):
        Container(self).run()
        assert self.failed is None


def test_transactions_one_after_the_other(daemon, connection, queue):
    def work(controller, transaction):
        for number in range(3):
            transaction.send(controller.sender, proton.Message(f"{len(controller.results)}:{number}"))

    controller = Controller(daemon.amqp_port, queue, [True, False, True], work)
    controller.run_to_the_end()
    assert controller.results == ["committed", "aborted", "committed"]
    expected = [f"{transaction}:{number}" for transaction in (0, 2) for number in range(3)]
    assert [message.body for message in receive(connection, queue, 6)] == expected


@pytest.mark.parametrize("commits", [True, False])
def test_received_and_sent_in_one_transaction(daemon, connection, queue, commits):
    send(connection, queue, proton.Message("old 1"), proton.Message("old 2"))

    def work(controller, transaction):
        for delivery, body in controller.deliveries:
            transaction.accept(delivery)
            transaction.send(controller.sender, proton.Message(body.replace("old", "new")))

    Controller(daemon.amqp_port, queue, [commits], work, credit=2).run_to_the_end()
    # After a roll-back Proton releases its messages.
    expected = ["new 1", "new 2"] if commits else ["old 1", "old 2"]
    assert [message.body for message in receive(connection, queue, 2)] == expected
    with pytest.raises(proton.Timeout):
        connection.create_receiver(queue, credit=1).receive(0.5)


def keyed(key: str | None, body: str = "x") -> proton.Message:
    """A message with a partition key."""
    annotations = None if key is None else {proton.symbol("x-opt-partition-key"): key}
    return proton.Message(body, annotations=annotations)


@pytest.fixture
def partitioned(queues):
    return queues.take("partitioned")


@pytest.mark.parametrize("second_key", ["2", None])
def test_a_transaction_on_a_partitioned_queue_has_one_key(daemon, connection, partitioned, second_key):
    """With the keys of the live test of Service Bus's client for .NET."""

    def work(controller, transaction):
        transaction.send(controller.sender, keyed("1"))
        transaction.send(controller.sender, keyed(second_key))

    controller = Controller(daemon.amqp_port, partitioned, [True], work)
    Container(controller).run()
    assert controller.failed == "not committed"
    receiver = connection.create_receiver(partitioned, credit=1)
    with pytest.raises(proton.Timeout):
        receiver.receive(0.5)
    receiver.close()

    def work_of_one_key(controller, transaction):
        for text in ("a", "b"):
            transaction.send(controller.sender, keyed("1", text))

    Controller(daemon.amqp_port, partitioned, [True], work_of_one_key).run_to_the_end()
    assert [message.body for message in receive(connection, partitioned, 2)] == ["a", "b"]


@pytest.mark.parametrize("keys", [("1", "1"), ("1", "2")])
def test_a_transaction_on_a_partitioned_queue_settles_messages_of_one_partition(
    daemon, connection, partitioned, keys
):
    send(connection, partitioned, *[keyed(key, f"{number}") for number, key in enumerate(keys)])

    def work(controller, transaction):
        for delivery, _ in controller.deliveries:
            transaction.accept(delivery)

    controller = Controller(daemon.amqp_port, partitioned, [True], work, credit=2)
    Container(controller).run()
    if keys[0] == keys[1]:
        assert controller.failed is None
        with pytest.raises(proton.Timeout):
            connection.create_receiver(partitioned, credit=1).receive(0.5)
    else:
        assert controller.failed == "not committed"
        assert sorted(message.body for message in receive(connection, partitioned, 2)) == ["0", "1"]


def test_the_basic_tier_has_no_transactions(start_daemon):
    daemon = start_daemon('[namespace]\nname = "shop"\ntier = "basic"\n[[queues]]\nname = "q"\n')
    refused = []

    class Refused(Controller):
        def on_link_error(self, event):
            refused.append(event.link.remote_condition)
            self.end("refused")

    controller = Refused(daemon.amqp_port, "q", [True], lambda *_: None)
    Container(controller).run()
    (condition,) = refused
    words = "Transaction is unsupported because the namespace shop is of 'Basic' tier."
    assert (condition.name, condition.description.startswith(words)) == ("amqp:not-allowed", True)
