// Messages of 100 MB, with the default of every setting except their size, and batches of one megabyte.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { ServiceBusClient as PreviewClient } from "service-bus-preview";
import { DEAD_LETTER, Daemon, createReceiver, entitiesText, one, peek, take, withClient } from "./harness.mjs";

const KILOBYTE = 1024;
const LARGEST = { max_message_size_in_kilobytes: 102_400, lock_duration: "PT5M" };
/** With what the SDK writes around it, the message has 100 MB. */
const BODY_BYTES = 102_400 * KILOBYTE - KILOBYTE;

function content(number) {
  const body = Buffer.alloc(BODY_BYTES, `message ${number} `);
  for (let at = 0; at < BODY_BYTES - 4; at += KILOBYTE) body.writeUInt32BE(at, at);
  return body;
}

const hash = (body) => createHash("sha256").update(body).digest("hex");

describe("large messages", () => {
  let daemon;
  before(async () => {
    const queues = { large: LARGEST, batches: LARGEST };
    daemon = await new Daemon({ config: entitiesText({ queues }) }).start();
  });
  after(() => daemon.close());

  it("a message of 100 MB is sent, browsed, deferred, dead-lettered and received after SIGKILL", async () => {
    const sent = content(1);
    await withClient(daemon, async (client) => {
      await client.createSender("large").sendMessages({ body: sent });
      const [browsed] = await peek(client, "large");
      assert.equal(hash(browsed.body), hash(sent));
      const receiver = client.createReceiver("large");
      const message = await one(receiver);
      await receiver.deferMessage(message);
      const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
      await receiver.deadLetterMessage(deferred);
    });
    await daemon.restart();
    await withClient(daemon, async (client) => {
      const receiver = createReceiver(client, "large", DEAD_LETTER);
      const message = await one(receiver);
      assert.equal(hash(message.body), hash(sent));
      await receiver.completeMessage(message);
    });
  });

  for (const [name, connect] of [
    ["the released SDK", () => daemon.client({ retryOptions: { maxRetries: 0 } })],
    ["its preview", () => new PreviewClient(daemon.connectionString, { retryOptions: { maxRetries: 0 } })],
  ]) {
    it(`${name}: a batch has at most a megabyte, a single message may have more`, async () => {
      const client = connect();
      try {
        const sender = client.createSender("batches");
        const half = { body: Buffer.alloc(500 * KILOBYTE) };
        const large = { body: Buffer.alloc(2 * KILOBYTE * KILOBYTE) };
        const batch = await sender.createMessageBatch({ maxSizeInBytes: KILOBYTE * KILOBYTE });
        assert.deepEqual([batch.tryAddMessage(half), batch.tryAddMessage(half), batch.tryAddMessage(half)], [true, true, false]);
        await sender.sendMessages(batch);
        for (const tooLarge of [[half, half, half], [large]]) {
          await assert.rejects(sender.sendMessages(tooLarge), /size|exceed/i);
        }
        await sender.sendMessages(large);
        const receiver = client.createReceiver("batches", { receiveMode: "receiveAndDelete" });
        const sizes = (await take(receiver, 3)).map((message) => message.body.length);
        assert.deepEqual(sizes, [half.body.length, half.body.length, large.body.length]);
      } finally {
        await client.close();
      }
    });
  }
});
