// Receiving by every method of the SDK, and every way to settle.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DEAD_LETTER, Daemon, PATIENCE_MS, bodies, drain, nothing, numbers, one, peek, range, send, take, until, withClient } from "./harness.mjs";

describe("receiving", { concurrency: 6 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));

  it("peek-lock keeps the message until it is completed", withQueue(async (client, queue) => {
    await send(client, queue, { body: "kept" });
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    assert.match(message.lockToken, /^[0-9a-f-]{36}$/);
    assert(message.lockedUntilUtc > message.enqueuedTimeUtc);
    assert.equal((await peek(client, queue)).length, 1);
    await receiver.completeMessage(message);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("receive-and-delete removes at once", withQueue(async (client, queue) => {
    await send(client, queue, { body: "gone" });
    const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    const message = await one(receiver);
    assert.equal(message.lockToken, undefined);
    assert.equal((await peek(client, queue)).length, 0);
    await assert.rejects(receiver.completeMessage(message), /not supported/);
  }));

  it("draining an empty queue again and again loses nothing", withQueue(async (client, queue) => {
    const receiver = client.createReceiver(queue);
    for (const n of range(4)) {
      assert(await nothing(receiver));
      await send(client, queue, { body: n });
      const message = await one(receiver);
      assert.equal(message.body, n);
      assert.equal(message.deliveryCount, 0);
      await receiver.completeMessage(message);
    }
  }));

  it("a receive returns the available messages, and the rest of its credit is drained", withQueue(async (client, queue) => {
    await send(client, queue, range(3).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const messages = await receiver.receiveMessages(10, { maxWaitTimeInMs: PATIENCE_MS });
    assert.deepEqual(bodies(messages), [0, 1, 2]);
    await send(client, queue, { body: "later" });
    const other = client.createReceiver(queue);
    assert.equal((await one(other)).body, "later");
  }));

  it("a waiting receive gets a message that is sent meanwhile", withQueue(async (client, queue) => {
    const receiver = client.createReceiver(queue);
    const waiting = receiver.receiveMessages(1, { maxWaitTimeInMs: PATIENCE_MS });
    await send(client, queue, { body: "awaited" });
    assert.deepEqual(bodies(await waiting), ["awaited"]);
  }));

  it("an iterator gives one message after the other", withQueue(async (client, queue) => {
    await send(client, queue, range(10).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const received = [];
    for await (const message of receiver.getMessageIterator()) {
      received.push(message.body);
      await receiver.completeMessage(message);
      if (received.length === 10) break;
    }
    assert.deepEqual(received, range(10));
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("a subscription completes the messages of its handler", withQueue(async (client, queue) => {
    const receiver = client.createReceiver(queue);
    const received = [];
    const failures = [];
    const subscription = receiver.subscribe(
      {
        processMessage: async (message) => void received.push(message.body),
        processError: async ({ error }) => void failures.push(error),
      },
      { maxConcurrentCalls: 5 },
    );
    await send(client, queue, ...range(50).map((body) => ({ body })));
    await until(() => received.length === 50, "the fiftieth message");
    await subscription.close();
    assert.deepEqual(received.sort((a, b) => a - b), range(50));
    assert.deepEqual(failures, []);
    await until(async () => (await peek(client, queue)).length === 0, "an empty queue");
  }));

  it("a handler that throws abandons the message", withQueue(async (client, queue) => {
    await send(client, queue, { body: "poison" });
    const receiver = client.createReceiver(queue);
    const counts = [];
    const subscription = receiver.subscribe({
      processMessage: async (message) => {
        counts.push(message.deliveryCount);
        throw new Error("on purpose");
      },
      processError: async () => {},
    });
    const dead = await until(async () => (await peek(client, queue, DEAD_LETTER))[0], "the dead-lettered message");
    await subscription.close();
    assert.deepEqual(counts, [0, 1]);
    assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
  }, "two_tries"));

  it("competing subscriptions share the messages without repeats", withQueue(async (client, queue) => {
    const received = [];
    const clients = range(5).map(() => daemon.client());
    const subscriptions = clients.map((each) =>
      each.createReceiver(queue).subscribe(
        { processMessage: async (message) => void received.push(message.body), processError: async () => {} },
        { maxConcurrentCalls: 4 },
      ),
    );
    await send(client, queue, ...range(10).map((k) => range(20).map((n) => ({ body: `${k}:${n}` }))));
    await until(() => received.length >= 200, "the last message");
    await Promise.all(subscriptions.map((each) => each.close()));
    await Promise.all(clients.map((each) => each.close()));
    assert.equal(new Set(received).size, 200);
    assert.equal(received.length, 200);
  }));

  it("abandon returns the message to its place, with changed properties", withQueue(async (client, queue) => {
    await send(client, queue, { body: 1, applicationProperties: { kept: "k", changed: "old" } }, { body: 2 });
    const receiver = client.createReceiver(queue);
    const first = await one(receiver);
    // The SDK sends a date as its milliseconds here.
    await receiver.abandonMessage(first, { changed: "new", added: 5, when: new Date(1_000) });
    const again = await one(receiver);
    assert.equal(again.body, 1);
    assert.equal(again.deliveryCount, 1);
    assert.notEqual(again.lockToken, first.lockToken);
    assert.deepEqual(again.applicationProperties, { kept: "k", changed: "new", added: 5, when: 1_000 });
  }));

  it("defer keeps the message aside, with changed properties", withQueue(async (client, queue) => {
    await send(client, queue, { body: "later" });
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    await receiver.deferMessage(message, { note: "n" });
    assert(await nothing(receiver));
    assert.equal((await peek(client, queue))[0].state, "deferred");
    const other = client.createReceiver(queue);
    const [found] = await other.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(found.body, "later");
    assert.equal(found.deliveryCount, 1);
    assert.equal(found.state, "deferred");
    assert.deepEqual(found.applicationProperties, { note: "n" });
    assert(found.lockToken);
    await other.completeMessage(found);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("no settlement sets a property that is a list or a map", withQueue(async (client, queue) => {
    const receiver = client.createReceiver(queue);
    const settlements = {
      abandoned: (message, value) => receiver.abandonMessage(message, { note: value }),
      deferred: (message, value) => receiver.deferMessage(message, { note: value }),
      "dead-lettered": (message, value) => receiver.deadLetterMessage(message, { deadLetterReason: "why", note: value }),
    };
    for (const [body, settle] of Object.entries(settlements)) {
      for (const value of [{ k: 1 }, [1]]) {
        await send(client, queue, { body, applicationProperties: { note: "n" } });
        await assert.rejects(settle(await one(receiver), value), /'note' is a list, a map or an array/);
      }
      await send(client, queue, { body });
      const message = await one(receiver);
      await receiver.deferMessage(message);
      const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
      await assert.rejects(settle(deferred, { k: 1 }), /'note' is a list, a map or an array/);
      await receiver.completeMessage(deferred);
    }
    const left = (await peek(client, queue)).map(({ state, applicationProperties }) => [state, applicationProperties]);
    assert.deepEqual(left, range(6).map(() => ["active", { note: "n" }]));
  }));

  it("deferred messages are abandoned, deferred again and dead-lettered", withQueue(async (client, queue) => {
    await send(client, queue, { body: "d" });
    const receiver = client.createReceiver(queue);
    const { sequenceNumber, ...rest } = await one(receiver);
    await receiver.deferMessage({ sequenceNumber, ...rest });
    const next = async () => (await receiver.receiveDeferredMessages([sequenceNumber]))[0];
    await receiver.abandonMessage(await next(), { round: 1 });
    await receiver.deferMessage(await next(), { round: 2 });
    const last = await next();
    assert.equal(last.deliveryCount, 3);
    assert.deepEqual(last.applicationProperties, { round: 2 });
    await receiver.deadLetterMessage(last, { deadLetterReason: "r", deadLetterErrorDescription: "d", round: 3 });
    const [dead] = await drain(client, queue, 1, DEAD_LETTER);
    assert.equal(dead.deadLetterReason, "r");
    assert.equal(dead.applicationProperties.round, 3);
  }));

  it("a deferred message with a session id is settled where there are no sessions", withQueue(async (client, queue) => {
    await send(client, queue, ...range(3).map((body) => ({ body, sessionId: "s" })));
    const receiver = client.createReceiver(queue);
    const all = await take(receiver, 3);
    for (const message of all) await receiver.deferMessage(message);
    const settlements = ["completeMessage", "abandonMessage", "deadLetterMessage"];
    for (const [index, { sequenceNumber }] of all.entries()) {
      const [deferred] = await receiver.receiveDeferredMessages(sequenceNumber);
      assert.equal(deferred.sessionId, "s");
      await receiver.renewMessageLock(deferred);
      await receiver[settlements[index]](deferred);
    }
    assert.deepEqual(bodies(await peek(client, queue)), [1]);
    const dead = client.createReceiver(queue, DEAD_LETTER);
    await dead.deferMessage(await one(dead));
    const [{ sequenceNumber }] = await peek(client, queue, DEAD_LETTER);
    await dead.completeMessage((await dead.receiveDeferredMessages(sequenceNumber))[0]);
    assert.equal((await peek(client, queue, DEAD_LETTER)).length, 0);
  }));

  it("deferred messages in receive-and-delete mode", withQueue(async (client, queue) => {
    await send(client, queue, range(3).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const messages = await take(receiver, 3);
    for (const message of messages) await receiver.deferMessage(message);
    const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    const all = messages.map((message) => message.sequenceNumber);
    assert.deepEqual(bodies(await deleting.receiveDeferredMessages(all)), [0, 1, 2]);
    await assert.rejects(deleting.receiveDeferredMessages(all), { code: "MessageNotFound" });
  }));

  it("dead-letter with reason, description and properties", withQueue(async (client, queue) => {
    await send(client, queue, { body: "bad", messageId: "m", applicationProperties: { own: 1 } });
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    await receiver.deadLetterMessage(message, { deadLetterReason: "r", deadLetterErrorDescription: "d", extra: "e" });
    const [seen] = await peek(client, queue, DEAD_LETTER);
    assert.equal(seen.deadLetterReason, "r");
    const dead = client.createReceiver(queue, DEAD_LETTER);
    const found = await one(dead);
    assert.equal(found.messageId, "m");
    assert.equal(found.deadLetterReason, "r");
    assert.equal(found.deadLetterErrorDescription, "d");
    assert.deepEqual(found.applicationProperties, { own: 1, extra: "e", DeadLetterReason: "r", DeadLetterErrorDescription: "d" });
    await dead.completeMessage(found);
    assert.equal((await peek(client, queue, DEAD_LETTER)).length, 0);
  }));

  it("dead-letter without a reason", withQueue(async (client, queue) => {
    await send(client, queue, { body: "bad" });
    const receiver = client.createReceiver(queue);
    await receiver.deadLetterMessage(await one(receiver));
    const [dead] = await drain(client, queue, 1, DEAD_LETTER);
    assert(!dead.deadLetterReason);
  }));

  it("a hundred completions at once", withQueue(async (client, queue) => {
    await send(client, queue, range(100).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const messages = await take(receiver, 100);
    await Promise.all(messages.map((message) => receiver.completeMessage(message)));
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("three thousand unsettled deliveries fit the session window", withQueue(async (client, queue) => {
    for (const _ of range(3)) await send(client, queue, range(1_000).map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const first = await take(receiver, 1_500);
    await Promise.all(first.map((message) => receiver.completeMessage(message)));
    const second = await take(receiver, 1_500);
    await Promise.all(second.map((message) => receiver.completeMessage(message)));
    assert.deepEqual(numbers([...first, ...second]), range(3_000).map((n) => n + 1));
  }));

  it("a message is settled after its receiver was closed", withQueue(async (client, queue) => {
    await send(client, queue, { body: "kept" });
    const first = client.createReceiver(queue);
    const message = await one(first);
    await first.close();
    const second = client.createReceiver(queue);
    assert(await nothing(second));
    await second.completeMessage(message);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("closing a receiver that waits leaves its messages to others", withQueue(async (client, queue) => {
    const first = client.createReceiver(queue);
    const waiting = first.receiveMessages(10, { maxWaitTimeInMs: 2_000 }).catch(() => []);
    await first.close();
    await waiting;
    await send(client, queue, { body: "free" });
    const second = client.createReceiver(queue);
    assert.equal((await one(second)).body, "free");
  }));
});
