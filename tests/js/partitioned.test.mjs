// Partitioned entities: the upper 16 bits of a sequence number are the partition of the message's key.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, administrationClient, bodies, createReceiver, drain, one, peek, range, send, take } from "./harness.mjs";

/** Keys and the partitions to which they belong, pinned as in `crates/engine/src/key_partition.rs`. */
const KEYS = { 1: 2, 2: 7, "order-7": 5, "session-1": 14 };
const keys = Object.keys(KEYS);
const partition = (message) => (message.sequenceNumber ?? message).shiftRight(48).toNumber();
const numbers = (messages) => messages.map((message) => message.sequenceNumber.toString());
/** The number that a message would have in another partition. */
const moved = (number) => number.add(Long.ONE.shiftLeft(48));
const later = () => new Date(Date.now() + 3_600_000);
const notFound = { name: "ServiceBusError", code: "MessageNotFound" };

describe("partitioned entities", { concurrency: 6 }, () => {
  let daemon;
  let client;
  let admin;
  let made = 0;
  before(async () => {
    daemon = await new Daemon().start();
    client = daemon.client({ retryOptions: { maxRetries: 0 } });
    admin = administrationClient(daemon);
  });
  after(async () => {
    await client.close();
    await daemon.close();
  });
  const queue = async (options = {}) => {
    const { name } = await admin.createQueue(`partitioned-${made++}`, { enablePartitioning: true, ...options });
    return name;
  };

  it("a number names the partition of the key, and browsing goes through all of them", async () => {
    const name = await queue();
    await send(client, name, ...keys.map((partitionKey) => ({ body: partitionKey, partitionKey })));
    const receiver = client.createReceiver(name);
    const pages = [];
    for (const _ of range(3)) pages.push(await receiver.peekMessages(2));
    assert.deepEqual(pages.map(bodies), [keys.slice(0, 2), keys.slice(2), []]);
    const messages = await take(receiver, 4);
    assert.deepEqual(messages.map(partition), keys.map((key) => KEYS[key]));
    assert.deepEqual(numbers(messages), numbers(pages.flat()));
    const ids = messages.map((message) => message._rawAmqpMessage.messageAnnotations["x-opt-partition-id"]);
    assert.deepEqual(ids, messages.map(partition));
  });

  it("scheduled messages are cancelled, deferred ones received, by the number that was shown", async () => {
    const name = await queue();
    const sender = client.createSender(name);
    const [scheduled] = await sender.scheduleMessages({ body: "later", partitionKey: "2" }, later());
    assert.equal(partition(scheduled), 7);
    await assert.rejects(sender.cancelScheduledMessages(moved(scheduled)), notFound);
    await sender.cancelScheduledMessages(scheduled);
    await send(client, name, { body: "a", partitionKey: "1" }, { body: "b", partitionKey: "2" });
    const receiver = client.createReceiver(name);
    const messages = await take(receiver, 2);
    for (const message of messages) await receiver.deferMessage(message);
    const [first, second] = messages.map((message) => message.sequenceNumber);
    await assert.rejects(receiver.receiveDeferredMessages([first, moved(second)]), notFound);
    const again = await receiver.receiveDeferredMessages([first, second]);
    assert.deepEqual(bodies(again), ["a", "b"]);
    for (const message of again) await receiver.deadLetterMessage(message);
    assert.deepEqual(numbers(await peek(client, name, DEAD_LETTER)), numbers(messages));
  });

  it("a session is the key of its messages", async () => {
    const name = await queue({ requiresSession: true });
    await send(client, name, range(3).map((body) => ({ body, sessionId: "session-1" })));
    const session = await client.acceptSession(name, "session-1");
    const messages = await take(session, 3);
    assert.deepEqual(messages.map(partition), [14, 14, 14]);
    assert.deepEqual(numbers(await session.peekMessages(10, { fromSequenceNumber: Long.ONE })), numbers(messages));
    await session.close();
  });

  it("copies of a topic belong to the partition of their message", async () => {
    const name = `partitioned-topic-${made++}`;
    await admin.createTopic(name, { enablePartitioning: true });
    await admin.createSubscription(name, "s");
    await send(client, name, { body: "a", partitionKey: "1" }, { body: "b", sessionId: "2" });
    const messages = await drain(client, [name, "s"], 2);
    assert.deepEqual(messages.map(partition), [2, 7]);
    assert.deepEqual(messages.map((message) => message.enqueuedSequenceNumber), [2 * 2 ** 48 + 1, 7 * 2 ** 48 + 2]);
  });

  it("a batch has one key", async () => {
    const name = await queue();
    const batch = ["1", "2"].map((partitionKey) => ({ body: "x", partitionKey }));
    await assert.rejects(client.createSender(name).sendMessages(batch), /Batching brokered messages with distinct SessionId/);
    assert.deepEqual(await peek(client, name), []);
    await send(client, name, [batch[0], batch[0]]);
    assert.equal(partition(await one(createReceiver(client, name))), 2);
  });

  it("numbers survive a kill", async () => {
    const own = await new Daemon({ config: '[[queues]]\nname = "q"\nenable_partitioning = true\n' }).start();
    const before = own.client();
    await send(before, "q", ...keys.map((partitionKey) => ({ body: partitionKey, partitionKey })));
    const seen = numbers(await peek(before, "q"));
    await before.close();
    await own.restart();
    const after = own.client();
    assert.deepEqual(numbers(await drain(after, "q", 4)), seen);
    await after.close();
    await own.close();
  });
});
