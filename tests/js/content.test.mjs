// Parts of a message that Service Bus does not return as the sender wrote them, and messages that it refuses.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Long from "long";
import rhea from "rhea";
import { DEAD_LETTER, Daemon, drain, one, peek, send, withClient } from "./harness.mjs";

const { types } = rhea;
const HOUR_MS = 3_600_000;
/** No retries: they would hide faults of the broker, and slow down expected errors. */
const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };

/** A sender whose link for scheduling is open: what it schedules a second ahead arrives before it is due. */
async function scheduler(client, queue) {
  const sender = client.createSender(queue);
  await sender.cancelScheduledMessages(await sender.scheduleMessages({ body: "opens the link" }, new Date(Date.now() + HOUR_MS)));
  return sender;
}

describe("content", { concurrency: 6 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)), impatient);

  it("bodies are left out of browsed messages when asked", withQueue(async (client, queue) => {
    await send(client, queue, { body: "body", subject: "kept", applicationProperties: { n: 1 } });
    const receiver = client.createReceiver(queue);
    const [bare] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE, omitMessageBody: true });
    assert.deepEqual([bare.body, bare.subject, bare.applicationProperties.n], [undefined, "kept", 1]);
    const [whole] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE, omitMessageBody: false });
    assert.equal(whole.body, "body");
    assert.equal((await one(receiver)).body, "body");
  }));

  it("a scheduled message is received as scheduled", withQueue(async (client, queue) => {
    const sender = await scheduler(client, queue);
    await sender.scheduleMessages({ body: "scheduled" }, new Date(Date.now() + 1_000));
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    assert.equal(message.state, "scheduled");
    await receiver.completeMessage(message);
    await send(client, queue, { body: "active" });
    assert.equal((await one(receiver)).state, "active");
  }));

  it("messages scheduled at once are all received, as scheduled", withQueue(async (client, queue) => {
    const sender = await scheduler(client, queue);
    const at = new Date(Date.now() + 1_000);
    const numbers = await Promise.all(["a", "b", "c"].map((body) => sender.scheduleMessages({ body }, at)));
    assert.equal(new Set(numbers.map(([number]) => number.toString())).size, 3);
    const messages = await drain(client, queue, 3);
    assert.deepEqual(new Set(messages.map((m) => `${m.body} ${m.state}`)), new Set(["a scheduled", "b scheduled", "c scheduled"]));
    const [cancelled] = await sender.scheduleMessages({ body: "d" }, new Date(Date.now() + HOUR_MS));
    await sender.cancelScheduledMessages(cancelled);
    assert.deepEqual(await peek(client, queue), []);
  }));

  it("the delivery count stays in the dead-letter queue", withQueue(async (client, queue) => {
    await send(client, queue, { body: "dead" });
    const receiver = client.createReceiver(queue);
    await receiver.deadLetterMessage(await one(receiver));
    const dead = client.createReceiver(queue, DEAD_LETTER);
    for (let tries = 0; tries < 3; tries++) {
      const message = await one(dead);
      assert.equal(message.deliveryCount, 0);
      await dead.abandonMessage(message);
    }
  }));

  it("the empty session takes any partition key", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m", sessionId: "", partitionKey: "key" });
    const [message] = await peek(client, queue);
    assert.deepEqual([message.sessionId, message.partitionKey], ["", "key"]);
  }, "session"));

  it("the life that the queue gives shows as the message's", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m" });
    const [message] = await drain(client, queue, 1);
    assert.equal(message.timeToLive, HOUR_MS);
    const { absoluteExpiryTime, creationTime } = message._rawAmqpMessage.properties;
    assert.equal(absoluteExpiryTime - creationTime, HOUR_MS);
    assert.equal(creationTime, message.enqueuedTimeUtc.getTime());
  }, "default_ttl"));

  it("two times without a time to live come back as they were sent", withQueue(async (client, queue) => {
    const [absoluteExpiryTime, creationTime] = [5_000, 1_000];
    await send(client, queue, { body: "m", properties: { absoluteExpiryTime, creationTime }, bodyType: "value" });
    const [message] = await drain(client, queue, 1);
    const found = message._rawAmqpMessage.properties;
    assert.deepEqual([found.absoluteExpiryTime, found.creationTime], [absoluteExpiryTime, creationTime]);
  }));

  it("a reason of dead-lettering that is no text is a property", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m" });
    const receiver = client.createReceiver(queue);
    await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: 7, deadLetterErrorDescription: true });
    const [dead] = await drain(client, queue, 1, DEAD_LETTER);
    assert.equal(dead.applicationProperties.DeadLetterReason, 7);
    assert.equal(dead.applicationProperties.DeadLetterErrorDescription, true);
  }));

  it("application properties that are lists or maps are refused", withQueue(async (client, queue) => {
    for (const value of [[1, 2], { key: 1 }, types.wrap_array([1], 0x54)]) {
      const bad = { body: "bad", applicationProperties: { key: value } };
      for (const messages of [[bad], [[{ body: "good" }, bad]]]) {
        await assert.rejects(send(client, queue, ...messages), /an application property that is a list, a map or an array/);
      }
    }
    assert.deepEqual(await peek(client, queue), []);
  }));
});
