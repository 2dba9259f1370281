// Deleting messages without receiving them. The released SDK has no method for it yet, its preview has.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ServiceBusClient } from "service-bus-preview";
import { DEAD_LETTER, Daemon, bodies, createReceiver, peek, range, send, take, until, withClient } from "./harness.mjs";

const impatient = { retryOptions: { maxRetries: 0 } };
const batch = (count) => range(count).map((body) => ({ body }));

describe("deleting messages", { concurrency: 6 }, () => {
  let daemon;
  let client;
  before(async () => {
    daemon = await new Daemon().start();
    client = new ServiceBusClient(daemon.connectionString, impatient);
  });
  after(async () => {
    await client.close();
    await daemon.close();
  });

  it("the oldest go first, at most as many as asked for", async () => {
    const queue = daemon.queue();
    await send(client, queue, batch(5));
    const receiver = client.createReceiver(queue);
    assert.equal(await receiver.deleteMessages({ maxMessageCount: 2 }), 2);
    assert.deepEqual(bodies(await peek(client, queue)), [2, 3, 4]);
    assert.equal(await receiver.deleteMessages({ maxMessageCount: 500 }), 3);
    assert.equal(await receiver.deleteMessages({ maxMessageCount: 500 }), 0);
  });

  it("locked, deferred and scheduled messages stay", async () => {
    const queue = daemon.queue();
    await send(client, queue, batch(4));
    const receiver = client.createReceiver(queue);
    const [deferred, locked] = await take(receiver, 2);
    await receiver.deferMessage(deferred);
    const sender = client.createSender(queue);
    await sender.scheduleMessages({ body: "later" }, new Date(Date.now() + 3_600_000));
    assert.equal(await receiver.purgeMessages(), 2);
    assert.deepEqual(bodies(await peek(client, queue)), [0, 1, "later"]);
    await receiver.completeMessage(locked);
    const [again] = await receiver.receiveDeferredMessages(deferred.sequenceNumber);
    assert.equal(again.body, 0);
  });

  it("messages enqueued after the given time stay", async () => {
    const queue = daemon.queue();
    await send(client, queue, { body: "early" });
    const [early] = await peek(client, queue);
    await until(() => Date.now() > early.enqueuedTimeUtc.getTime() + 2, "a later millisecond");
    await send(client, queue, { body: "late" });
    const receiver = client.createReceiver(queue);
    const beforeEnqueueTime = early.enqueuedTimeUtc;
    assert.equal(await receiver.deleteMessages({ maxMessageCount: 10, beforeEnqueueTime }), 1);
    assert.equal(await receiver.purgeMessages({ beforeEnqueueTime }), 0);
    assert.deepEqual(bodies(await peek(client, queue)), ["late"]);
  });

  it("a purge empties a queue of several batches", async () => {
    const queue = daemon.queue();
    const sender = client.createSender(queue);
    for (const _ of range(9)) await sender.sendMessages(batch(1_000));
    assert.equal(await client.createReceiver(queue).purgeMessages(), 9_000);
    assert.deepEqual(await peek(client, queue), []);
  });

  it("dead letters and subscriptions are purged like queues", async () => {
    const topic = daemon.topic();
    await send(client, topic, batch(3));
    const receiver = createReceiver(client, [topic, "one"]);
    for (const message of await take(receiver, 2)) await receiver.deadLetterMessage(message);
    const dead = createReceiver(client, [topic, "one"], DEAD_LETTER);
    assert.equal(await dead.purgeMessages(), 2);
    assert.equal(await receiver.purgeMessages(), 1);
    assert.equal((await peek(client, [topic, "two"])).length, 3, "the other subscription keeps its copies");
  });

  it("the holder of a session deletes its messages", async () => {
    const queue = daemon.queue("session");
    await send(client, queue, range(6).map((n) => ({ body: n, sessionId: "ab"[n % 2] })));
    const receiver = await client.acceptSession(queue, "a");
    assert.equal(await receiver.deleteMessages({ maxMessageCount: 2 }), 2);
    assert.equal(await receiver.purgeMessages(), 1);
    assert.deepEqual(bodies(await peek(client, queue)), [1, 3, 5]);
    const without = client.createReceiver(queue);
    await assert.rejects(without.deleteMessages({ maxMessageCount: 1 }), /entity that requires sessions/);
  });

  it("a count beyond the limit is refused and deletes nothing", async () => {
    const queue = daemon.queue();
    await send(client, queue, { body: "stays" });
    const receiver = client.createReceiver(queue);
    await assert.rejects(receiver.deleteMessages({ maxMessageCount: 4_001 }), /requested 4001. Message count should be between 1 and 4000/);
    assert.equal((await peek(client, queue)).length, 1);
  });

  it("deleted messages are gone after SIGKILL, and the others are there", async () => {
    const own = await new Daemon().start();
    try {
      const [queue, topic] = [own.queue(), own.topic()];
      await withClient(own, async (plain) => {
        await send(plain, queue, batch(100));
        await send(plain, topic, batch(100));
      });
      const preview = new ServiceBusClient(own.connectionString, impatient);
      for (const source of [queue, [topic, "one"]]) {
        assert.equal(await createReceiver(preview, source).deleteMessages({ maxMessageCount: 60 }), 60);
      }
      await own.restart();
      await preview.close();
      await withClient(own, async (plain) => {
        assert.deepEqual(bodies(await peek(plain, queue)), range(100).slice(60));
        assert.deepEqual(bodies(await peek(plain, [topic, "one"])), range(100).slice(60));
        assert.equal((await peek(plain, [topic, "two"])).length, 100);
      });
    } finally {
      await own.close();
    }
  });
});
