"""Accepted messages exist after SIGKILL and a restart, in the same state.

In real time: a restart resets a moved clock to the present.
"""

import asyncio
import datetime

from azure.servicebus import ServiceBusMessage

from bus import DEAD_LETTER, Bus, bodies, body, one, take

UTC = datetime.timezone.utc
QUEUE = "plain-0"


async def restart(daemon):
    daemon.kill()
    daemon.start()


async def test_accepted_messages_survive(own_daemon, flavour):
    sent = dict(message_id="id", subject="s", content_type="c", application_properties={"n": 1})
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(QUEUE, ServiceBusMessage(b"single", **sent))
        await bus.send(QUEUE, [ServiceBusMessage(f"{n}") for n in range(100)])
        await bus.send(QUEUE, ServiceBusMessage(b"x" * 900_000))
        before = await bus.peek(QUEUE)
    await restart(own_daemon)
    async with Bus(flavour, own_daemon.connection_string) as bus:
        after = await bus.drain(QUEUE, 102)
        assert bodies(after) == bodies(before)
        assert [m.sequence_number for m in after] == [m.sequence_number for m in before]
        assert [m.enqueued_time_utc for m in after] == [m.enqueued_time_utc for m in before]
        assert (after[0].message_id, after[0].subject, after[0].content_type) == ("id", "s", "c")
        assert after[0].application_properties == {b"n": 1}


async def test_states_and_counts_survive(own_daemon, flavour):
    """S-43 for the deferred message; a lock does not survive."""
    async with Bus(flavour, own_daemon.connection_string) as bus:
        names = ["deferred", "dead", "abandoned", "completed", "locked"]
        await bus.send(QUEUE, *[ServiceBusMessage(name) for name in names])
        receiver = await bus.open_receiver(QUEUE)
        deferred, dead, abandoned, completed, _locked = await take(receiver, 5)
        await receiver.defer_message(deferred)
        await receiver.dead_letter_message(dead, reason="r", error_description="d")
        await receiver.complete_message(completed)
        await receiver.abandon_message(abandoned)
        later = datetime.datetime.now(UTC) + datetime.timedelta(hours=1)
        async with bus.sender(QUEUE) as sender:
            (scheduled, cancelled) = await sender.schedule_messages(
                [ServiceBusMessage(b"scheduled"), ServiceBusMessage(b"cancelled")], later
            )
            await sender.cancel_scheduled_messages(cancelled)
        await restart(own_daemon)
    async with Bus(flavour, own_daemon.connection_string) as bus:
        seen = [(body(m), m.state.name, m.delivery_count) for m in await bus.peek(QUEUE)]
        assert seen == [
            (b"deferred", "DEFERRED", 1),
            (b"abandoned", "ACTIVE", 1),
            (b"locked", "ACTIVE", seen[2][2]),
            (b"scheduled", "SCHEDULED", 0),
        ]
        assert seen[2][2] in (0, 1)
        (found,) = await bus.peek(QUEUE, sub_queue=DEAD_LETTER)
        assert (body(found), found.dead_letter_reason, found.dead_letter_error_description) == (b"dead", "r", "d")
        receiver = await bus.open_receiver(QUEUE)
        (again,) = await receiver.receive_deferred_messages(deferred.sequence_number)
        assert body(again) == b"deferred"
        assert bodies(await take(receiver, 2)) == [b"abandoned", b"locked"]
        async with bus.sender(QUEUE) as sender:
            await sender.cancel_scheduled_messages(scheduled)


async def test_sequence_numbers_go_on_and_schedules_fire_after_a_restart(own_daemon, flavour):
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage(f"{n}") for n in range(3)])
        await bus.drain(QUEUE, 3)
        soon = datetime.datetime.now(UTC) + datetime.timedelta(seconds=2)
        async with bus.sender(QUEUE) as sender:
            (number,) = await sender.schedule_messages(ServiceBusMessage(b"due"), soon)
        assert number == 4
    await restart(own_daemon)
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(QUEUE, ServiceBusMessage(b"next"))
        messages = sorted(await bus.drain(QUEUE, 2), key=lambda m: m.sequence_number)
        assert min(m.sequence_number for m in messages) >= 5
        assert len({m.sequence_number for m in messages}) == 2
        assert sorted(bodies(messages)) == [b"due", b"next"]


async def test_time_to_live_goes_on_after_a_restart(own_daemon, flavour):
    """S-2: the time of expiry is fixed once the message is enqueued."""
    queue = "dead_letter_on_expiry-0"
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(queue, ServiceBusMessage(b"short", time_to_live=datetime.timedelta(seconds=1)))
        end = (await bus.peek(queue))[0].expires_at_utc
    own_daemon.kill()
    await asyncio.sleep(max(0, (end - datetime.datetime.now(UTC)).total_seconds()))
    own_daemon.start()
    async with Bus(flavour, own_daemon.connection_string) as bus:
        assert await bus.drain_nothing(queue)
        (dead,) = await bus.peek(queue, sub_queue=DEAD_LETTER)
        assert dead.dead_letter_reason == "TTLExpiredException"


async def test_a_client_goes_on_after_a_graceful_stop(own_daemon, flavour):
    """SIGTERM ends with exit code 0, and nothing is lost."""
    async with Bus(flavour, own_daemon.connection_string) as bus:
        await bus.send(QUEUE, ServiceBusMessage(b"kept"))
        receiver = await bus.open_receiver(QUEUE)
        await one(receiver)
        assert own_daemon.stop() == 0
    own_daemon.start()
    async with Bus(flavour, own_daemon.connection_string) as bus:
        assert bodies(await bus.drain(QUEUE, 1)) == [b"kept"]
