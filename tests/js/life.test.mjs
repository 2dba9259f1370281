// Locks, schedules, browsing, expiry and errors.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, bodies, delay, drain, nothing, numbers, one, peek, range, send, take, until, withClient } from "./harness.mjs";

const HOUR_MS = 3_600_000;
const noRenewal = { maxAutoLockRenewalDurationInMs: 0 };

describe("the life of a message", { concurrency: 12 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));

  // In real time: the SDK renews by its own clock.
  it("a subscription renews the lock of a slow handler", withQueue(async (client, queue) => {
    await send(client, queue, { body: "slow" });
    const counts = [];
    let done = false;
    const subscription = client.createReceiver(queue).subscribe({
      processMessage: async (message) => {
        counts.push(message.deliveryCount);
        await delay(7_000);
        done = true;
      },
      processError: async ({ error }) => assert.fail(error),
    });
    await until(() => done, "the end of the handler");
    await subscription.close();
    assert.deepEqual(counts, [0]);
    await until(async () => (await peek(client, queue)).length === 0, "an empty queue");
  }, "brief_lock"));

  it("scheduling returns numbers, browsing shows the state", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    const when = new Date(Date.now() + 600_000);
    const scheduled = await sender.scheduleMessages(range(5).map((body) => ({ body })), when);
    assert.deepEqual(scheduled.map(Number), [1, 2, 3, 4, 5]);
    const seen = await peek(client, queue);
    assert.deepEqual(seen.map((m) => m.state), Array(5).fill("scheduled"));
    assert.deepEqual(seen[0].scheduledEnqueueTimeUtc, when);
    await sender.cancelScheduledMessages(scheduled);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("cancelling an unknown number fails", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    await assert.rejects(sender.cancelScheduledMessages(Long.fromNumber(4711)), { name: "ServiceBusError", code: "MessageNotFound" });
  }));

  it("browsing goes in pages and from numbers", withQueue(async (client, queue) => {
    await send(client, queue, range(7).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    assert.deepEqual(bodies(await receiver.peekMessages(3)), [0, 1, 2]);
    assert.deepEqual(bodies(await receiver.peekMessages(3)), [3, 4, 5]);
    assert.deepEqual(bodies(await receiver.peekMessages(3)), [6]);
    assert.deepEqual(await receiver.peekMessages(3), []);
    assert.deepEqual(numbers(await receiver.peekMessages(2, { fromSequenceNumber: Long.fromNumber(4) })), [4, 5]);
    const [message] = await receiver.receiveMessages(1);
    assert.equal(message.deliveryCount, 0);
  }));

  it("browsing without message bodies", withQueue(async (client, queue) => {
    await send(client, queue, { body: "x".repeat(1_000), messageId: "m" });
    const [seen] = await client.createReceiver(queue).peekMessages(1, { omitMessageBody: true });
    assert.equal(seen.messageId, "m");
  }));

  it("an expired message is dropped without the flag", withQueue(async (client, queue) => {
    // S-18.
    await send(client, queue, { body: "short", timeToLive: 1 }, { body: "long" });
    const receiver = client.createReceiver(queue);
    assert.equal((await one(receiver)).body, "long");
    assert.deepEqual(bodies(await peek(client, queue)), ["long"]);
    assert.equal((await peek(client, queue, DEAD_LETTER)).length, 0);
  }));

  it("the default time to live applies and caps", withQueue(async (client, queue) => {
    // S-12, S-13.
    await send(client, queue, { body: "default" }, { body: "capped", timeToLive: 25 * HOUR_MS }, { body: "shorter", timeToLive: 1_000 });
    const seen = await peek(client, queue);
    assert.deepEqual(seen.map((m) => m.timeToLive), [HOUR_MS, HOUR_MS, 1_000]);
    assert.deepEqual(seen.map((m) => m.expiresAtUtc - m.enqueuedTimeUtc), [HOUR_MS, HOUR_MS, 1_000]);
  }, "default_ttl"));

  it("an unknown queue is an unknown entity", withQueue(async (client) => {
    const expected = { name: "ServiceBusError", code: "MessagingEntityNotFound" };
    await assert.rejects(client.createSender("no-such-queue").sendMessages({ body: "" }), expected);
    await assert.rejects(client.createReceiver("no-such-queue").receiveMessages(1, { maxWaitTimeInMs: 1_000 }), expected);
    await assert.rejects(client.createReceiver("no-such-queue").peekMessages(1), expected);
    await assert.rejects(client.createReceiver("no-such-queue", DEAD_LETTER).receiveMessages(1), expected);
  }));

  it("a session cannot be accepted on a plain queue", withQueue(async (client, queue) => {
    await assert.rejects(client.acceptSession(queue, "s"), (error) => {
      assert.equal(error.name, "ServiceBusError");
      return true;
    });
    // The client continues.
    await send(client, queue, { body: "fine" });
    assert.deepEqual(bodies(await drain(client, queue, 1)), ["fine"]);
  }));

  it("a message that is too large", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    const body = Buffer.alloc(3 * 1024 * 1024);
    await assert.rejects(sender.sendMessages({ body }), { name: "ServiceBusError", code: "MessageSizeExceeded" });
    await sender.sendMessages({ body: "small" });
    assert.deepEqual(bodies(await drain(client, queue, 1)), ["small"]);
  }));

  it("a full queue refuses until there is room", withQueue(async (client, queue) => {
    const body = Buffer.alloc(600 * 1024);
    const sender = client.createSender(queue);
    await sender.sendMessages({ body });
    await assert.rejects(sender.sendMessages({ body }), { name: "ServiceBusError", code: "QuotaExceeded" });
    await drain(client, queue, 1);
    await sender.sendMessages({ body });
    assert.equal((await peek(client, queue)).length, 1);
  }, "one_megabyte"));

  it("a deferred message that does not exist", withQueue(async (client, queue) => {
    await send(client, queue, { body: "active" });
    const receiver = client.createReceiver(queue);
    await assert.rejects(receiver.receiveDeferredMessages([Long.fromNumber(1)]), { code: "MessageNotFound" });
    await assert.rejects(receiver.receiveDeferredMessages([Long.fromNumber(99)]), { code: "MessageNotFound" });
  }));

  it("a dead letter cannot be dead-lettered again", withQueue(async (client, queue) => {
    await send(client, queue, { body: "" });
    const receiver = client.createReceiver(queue);
    await receiver.deadLetterMessage(await one(receiver));
    const dead = client.createReceiver(queue, DEAD_LETTER);
    const message = await one(dead);
    await assert.rejects(dead.deadLetterMessage(message), { name: "ServiceBusError" });
    // The lock is kept: the message is not delivered, and still exists.
    assert(await nothing(client.createReceiver(queue, DEAD_LETTER)));
    assert.deepEqual(numbers(await peek(client, queue, DEAD_LETTER)), numbers([message]));
  }));
});

// One after the other, because each moves the clock for all.
describe("as time passes", () => {
  let daemon;
  before(async () => (daemon = await new Daemon({ timeTravel: true }).start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));

  // The time limit of a test is shorter than either, so the test does not really wait.
  it("a time to live of an hour and a lock of five minutes pass at once", withQueue(async (client, queue) => {
    await send(client, queue, { body: "slow" }, { body: "short", timeToLive: HOUR_MS });
    const receiver = client.createReceiver(queue, noRenewal);
    const slow = await one(receiver);
    assert(slow.lockedUntilUtc - (await daemon.now()) > 4 * 60_000);
    await daemon.advance("PT5M");
    const again = await one(receiver);
    assert.deepEqual([again.body, again.deliveryCount], ["slow", 1]);
    await daemon.advance("PT1H");
    const last = await one(receiver);
    assert.deepEqual([last.body, last.deliveryCount], ["slow", 2], "what was behind it is gone");
    const [dead] = await peek(client, queue, DEAD_LETTER);
    assert.deepEqual([dead.body, dead.deadLetterReason], ["short", "TTLExpiredException"]);
  }, "long_lock_dead_letter_on_expiry"));

  it("connections do not notice", withQueue(async (client, queue) => {
    // A day passes for messages, but not for the idle time-outs of clients.
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    for (const body of ["before", "after"]) {
      await sender.sendMessages({ body });
      const message = await one(receiver);
      assert.equal(message.body, body);
      await receiver.completeMessage(message);
      await daemon.advance("P1D");
    }
  }));

  it("renewing moves the end of a lock", withQueue(async (client, queue) => {
    await send(client, queue, { body: "" });
    const receiver = client.createReceiver(queue, noRenewal);
    const message = await one(receiver);
    const firstEnd = message.lockedUntilUtc;
    const moved = await daemon.advance("PT30S");
    const renewed = await receiver.renewMessageLock(message);
    assert(renewed > firstEnd);
    assert(renewed - moved >= 60_000 && renewed - (await daemon.now()) <= 60_000, "not additive");
    assert.deepEqual(message.lockedUntilUtc, renewed);
    await receiver.completeMessage(message);
  }));

  it("settling and renewing with a lost lock fail", withQueue(async (client, queue) => {
    await send(client, queue, { body: "" });
    const receiver = client.createReceiver(queue, noRenewal);
    const message = await one(receiver);
    await daemon.advanceTo(message.lockedUntilUtc);
    await assert.rejects(receiver.completeMessage(message), { name: "ServiceBusError", code: "MessageLockLost" });
    await assert.rejects(receiver.renewMessageLock(message), { name: "ServiceBusError", code: "MessageLockLost" });
    const again = await one(receiver);
    assert.equal(again.deliveryCount, 1);
    assert.notEqual(again.lockToken, message.lockToken);
    await receiver.completeMessage(again);
  }));

  it("a lost lock of a closed receiver fails in management", withQueue(async (client, queue) => {
    await send(client, queue, { body: "" });
    const first = client.createReceiver(queue, noRenewal);
    const message = await one(first);
    await first.close();
    await daemon.advanceTo(message.lockedUntilUtc);
    const second = client.createReceiver(queue, noRenewal);
    await assert.rejects(second.completeMessage(message), { code: "MessageLockLost" });
    assert.equal((await one(second)).deliveryCount, 1);
  }));

  it("a scheduled message comes at its time with a new number", withQueue(async (client, queue) => {
    const when = new Date(+(await daemon.now()) + HOUR_MS);
    const sender = client.createSender(queue);
    const [number, cancelled] = await sender.scheduleMessages([{ body: "due", messageId: "id" }, { body: "never" }], when);
    await sender.cancelScheduledMessages(cancelled);
    await sender.sendMessages({ body: "carried", scheduledEnqueueTimeUtc: when });
    await daemon.advanceTo(when);
    const messages = await drain(client, queue, 2);
    assert.deepEqual(bodies(messages).sort(), ["carried", "due"]);
    const due = messages.find((m) => m.body === "due");
    assert.equal(due.messageId, "id");
    assert(due.sequenceNumber.greaterThan(number));
    assert(due.enqueuedTimeUtc >= when);
    assert.deepEqual(due.scheduledEnqueueTimeUtc, when);
    await assert.rejects(sender.cancelScheduledMessages(number), { code: "MessageNotFound" });
  }));

  it("an expired message is dead-lettered when a receiver comes, not before", withQueue(async (client, queue) => {
    // S-3, S-4, S-17, S-19. The browsing receiver opens no receiver link.
    await send(client, queue, { body: "short", timeToLive: HOUR_MS, messageId: "m" });
    const [seen] = await peek(client, queue);
    await daemon.advanceTo(seen.expiresAtUtc);
    assert.equal((await peek(client, queue)).length, 1);
    assert.equal((await peek(client, queue, DEAD_LETTER)).length, 0);
    assert(await nothing(client.createReceiver(queue)));
    assert.equal((await peek(client, queue)).length, 0);
    const [dead] = await drain(client, queue, 1, DEAD_LETTER);
    assert.equal(dead.messageId, "m");
    assert.equal(dead.deadLetterReason, "TTLExpiredException");
  }, "dead_letter_on_expiry"));

  it("a waiting receiver makes a locked message expire when it is abandoned", withQueue(async (client, queue) => {
    // S-5, S-6, S-20.
    await send(client, queue, { body: "short", timeToLive: 30_000 });
    const receiver = client.createReceiver(queue, noRenewal);
    const message = await one(receiver);
    await daemon.advanceTo(message.expiresAtUtc);
    await receiver.abandonMessage(message);
    assert(await nothing(receiver));
    const [dead] = await peek(client, queue, DEAD_LETTER);
    assert.equal(dead.deadLetterReason, "TTLExpiredException");
  }, "dead_letter_on_expiry"));
});

describe("persistence", () => {
  it("accepted messages survive SIGKILL in their state", async () => {
    const daemon = await new Daemon().start();
    const queue = daemon.queue();
    await withClient(daemon, async (client) => {
      await send(client, queue, range(100).map((body) => ({ body })));
      const receiver = client.createReceiver(queue);
      const [completed, deferred, dead, abandoned] = await take(receiver, 4);
      await receiver.completeMessage(completed);
      await receiver.deferMessage(deferred, { note: 1 });
      await receiver.deadLetterMessage(dead, { deadLetterReason: "r" });
      await receiver.abandonMessage(abandoned, { tried: true });
      await client.createSender(queue).scheduleMessages({ body: "scheduled" }, new Date(Date.now() + 600_000));
      await daemon.kill();
    });
    await daemon.start();
    await withClient(daemon, async (client) => {
      const seen = await peek(client, queue);
      assert.deepEqual(bodies(seen), [1, ...range(97).map((n) => n + 3), "scheduled"]);
      assert.deepEqual([seen[0].state, seen[1].state, seen.at(-1).state], ["deferred", "active", "scheduled"]);
      assert.deepEqual(seen[0].applicationProperties, { note: 1 });
      assert.deepEqual(seen[1].applicationProperties, { tried: true });
      assert.equal(seen[1].deliveryCount, 1);
      assert.equal((await peek(client, queue, DEAD_LETTER))[0].deadLetterReason, "r");
      const messages = await drain(client, queue, 97);
      assert.deepEqual(bodies(messages), range(97).map((n) => n + 3));
    });
    await daemon.close();
  });

  it("a client finds the restarted daemon by itself", async () => {
    const daemon = await new Daemon().start();
    const queue = daemon.queue();
    await withClient(daemon, async (client) => {
      const sender = client.createSender(queue);
      await sender.sendMessages({ body: 1 });
      await daemon.restart();
      await sender.sendMessages({ body: 2 });
      assert.deepEqual(bodies(await drain(client, queue, 2)), [1, 2]);
    });
    await daemon.close();
  });
});
