"""Complete, abandon, defer, dead-letter: on the link and through `$management`, and their delivery counts."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageAlreadySettled

from bus import DEAD_LETTER, bodies, body, nothing, one, take


async def test_complete_many_out_of_order(bus, queue):
    await bus.send(queue, [ServiceBusMessage(f"{n}") for n in range(20)])
    receiver = await bus.open_receiver(queue)
    messages = await take(receiver, 20)
    for message in messages[::-2] + messages[::2]:
        await receiver.complete_message(message)
    assert await bus.peek(queue) == []


async def test_abandon_brings_the_message_back_in_its_place_and_counts(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"first"), ServiceBusMessage(b"second"))
    receiver = await bus.open_receiver(queue)
    for count in range(4):
        message = await one(receiver)
        assert (body(message), message.delivery_count) == (b"first", count)
        assert message.sequence_number == 1
        await receiver.abandon_message(message)


async def test_each_delivery_has_its_own_lock_token(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    tokens = set()
    for _ in range(3):
        message = await one(receiver)
        tokens.add(message.lock_token)
        await receiver.abandon_message(message)
    assert len(tokens) == 3


async def test_the_last_allowed_failure_dead_letters_at_once(bus, queues):
    """With max_delivery_count = 3 the third abandon moves the message, without a further receive."""
    queue = queues.take("three_tries")
    await bus.send(queue, ServiceBusMessage(b"poison", message_id="poison"))
    receiver = await bus.open_receiver(queue)
    for count in range(3):
        message = await one(receiver)
        assert message.delivery_count == count
        await receiver.abandon_message(message)
    assert await bus.peek(queue) == []
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (dead.message_id, body(dead)) == ("poison", b"poison")
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert "3" in dead.dead_letter_error_description


async def test_with_one_try_the_first_abandon_dead_letters(bus, queues):
    queue = queues.take("one_try")
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    await receiver.abandon_message(await one(receiver))
    assert await nothing(receiver)
    assert len(await bus.drain(queue, 1, sub_queue=DEAD_LETTER)) == 1


async def test_defer_hides_the_message(bus, queue):
    """S-34, S-35, S-37, S-38, S-39."""
    await bus.send(queue, ServiceBusMessage(b"later"))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.defer_message(message)
    assert await nothing(receiver)
    (seen,) = await bus.peek(queue)
    assert seen.state.name == "DEFERRED"
    assert seen.sequence_number == message.sequence_number


async def test_dead_letter_with_reason_and_description(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"bad", message_id="m", application_properties={"own": 1}))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.dead_letter_message(message, reason="because", error_description="it is bad")
    assert await bus.peek(queue) == []
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (dead.message_id, body(dead)) == ("m", b"bad")
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("because", "it is bad")
    assert dead.application_properties[b"DeadLetterReason"] == b"because"
    assert dead.application_properties[b"DeadLetterErrorDescription"] == b"it is bad"
    assert dead.application_properties[b"own"] == 1
    assert dead.sequence_number == message.sequence_number


async def test_dead_letter_without_a_reason(bus, queue):
    await bus.send(queue, ServiceBusMessage(b"bad"))
    receiver = await bus.open_receiver(queue)
    await receiver.dead_letter_message(await one(receiver))
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert not dead.dead_letter_reason
    assert not dead.dead_letter_error_description


async def test_a_message_is_settled_once(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    receiver = await bus.open_receiver(queue)
    message = await one(receiver)
    await receiver.complete_message(message)
    for settle in (receiver.complete_message, receiver.abandon_message, receiver.dead_letter_message):
        with pytest.raises(MessageAlreadySettled):
            await settle(message)


@pytest.mark.parametrize("operation", ["complete", "abandon", "defer", "dead_letter"])
async def test_another_connection_settles_with_the_lock_token(bus, queue, operation):
    """Through `$management`: the SDK falls back to it when the delivery is not of its own link."""
    await bus.send(queue, ServiceBusMessage(b"shared"))
    holder = await bus.open_receiver(queue)
    message = await one(holder)
    other = await bus.open_receiver(queue)
    await getattr(other, f"{operation}_message")(message)

    if operation == "abandon":
        again = await one(other)
        assert (body(again), again.delivery_count) == (b"shared", 1)
    elif operation == "dead_letter":
        assert bodies(await bus.drain(queue, 1, sub_queue=DEAD_LETTER)) == [b"shared"]
    else:
        states = [m.state.name for m in await bus.peek(queue)]
        assert states == (["DEFERRED"] if operation == "defer" else [])


async def test_a_message_can_be_settled_after_its_receiver_was_closed(bus, queue):
    """On a plain queue a lock outlives its link and its connection."""
    await bus.send(queue, ServiceBusMessage(b""))
    async with bus.receiver(queue) as receiver:
        message = await one(receiver)
    assert len(await bus.peek(queue)) == 1
    other = await bus.open_receiver(queue)
    assert await nothing(other)
    await other.complete_message(message)
    assert await bus.peek(queue) == []


async def test_a_dead_lettered_message_of_another_connection_keeps_its_reason(bus, queue):
    await bus.send(queue, ServiceBusMessage(b""))
    holder = await bus.open_receiver(queue)
    message = await one(holder)
    other = await bus.open_receiver(queue)
    await other.dead_letter_message(message, reason="r", error_description="d")
    (dead,) = await bus.drain(queue, 1, sub_queue=DEAD_LETTER)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
