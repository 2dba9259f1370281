// Time to live: on the message, by default, as a cap; of queues, topics and sessions; dropped or dead-lettered (S-1 to
// S-24).

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, bodies, createReceiver, drain, entitiesText, nothing, one, peek, range, send, withClient } from "./harness.mjs";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const noRenewal = { maxAutoLockRenewalDurationInMs: 0 };

/** The message's expiry as sent by the broker, in ms; the SDK computes `expiresAtUtc` from other properties. */
const toldEnd = (message) => message._rawAmqpMessage.properties.absoluteExpiryTime;

/** Moves the clock to the expiry of the first message, as sent by the broker. */
async function expire(client, daemon, source) {
  const [message] = await peek(client, source);
  await daemon.advanceTo(message.expiresAtUtc);
}

const states = async (client, source, options) => (await peek(client, source, options)).map((m) => [m.state, m.deadLetterReason]);

// One after the other, because each moves the clock for all.
describe("expiry", () => {
  let daemon;
  before(async () => {
    daemon = await new Daemon({ timeTravel: true }).start();
    // Far from the SDK's own clock, which has no effect.
    await daemon.advance("P1D");
  });
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)));
  const withTopic = (test) => () => withClient(daemon, (client) => test(client, daemon.topic("topic_ttl")));

  it("the end of a life is told by the broker's clock", withQueue(async (client, queue) => {
    // S-1, S-2: a duration when sent, a time of expiry once enqueued.
    const before = await daemon.now();
    await send(client, queue, { body: "m", timeToLive: HOUR_MS });
    const [seen] = await peek(client, queue);
    const { timeToLive, enqueuedTimeUtc, expiresAtUtc } = seen;
    assert.equal(timeToLive, HOUR_MS);
    assert(enqueuedTimeUtc >= before && enqueuedTimeUtc <= (await daemon.now()));
    assert.equal(expiresAtUtc - enqueuedTimeUtc, HOUR_MS);
    assert.equal(toldEnd(seen) - enqueuedTimeUtc, HOUR_MS);
  }));

  for (const operation of ["completeMessage", "deferMessage", "deadLetterMessage", "renewMessageLock"]) {
    it(`a locked message outlives its time: ${operation}`, withQueue(async (client, queue) => {
      // S-5, S-7, S-21.
      await send(client, queue, { body: "short", timeToLive: MINUTE_MS / 2 });
      const receiver = client.createReceiver(queue, noRenewal);
      const message = await one(receiver);
      await expire(client, daemon, queue);
      await receiver[operation](message);
      if (operation === "renewMessageLock") await receiver.completeMessage(message);
      assert.deepEqual(await states(client, queue), operation === "deferMessage" ? [["deferred", undefined]] : []);
      const dead = operation === "deadLetterMessage" ? [["active", undefined]] : [];
      assert.deepEqual(await states(client, queue, DEAD_LETTER), dead);
    }, "dead_letter_on_expiry"));
  }

  it("lock loss after its time dead-letters it", withQueue(async (client, queue) => {
    // S-6, S-20.
    await send(client, queue, { body: "short", timeToLive: MINUTE_MS / 2 });
    await one(client.createReceiver(queue, noRenewal));
    await expire(client, daemon, queue);
    assert.deepEqual(await states(client, queue, DEAD_LETTER), [], "S-5: not while it is locked");
    await daemon.advance("PT1M");
    assert.deepEqual(await states(client, queue, DEAD_LETTER), [["active", "TTLExpiredException"]]);
    assert.deepEqual(await states(client, queue), []);
  }, "dead_letter_on_expiry"));

  it("abandoned after its time it is dropped", withQueue(async (client, queue) => {
    // S-6, S-18.
    await send(client, queue, { body: "short", timeToLive: MINUTE_MS / 2 });
    const receiver = client.createReceiver(queue, noRenewal);
    const message = await one(receiver);
    await expire(client, daemon, queue);
    await receiver.abandonMessage(message);
    assert(await nothing(receiver));
    for (const options of [{}, DEAD_LETTER]) assert.deepEqual(await states(client, queue, options), []);
  }));

  it("a deferred message expires only when it is requested", withQueue(async (client, queue) => {
    // S-36; azure-sdk-for-net 30252.
    await send(client, queue, { body: "aside", timeToLive: MINUTE_MS / 2 });
    const receiver = client.createReceiver(queue, noRenewal);
    const { sequenceNumber, ...rest } = await one(receiver);
    await receiver.deferMessage({ sequenceNumber, ...rest });
    await expire(client, daemon, queue);
    assert(await nothing(receiver));
    assert.deepEqual(await states(client, queue, DEAD_LETTER), []);
    await assert.rejects(receiver.receiveDeferredMessages(sequenceNumber), { code: "MessageNotFound" });
    assert.deepEqual(await states(client, queue), []);
    assert.deepEqual(await states(client, queue, DEAD_LETTER), [["active", "TTLExpiredException"]]);
  }, "dead_letter_on_expiry"));

  it("a scheduled message's life begins when it is due", withQueue(async (client, queue) => {
    // S-9: a time-to-live of half a minute does not run while the message waits for an hour.
    const due = new Date(+(await daemon.now()) + HOUR_MS);
    await client.createSender(queue).scheduleMessages({ body: "m", timeToLive: MINUTE_MS / 2 }, due);
    const [waiting] = await peek(client, queue);
    assert.equal(toldEnd(waiting) - due, MINUTE_MS / 2);
    const receiver = client.createReceiver(queue, noRenewal);
    await daemon.advance("PT59M");
    assert(await nothing(receiver));
    await daemon.advanceTo(due);
    const message = await one(receiver);
    assert.equal(message.timeToLive, MINUTE_MS / 2);
    assert(message.enqueuedTimeUtc >= due);
    assert.equal(message.expiresAtUtc - message.enqueuedTimeUtc, MINUTE_MS / 2);
  }));

  it("the default makes messages expire", withQueue(async (client, queue) => {
    // S-10, S-12, S-13: also a message with a longer time.
    await send(client, queue, { body: "none" }, { body: "longer", timeToLive: 25 * HOUR_MS });
    await daemon.advance("PT1H");
    assert(await nothing(client.createReceiver(queue)));
    assert.deepEqual(await states(client, queue), []);
  }, "default_ttl"));

  it("without a time to live a message does not end", withQueue(async (client, queue) => {
    // S-14, S-15. The SDK itself adds the maximum to the enqueued time.
    await send(client, queue, { body: "old" });
    const [seen] = await peek(client, queue);
    assert(seen.expiresAtUtc.getUTCFullYear() > 9_999);
    await daemon.advance("P3650D");
    assert.equal((await one(client.createReceiver(queue, noRenewal))).body, "old");
  }));

  it("the least of message, topic and subscription counts", withTopic(async (client, topic) => {
    // S-10, S-12, S-13, S-16.
    const asked = [undefined, 25 * HOUR_MS, 90 * MINUTE_MS, 45 * MINUTE_MS, 10 * MINUTE_MS];
    await send(client, topic, ...asked.map((timeToLive, body) => ({ body, timeToLive })));
    const minutes = { none: [60, 60, 60, 45, 10], shorter: [30, 30, 30, 30, 10], longer: [60, 60, 60, 45, 10] };
    for (const [name, expected] of Object.entries(minutes)) {
      const seen = await peek(client, [topic, name]);
      assert.deepEqual(seen.map((m) => m.timeToLive / MINUTE_MS), expected, name);
      assert.deepEqual(seen.map((m) => (toldEnd(m) - m.enqueuedTimeUtc) / MINUTE_MS), expected, name);
    }
  }));

  it("copies expire each in its subscription", withTopic(async (client, topic) => {
    // S-3, S-16 to S-19.
    await send(client, topic, { body: "m" });
    const listen = async (name) => assert(await nothing(createReceiver(client, [topic, name])), name);
    await daemon.advance("PT45M");
    await listen("shorter");
    const left = async (name, options) => (await states(client, [topic, name], options)).length;
    assert.deepEqual([await left("none"), await left("shorter"), await left("longer")], [1, 0, 1]);
    await daemon.advance("PT1H");
    assert.deepEqual([await left("none"), await left("longer")], [1, 1], "nobody listens");
    for (const name of ["none", "longer"]) await listen(name);
    assert.deepEqual([await left("none"), await left("longer")], [0, 0]);
    assert.deepEqual([await left("none", DEAD_LETTER), await left("shorter", DEAD_LETTER)], [0, 0]);
    assert.deepEqual(await states(client, [topic, "longer"], DEAD_LETTER), [["active", "TTLExpiredException"]]);
  }));

  it("a scheduled message's life begins when it is published", withTopic(async (client, topic) => {
    // S-9.
    const due = new Date(+(await daemon.now()) + 10 * HOUR_MS);
    await client.createSender(topic).scheduleMessages({ body: "m" }, due);
    await daemon.advanceTo(due);
    const [message] = await drain(client, [topic, "shorter"], 1);
    assert(message.enqueuedTimeUtc >= due);
    assert.equal(message.expiresAtUtc - message.enqueuedTimeUtc, HOUR_MS / 2);
  }));

  for (const [kind, reasons] of [["session", []], ["session_dead_letter_on_expiry", Array(2).fill(["active", "TTLExpiredException"])]]) {
    it(`one expired message expires its session: ${kind}`, withQueue(async (client, queue) => {
      // S-23, and S-24: not without a receiver of that session.
      const message = (body, sessionId, timeToLive) => ({ body, sessionId, timeToLive });
      await send(client, queue, message("long", "s"), message("short", "s", HOUR_MS), message("other", "o"));
      await daemon.advance("PT2H");
      const other = await client.acceptSession(queue, "o", noRenewal);
      assert.equal((await one(other)).body, "other");
      assert(await nothing(other));
      assert.deepEqual(bodies(await peek(client, queue)), ["long", "short", "other"]);
      assert(await nothing(await client.acceptSession(queue, "s", noRenewal)));
      assert.deepEqual(bodies(await peek(client, queue)), ["other"]);
      assert.deepEqual(await states(client, queue, DEAD_LETTER), reasons);
    }, kind));
  }
});

describe("expiry and restarts", { concurrency: 3 }, () => {
  it("a changed default counts for later messages", async () => {
    // S-11: by the file and a restart.
    const config = (life) => entitiesText({ queues: { q: { default_message_time_to_live: life } } });
    const daemon = await new Daemon({ config: config("PT1H") }).start();
    try {
      await withClient(daemon, (client) => send(client, "q", { body: 1 }));
      fs.writeFileSync(path.join(daemon.directory, "peeklock.toml"), config("PT2H"));
      await daemon.restart();
      await withClient(daemon, async (client) => {
        await send(client, "q", { body: 2 });
        assert.deepEqual((await peek(client, "q")).map((m) => m.timeToLive / HOUR_MS), [1, 2]);
      });
    } finally {
      await daemon.close();
    }
  });

  it("SIGKILL during expiry leaves each message in one place", async () => {
    // S-22: in the queue or in its dead-letter queue, never in both or none.
    const config = entitiesText({ queues: { q: { dead_lettering_on_message_expiration: true } } });
    const daemon = await new Daemon({ timeTravel: true, config }).start();
    const sent = range(3_000);
    try {
      await withClient(daemon, async (client) => {
        const batches = range(3).map((n) => sent.slice(n * 1_000, (n + 1) * 1_000));
        await send(client, "q", ...batches.map((batch) => batch.map((body) => ({ body, timeToLive: HOUR_MS }))));
        await daemon.advance("PT2H");
        const receiver = client.createReceiver("q");
        const waiting = receiver.receiveMessages(1, { maxWaitTimeInMs: 5_000 }).catch(() => []);
        while ((await peek(client, "q", DEAD_LETTER)).length === 0);
        await daemon.kill();
        assert.deepEqual(await waiting, []);
      });
      await daemon.start();
      await withClient(daemon, async (client) => {
        const found = [...(await peek(client, "q")), ...(await peek(client, "q", DEAD_LETTER))];
        assert.deepEqual(bodies(found).sort((a, b) => a - b), sent);
      });
    } finally {
      await daemon.close();
    }
  });

  it("a reminder and the deferred message that it is for survive SIGKILL", async () => {
    // S-40 to S-43, S-9.
    const daemon = await new Daemon({ timeTravel: true }).start();
    try {
      const queue = daemon.queue();
      await withClient(daemon, async (client) => {
        await send(client, queue, { body: "work" });
        const receiver = client.createReceiver(queue);
        const work = await one(receiver);
        await receiver.deferMessage(work);
        const reminder = { body: work.sequenceNumber.toString(), timeToLive: MINUTE_MS };
        await client.createSender(queue).scheduleMessages(reminder, new Date(+(await daemon.now()) + HOUR_MS));
        await daemon.kill();
      });
      await daemon.start();
      await daemon.advance("PT1H");
      await withClient(daemon, async (client) => {
        const receiver = client.createReceiver(queue, noRenewal);
        const reminder = await one(receiver);
        const [work] = await receiver.receiveDeferredMessages(Long.fromString(reminder.body));
        assert.deepEqual([work.body, work.state], ["work", "deferred"]);
        await receiver.completeMessage(work);
        await receiver.completeMessage(reminder);
        assert.deepEqual(await peek(client, queue), []);
      });
    } finally {
      await daemon.close();
    }
  });

  it("deferred messages of a session, its state and its messages survive SIGKILL", async () => {
    // S-41, S-43.
    const daemon = await new Daemon().start();
    try {
      const queue = daemon.queue("session");
      let deferred;
      await withClient(daemon, async (client) => {
        await send(client, queue, ...range(3).map((body) => ({ body, sessionId: "s" })));
        const receiver = await client.acceptSession(queue, "s");
        await receiver.setSessionState("kept");
        await receiver.completeMessage(await one(receiver));
        deferred = await one(receiver);
        await receiver.deferMessage(deferred);
        await daemon.kill();
      });
      await daemon.start();
      await withClient(daemon, async (client) => {
        // Held no longer.
        const receiver = await client.acceptNextSession(queue);
        assert.equal(receiver.sessionId, "s");
        assert.equal(await receiver.getSessionState(), "kept");
        assert.equal((await one(receiver)).body, 2);
        assert.deepEqual(bodies(await receiver.receiveDeferredMessages(deferred.sequenceNumber)), [1]);
      });
    } finally {
      await daemon.close();
    }
  });
});
