// Sending, and the properties that a message keeps.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Daemon, bodies, drain, numbers, one, peek, range, send, withClient } from "./harness.mjs";

describe("sending", { concurrency: 6 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));

  it("a message arrives", withQueue(async (client, queue) => {
    await send(client, queue, { body: "hello" });
    const [message] = await drain(client, queue, 1);
    assert.equal(message.body, "hello");
    assert.equal(message.sequenceNumber.toNumber(), 1);
    assert.equal(message.deliveryCount, 0);
    assert.equal(message.state, "active");
  }));

  it("an array is sent as one batch, in order", withQueue(async (client, queue) => {
    await send(client, queue, range(100).map((n) => ({ body: n })));
    const messages = await drain(client, queue, 100);
    assert.deepEqual(bodies(messages), range(100));
    assert.deepEqual(numbers(messages), range(100).map((n) => n + 1));
  }));

  it("a batch keeps the properties of each message", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    const batch = await sender.createMessageBatch();
    for (const n of range(10)) {
      assert(batch.tryAddMessage({ body: { n }, messageId: `id-${n}`, subject: `s${n}`, applicationProperties: { n } }));
    }
    await sender.sendMessages(batch);
    const messages = await drain(client, queue, 10);
    assert.deepEqual(bodies(messages), range(10).map((n) => ({ n })));
    assert.deepEqual(messages.map((m) => m.messageId), range(10).map((n) => `id-${n}`));
    assert.deepEqual(messages.map((m) => m.applicationProperties.n), range(10));
  }));

  it("a batch refuses a message beyond the limit of the link", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    const batch = await sender.createMessageBatch();
    assert(batch.maxSizeInBytes >= 256 * 1024);
    let added = 0;
    while (batch.tryAddMessage({ body: "x".repeat(100_000) })) added++;
    await sender.sendMessages(batch);
    assert.equal((await drain(client, queue, added)).length, batch.count);
  }));

  it("messages of a sender keep their order when sent at once", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    await Promise.all(range(200).map((n) => sender.sendMessages({ body: n })));
    assert.deepEqual(bodies(await drain(client, queue, 200)), range(200));
  }));

  it("messages sent at once are accepted or refused each on its own", () => withClient(daemon, async (client) => {
    const queue = daemon.queue("session");
    const sender = client.createSender(queue);
    const sends = range(200).map((n) => sender.sendMessages({ body: n, sessionId: n % 7 === 3 ? undefined : "s" }));
    const outcomes = await Promise.allSettled(sends);
    const refused = range(200).filter((n) => outcomes[n].status === "rejected");
    assert.deepEqual(refused, range(200).filter((n) => n % 7 === 3));
    assert.match(outcomes[3].reason.message, /session/i);
    assert.deepEqual(bodies(await peek(client, queue)), range(200).filter((n) => n % 7 !== 3));
  }, { retryOptions: { maxRetries: 0 } }));

  it("ten senders at once lose and repeat nothing", withQueue(async (client, queue) => {
    await Promise.all(range(10).map((k) => send(client, queue, ...range(20).map((n) => ({ body: `${k}:${n}` })))));
    const messages = await drain(client, queue, 200);
    assert.deepEqual(numbers(messages).sort((a, b) => a - b), range(200).map((n) => n + 1));
    for (const k of range(10)) {
      const own = bodies(messages).filter((body) => body.startsWith(`${k}:`));
      assert.deepEqual(own, range(20).map((n) => `${k}:${n}`));
    }
  }));

  it("broker properties come back", withQueue(async (client, queue) => {
    const sent = {
      body: null,
      messageId: "message-1",
      sessionId: "session-1",
      partitionKey: "session-1",
      contentType: "application/json",
      correlationId: "correlation-1",
      subject: "subject-1",
      to: "to-1",
      replyTo: "reply-to-1",
      replyToSessionId: "reply-session-1",
      timeToLive: 600_000,
    };
    await send(client, queue, sent);
    const [received] = await drain(client, queue, 1);
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(received[name], value, name);
    // S-2: the expiry is the enqueued time plus the time to live.
    assert.equal(received.expiresAtUtc - received.enqueuedTimeUtc, 600_000);
    assert(Math.abs(Date.now() - received.enqueuedTimeUtc) < 60_000);
  }));

  it("message and correlation ids keep their type", withQueue(async (client, queue) => {
    // The SDK sends a buffer as a UUID.
    for (const id of ["text", 4711, Buffer.alloc(16, 7)]) {
      await send(client, queue, { body: "", messageId: id, correlationId: id });
      const [received] = await drain(client, queue, 1);
      assert.deepEqual(received.messageId, id);
      assert.deepEqual(received.correlationId, id);
    }
  }));

  it("application properties keep value and type", withQueue(async (client, queue) => {
    const applicationProperties = {
      string: "žluťoučký 🐎",
      empty: "",
      yes: true,
      no: false,
      zero: 0,
      negative: -5,
      large: 2 ** 40,
      fraction: 0.1,
      date: new Date("2026-01-02T03:04:05.678Z"),
      nothing: null,
    };
    await send(client, queue, { body: "", applicationProperties });
    const [received] = await drain(client, queue, 1, { skipConvertingDate: true });
    assert.deepEqual(received.applicationProperties, applicationProperties);
  }));

  it("bodies of every JavaScript kind come back", withQueue(async (client, queue) => {
    const sent = ["text", "", 0, 1.5, true, false, null, [1, "two", null], { deep: { er: [1] } }, "ü🐎"];
    await send(client, queue, ...sent.map((body) => ({ body })));
    assert.deepEqual(bodies(await drain(client, queue, sent.length)), sent);
  }));

  it("a buffer stays bytes", withQueue(async (client, queue) => {
    const bytes = Buffer.from(range(256));
    await send(client, queue, { body: bytes });
    const [received] = await drain(client, queue, 1, { skipParsingBodyAsJson: true });
    assert(Buffer.isBuffer(received.body));
    assert.deepEqual(received.body, bytes);
  }));

  it("value and sequence bodies come back as such", withQueue(async (client, queue) => {
    await send(
      client,
      queue,
      { bodyType: "value", body: { key: ["nested", 1] } },
      { bodyType: "sequence", body: [1, "two", { three: 3 }] },
      { bodyType: "data", body: "data" },
    );
    const received = await drain(client, queue, 3);
    assert.deepEqual(received.map((m) => m._rawAmqpMessage.bodyType), ["value", "sequence", "data"]);
    assert.deepEqual(bodies(received), [{ key: ["nested", 1] }, [1, "two", { three: 3 }], "data"]);
  }));

  it("sections of an annotated message come back", withQueue(async (client, queue) => {
    await send(client, queue, {
      bodyType: "data",
      body: "all",
      header: { priority: 7, durable: true },
      footer: { foot: "note" },
      messageAnnotations: { "x-opt-custom": "annotation" },
      properties: { messageId: "id", userId: "user", contentEncoding: "encoding", groupSequence: 3 },
      applicationProperties: { a: 1 },
    });
    const [received] = await drain(client, queue, 1);
    const raw = received._rawAmqpMessage;
    assert.equal(raw.header.priority, 7);
    assert.equal(raw.header.durable, true);
    assert.deepEqual(raw.footer, { foot: "note" });
    assert.equal(raw.messageAnnotations["x-opt-custom"], "annotation");
    assert.equal(raw.properties.messageId, "id");
    assert.equal(raw.properties.contentEncoding, "encoding");
    assert.equal(raw.properties.groupSequence, 3);
    assert.deepEqual(raw.applicationProperties, { a: 1 });
  }));

  it("900 KB arrive whole and can be completed", withQueue(async (client, queue) => {
    const sent = Buffer.alloc(900 * 1024, "peeklock");
    await send(client, queue, { body: sent }, { body: sent });
    assert.deepEqual((await peek(client, queue))[0].body, sent);
    const receiver = client.createReceiver(queue);
    for (const _ of range(2)) {
      const message = await one(receiver);
      assert.deepEqual(message.body, sent);
      await receiver.completeMessage(message);
    }
    assert.equal((await peek(client, queue)).length, 0);
  }));
});
