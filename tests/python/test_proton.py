"""A generic AMQP 1.0 client, Apache Qpid Proton: no CBS, no `$management`, its own idea of every default."""

import uuid

import proton
import proton.reactor
import proton.utils
import pytest
from proton.utils import BlockingConnection
from proton.reactor import AtLeastOnce, AtMostOnce

TIMEOUT_SECS = 20

#: The emulator's rule.
IDENTITY = {
    "allowed_mechs": "PLAIN",
    "allow_insecure_mechs": True,
    "user": "RootManageSharedAccessKey",
    "password": "SAS_KEY_VALUE",
}


@pytest.fixture
def connection(daemon):
    connection = BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY)
    yield connection
    connection.close()


def send(connection, queue, *messages):
    sender = connection.create_sender(queue)
    outcomes = [sender.send(message).remote_state for message in messages]
    sender.close()
    assert outcomes == [proton.Delivery.ACCEPTED] * len(messages)


def receive(connection, queue, count=1):
    receiver = connection.create_receiver(queue, credit=count)
    messages = []
    for _ in range(count):
        messages.append(receiver.receive(TIMEOUT_SECS))
        receiver.accept()
    receiver.close()
    return messages


def test_send_receive_accept(connection, queue):
    send(connection, queue, *[proton.Message(f"{n}") for n in range(10)])
    assert [m.body for m in receive(connection, queue, 10)] == [f"{n}" for n in range(10)]


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"user": "nobody"}, {"password": ""}])
def test_plain_authentication_takes_the_name_and_a_key_of_a_rule(daemon, wrong):
    with pytest.raises(proton.ConnectionException, match="unauthorized-access"):
        BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY | wrong)


#: Every primitive type of AMQP that an application property may have.
PROPERTIES = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": proton.ubyte(255),
    "byte": proton.byte(-128),
    "ushort": proton.ushort(65535),
    "short": proton.short(-32768),
    "uint": proton.uint(2**32 - 1),
    "int": proton.int32(-(2**31)),
    "ulong": proton.ulong(2**64 - 1),
    "long": -(2**63),
    "float": proton.float32(0.5),
    "double": 1.5e300,
    "char": proton.char("ž"),
    "timestamp": proton.timestamp(1767323045678),
    "uuid": uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    "binary": b"\x00\xff",
    "string": "text",
    "symbol": proton.symbol("symbol"),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_application_properties_keep_their_amqp_type(connection, queue, name):
    sent = PROPERTIES[name]
    send(connection, queue, proton.Message("", properties={"key": sent}))
    # Proton returns binary as a view of the message, which must be kept alive.
    (received,) = receive(connection, queue)
    value = received.properties["key"]
    assert type(value) is (memoryview if type(sent) is bytes else type(sent))
    assert value == sent


#: 1.2345 as Service Bus writes it, for .NET and Python.
DECIMAL = proton.decimal128((12 << 120 | 28 << 113 | 12345).to_bytes(16, "big"))


@pytest.mark.parametrize(
    "sent",
    [
        DECIMAL,
        proton.decimal128((6172 << 113 | 12345).to_bytes(16, "big")),
        proton.decimal64(394 << 53 | 12345),
        proton.decimal32(97 << 23 | 12345),
    ],
    ids=["as Service Bus writes it", "128 bits", "64 bits", "32 bits"],
)
def test_decimals_come_as_service_bus_writes_them(connection, queue, sent):
    send(connection, queue, proton.Message("", properties={"key": sent}))
    value = receive(connection, queue)[0].properties["key"]
    assert (type(value), value) == (proton.decimal128, DECIMAL)


def test_a_life_longer_than_a_header_can_hold_is_given_by_two_times(connection, queue):
    life_secs = 100 * 24 * 3600
    send(connection, queue, proton.Message("", ttl=(2**32 - 1) / 1000, creation_time=1, expiry_time=1 + life_secs))
    received = receive(connection, queue)[0]
    assert received.expiry_time - received.creation_time == life_secs
    assert received.creation_time > 1_700_000_000, "its life began when it was enqueued"


#: Proton's types for ids: it has no class of its own for them.
PROTON_ID_TYPES = {proton.ulong: int, bytes: memoryview}


@pytest.mark.parametrize(
    "message_id",
    ["text", proton.ulong(2**63), uuid.UUID(int=9), b"binary"],
    ids=["string", "ulong", "uuid", "binary"],
)
def test_message_ids_of_every_type_come_back(connection, queue, message_id):
    send(connection, queue, proton.Message("", id=message_id, correlation_id=message_id))
    received = receive(connection, queue)[0]
    assert (received.id, received.correlation_id) == (message_id, message_id)
    assert type(received.id) is PROTON_ID_TYPES.get(type(message_id), type(message_id))


BODIES = {
    "null": None,
    "string": "text",
    "binary": b"bytes",
    "list": [1, "two", [3.0, None]],
    "map": {"key": {"deep": [1, 2]}},
    "described": proton.Described(proton.symbol("com.example:type"), [1, 2, 3]),
    "array": proton.Array(proton.UNDESCRIBED, proton.Data.INT, 1, 2, 3),
    "uuid": uuid.UUID(int=1),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_every_shape_come_back(connection, queue, name):
    send(connection, queue, proton.Message(BODIES[name]))
    assert receive(connection, queue)[0].body == BODIES[name]


def test_a_message_of_many_frames(daemon, queue):
    """The client allows frames of 512 bytes, the minimum of the standard, in both directions."""
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, **IDENTITY, max_frame_size=512
    )
    sent = bytes(range(256)) * 400
    send(connection, queue, proton.Message(sent))
    assert receive(connection, queue)[0].body == sent
    connection.close()


def test_release_gives_back_and_does_not_count(connection, queue):
    send(connection, queue, proton.Message("again"))
    receiver = connection.create_receiver(queue, credit=2)
    first = receiver.receive(TIMEOUT_SECS)
    receiver.release(delivered=False)
    second = receiver.receive(TIMEOUT_SECS)
    receiver.accept()
    assert (first.body, second.body) == ("again", "again")
    assert second.delivery_count == 0


def test_modified_gives_back_and_counts(connection, queue):
    send(connection, queue, proton.Message("again"))
    receiver = connection.create_receiver(queue, credit=2)
    assert receiver.receive(TIMEOUT_SECS).delivery_count == 0
    receiver.release(delivered=True)
    assert receiver.receive(TIMEOUT_SECS).delivery_count == 1
    receiver.accept()


def test_reject_dead_letters(connection, queue):
    send(connection, queue, proton.Message("bad"))
    receiver = connection.create_receiver(queue, credit=1)
    receiver.receive(TIMEOUT_SECS)
    receiver.reject()
    receiver.close()
    (dead,) = receive(connection, f"{queue}/$DeadLetterQueue")
    assert dead.body == "bad"


def test_at_most_once_both_ways(connection, queue):
    """Pre-settled sends are stored; a settled delivery leaves the queue at once."""
    sender = connection.create_sender(queue, options=AtMostOnce())
    sender.send(proton.Message("settled"))
    sender.close()
    receiver = connection.create_receiver(queue, credit=1, options=AtMostOnce())
    assert receiver.receive(TIMEOUT_SECS).body == "settled"
    receiver.close()
    other = connection.create_receiver(queue, credit=1, options=AtLeastOnce())
    with pytest.raises(proton.Timeout):
        other.receive(0.5)


def test_draining_an_empty_and_a_filled_queue(connection, queue):
    receiver = connection.create_receiver(queue, credit=0)
    receiver.link.drain(5)
    connection.wait(lambda: receiver.link.credit == 0, msg="the answer to drain")
    send(connection, queue, proton.Message("one"), proton.Message("two"))
    receiver.link.drain(5)
    connection.wait(lambda: receiver.link.credit == 0, msg="the answer to drain")
    assert [receiver.receive(TIMEOUT_SECS).body for _ in range(2)] == ["one", "two"]


def test_an_unknown_queue_is_refused(connection):
    with pytest.raises(proton.utils.LinkDetached) as error:
        connection.create_receiver("no-such-queue")
    assert error.value.condition == "amqp:not-found"
    with pytest.raises(proton.utils.LinkDetached):
        connection.create_sender("no-such-queue")


def test_a_message_that_is_too_large_is_rejected(connection, queue):
    sender = connection.create_sender(queue)
    with pytest.raises((proton.utils.SendException, proton.utils.LinkDetached)):
        sender.send(proton.Message(b"x" * (3 * 1024 * 1024)))


def test_many_links_on_one_connection(connection, queues):
    names = [queues.take() for _ in range(5)]
    senders = [connection.create_sender(name, name=f"{name}:{n}") for name in names for n in range(10)]
    for number, sender in enumerate(senders):
        sender.send(proton.Message(f"{number}"))
    for position, name in enumerate(names):
        expected = [f"{n}" for n in range(position * 10, position * 10 + 10)]
        assert [m.body for m in receive(connection, name, 10)] == expected


class Asking(proton.reactor.LinkOption):
    """Requests more messages than there are."""

    def apply(self, link):
        link.snd_settle_mode = proton.Link.SND_UNSETTLED
        link.rcv_settle_mode = proton.Link.RCV_SECOND
        own = link.target if link.is_sender else link.source
        own.durability = proton.Terminus.DELIVERIES
        own.expiry_policy = proton.Terminus.EXPIRE_NEVER
        own.timeout = 60


def promised(terminus):
    return terminus.durability, terminus.expiry_policy, terminus.timeout


def test_an_attach_is_answered_with_the_values_in_force(connection, queue):
    nothing_kept = (proton.Terminus.NONDURABLE, proton.Terminus.EXPIRE_WITH_LINK, 0)
    sender = connection.create_sender(queue, options=Asking()).link
    assert sender.remote_rcv_settle_mode == proton.Link.RCV_FIRST
    assert promised(sender.remote_target) == nothing_kept
    receiver = connection.create_receiver(queue, credit=1, options=Asking()).link
    assert receiver.remote_rcv_settle_mode == proton.Link.RCV_SECOND
    assert promised(receiver.remote_source) == nothing_kept


def test_a_receiver_gets_no_message_larger_than_it_takes(connection, queue):
    class Small(proton.reactor.LinkOption):
        def apply(self, link):
            link.max_message_size = 1000

    send(connection, queue, proton.Message("x" * 2000))
    with pytest.raises(proton.utils.LinkDetached, match="message-size-exceeded"):
        connection.create_receiver(queue, credit=1, options=Small()).receive(TIMEOUT_SECS)
    (message,) = receive(connection, queue)
    assert message.body == "x" * 2000
    assert message.delivery_count == 0


def test_a_message_delivered_again_has_been_acquired_before(connection, queue):
    send(connection, queue, proton.Message("m", first_acquirer=True))
    receiver = connection.create_receiver(queue, credit=1)
    assert receiver.receive(TIMEOUT_SECS).first_acquirer
    receiver.release(delivered=True)
    assert not receiver.receive(TIMEOUT_SECS).first_acquirer
    receiver.accept()
    receiver.close()


def test_an_idle_time_out_that_no_heartbeat_keeps_is_refused(daemon):
    with pytest.raises(proton.ConnectionException, match="not-allowed"):
        BlockingConnection(f"amqp://127.0.0.1:{daemon.amqp_port}", timeout=TIMEOUT_SECS, heartbeat=0.2, **IDENTITY)
