// Duplicate detection: a message whose id was accepted recently is accepted and dropped.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Daemon, bodies, entitiesText, peek, send, withClient } from "./harness.mjs";

const message = (body, messageId = "id", more = {}) => ({ body, messageId, ...more });
const shown = async (client, source) => bodies(await peek(client, source));

// One after the other, because each moves the clock for all.
describe("duplicate detection", () => {
  let daemon;
  before(async () => {
    daemon = await new Daemon({ timeTravel: true }).start();
  });
  after(() => daemon.close());
  const withQueue = (test, kind = "duplicates") => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));

  it("drops a message sent before, also within a batch", withQueue(async (client, queue) => {
    await send(client, queue, message("first"), message("again"), message("other", "ID"));
    await send(client, queue, [message("again"), message("a", "a"), message("b", "a")]);
    assert.deepEqual(await shown(client, queue), ["first", "other", "a"]);
  }));

  it("compares ids by their text", withQueue(async (client, queue) => {
    await send(client, queue, message("number", 7), message("text", "7"));
    // The SDK sends a buffer as a UUID, regardless of its content.
    const uuid = "00112233-4455-6677-8899-aabbccddeeff";
    await send(client, queue, message("uuid", Buffer.from(uuid.replaceAll("-", ""), "hex")), message("text", uuid));
    assert.deepEqual(await shown(client, queue), ["number", "uuid"]);
  }));

  it("never takes messages without an id for duplicates", withQueue(async (client, queue) => {
    await send(client, queue, { body: "same" }, { body: "same" });
    assert.deepEqual(await shown(client, queue), ["same", "same"]);
  }));

  it("forgets an id at the end of the window", withQueue(async (client, queue) => {
    await send(client, queue, message("first"));
    const [{ enqueuedTimeUtc }] = await peek(client, queue);
    const end = +enqueuedTimeUtc + 3_600_000;
    await daemon.advanceTo(new Date(end - 60_000));
    await send(client, queue, message("within"));
    await daemon.advanceTo(new Date(end));
    await send(client, queue, message("after"));
    assert.deepEqual(await shown(client, queue), ["first", "after"]);
  }));

  it("answers a message scheduled again with the number of the first", withQueue(async (client, queue) => {
    const due = new Date(+(await daemon.now()) + 7_200_000);
    const sender = client.createSender(queue);
    const [number] = await sender.scheduleMessages(message("scheduled"), due);
    const numbers = await sender.scheduleMessages([message("again"), message("new", "new")], due);
    assert.equal(String(numbers[0]), String(number));
    await sender.sendMessages(message("at once"));
    assert.deepEqual(await shown(client, queue), ["scheduled", "new"]);
    await sender.cancelScheduledMessages(numbers[0]);
    assert.deepEqual(await shown(client, queue), ["new"]);
  }));

  it("has one set of ids for all sessions", withQueue(async (client, queue) => {
    await send(client, queue, message("first", "id", { sessionId: "a" }), message("again", "id", { sessionId: "b" }));
    assert.deepEqual(await shown(client, queue), ["first"]);
  }, "duplicates_session"));

  it("keeps duplicates from every subscription", () => withClient(daemon, async (client) => {
    const topic = daemon.topic("topic_duplicates");
    await send(client, topic, message("first"), message("again"));
    for (const name of ["one", "two"]) assert.deepEqual(await shown(client, [topic, name]), ["first"]);
  }));
});

it("duplicates are told across a crash", async () => {
  const options = { requires_duplicate_detection: true };
  const daemon = await new Daemon({ config: entitiesText({ queues: { orders: options } }) }).start();
  try {
    await withClient(daemon, (client) => send(client, "orders", message("first")));
    await daemon.restart();
    await withClient(daemon, async (client) => {
      await send(client, "orders", message("again"), message("new", "new"));
      assert.deepEqual(await shown(client, "orders"), ["first", "new"]);
    });
  } finally {
    await daemon.close();
  }
});
