// Temporary entities: an entity that is idle for its limit is deleted (S-25 to S-32).
//
// The margins of half a minute and more are for real time, which passes in addition to the daemon's. A change of options
// needs a restart, which resets the daemon's clock: the engine's tests show that it is a use.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { DEAD_LETTER, Daemon, bodies, createReceiver, drain, entitiesText, nothing, numbers, one, peek, send, take, until, withClient } from "./harness.mjs";

const MAXIMUM = "P10675199DT2H48M5.4775807S";
const HOUR_MS = 3_600_000;
const idle = { auto_delete_on_idle: "PT5M" };
const lock = { lock_duration: "PT5M" };
const noRenewal = { maxAutoLockRenewalDurationInMs: 0 };
const notFound = { name: "ServiceBusError", code: "MessagingEntityNotFound" };
/** No retries: they would hide faults of the broker, and slow down expected errors. */
const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };

// A permanent topic with a temporary subscription; a temporary topic with a permanent one.
const config = entitiesText({
  queues: {
    q: { ...idle, ...lock },
    sessions: { ...idle, ...lock, requires_session: true },
    maximum: { auto_delete_on_idle: MAXIMUM },
    unlimited: {},
  },
  topics: {
    lasting: { subscriptions: [{ name: "s", ...idle, ...lock }] },
    brief: { ...idle, subscriptions: [{ name: "s", ...lock }] },
    "maximum-topic": { auto_delete_on_idle: MAXIMUM, subscriptions: [{ name: "s", auto_delete_on_idle: MAXIMUM }] },
  },
});

/** The target of sends, and the source of receives. */
const queue = { kind: "queue", target: "q", source: ["q"] };
const topic = { kind: "topic", target: "brief", source: ["brief", "s"] };
const subscription = { kind: "subscription", target: "lasting", source: ["lasting", "s"] };
const kinds = [queue, topic, subscription];

const travelling = (test) => async () => {
  const daemon = await new Daemon({ timeTravel: true, config }).start();
  try {
    await withClient(daemon, (client) => test(client, daemon), impatient);
  } finally {
    await daemon.close();
  }
};

/** Whether there is no such entity (any more); if there is, this check is a use of it. */
async function isGone(client, source) {
  try {
    await peek(client, source);
    return false;
  } catch (error) {
    assert.equal(error.code, "MessagingEntityNotFound");
    return true;
  }
}

const rules = (client, source) => client.createRuleManager(...source);
const inAnHour = async (daemon) => new Date(+(await daemon.now()) + HOUR_MS);

const uses = {
  send: (client, { target }) => send(client, target, { body: "more" }),
  receive: async (client, { source }) => assert.equal((await one(createReceiver(client, source, noRenewal))).body, "first"),
  "receive nothing": async (client, { source }) => assert(await nothing(createReceiver(client, source, DEAD_LETTER))),
  peek: async (client, { source }) => assert.deepEqual(bodies(await peek(client, source)), ["first"]),
  "peek at dead letters": async (client, { source }) => assert.deepEqual(await peek(client, source, DEAD_LETTER), []),
  "schedule and cancel": async (client, { target }, daemon) => {
    const sender = client.createSender(target);
    await sender.cancelScheduledMessages(await sender.scheduleMessages({ body: "never" }, await inAnHour(daemon)));
  },
  "add a rule": (client, { source }) => rules(client, source).createRule("new", { subject: "x" }),
  "remove a rule": (client, { source }) => rules(client, source).deleteRule("$Default"),
};

const noUses = {
  send: uses.send,
  schedule: async (client, { target }, daemon) =>
    client.createSender(target).scheduleMessages({ body: "later" }, await inAnHour(daemon)),
  "list rules": async (client, { source }) => assert(await rules(client, source).listRules().next()),
  "make a batch": (client, { target }) => client.createSender(target).createMessageBatch(),
  "look for another": (client, { source: [...parts] }) =>
    assert.rejects(peek(client, [...parts.slice(0, -1), `${parts.at(-1)}-other`]), notFound),
};

const usesOf = {
  queue: ["send", "receive", "receive nothing", "peek", "peek at dead letters", "schedule and cancel"],
  topic: ["send", "receive", "receive nothing", "peek", "schedule and cancel", "add a rule", "remove a rule"],
  subscription: ["receive", "receive nothing", "peek", "peek at dead letters", "add a rule", "remove a rule"],
};
const noUsesOf = {
  queue: ["make a batch", "look for another"],
  topic: ["make a batch", "look for another", "list rules"],
  subscription: ["send", "schedule", "make a batch", "look for another", "list rules"],
};

describe("temporary entities", { concurrency: 6 }, () => {
  for (const entity of kinds) {
    for (const name of usesOf[entity.kind]) {
      // S-30, S-31, S-32; and after the idle time, the entity is deleted (S-25, S-26).
      it(`a use starts the time anew: ${entity.kind}, ${name}`, travelling(async (client, daemon) => {
        await send(client, entity.target, { body: "first" });
        await daemon.advance("PT4M");
        await uses[name](client, entity, daemon);
        await daemon.advance("PT4M");
        assert(!(await isGone(client, entity.source)));
        await daemon.advance("PT5M");
        assert(await isGone(client, entity.source));
      }));
    }

    for (const name of noUsesOf[entity.kind]) {
      // S-30, S-31, S-32: above all, sends do not keep a subscription.
      it(`what is no use does not: ${entity.kind}, ${name}`, travelling(async (client, daemon) => {
        await send(client, entity.target, { body: "first" });
        await peek(client, entity.source);
        await daemon.advance("PT4M");
        await noUses[name](client, entity, daemon);
        await daemon.advance("PT1M");
        assert(await isGone(client, entity.source));
      }));
    }

    it(`the idle time is the one asked for: ${entity.kind}`, travelling(async (client, daemon) => {
      // S-26: neither earlier nor later, apart from real time.
      await send(client, entity.target, { body: "first" });
      await peek(client, entity.source);
      await daemon.advance("PT4M30S");
      assert(!(await isGone(client, entity.source)));
      await daemon.advance("PT5M");
      assert(await isGone(client, entity.source));
    }));

    it(`settling and renewing are uses: ${entity.kind}`, travelling(async (client, daemon) => {
      // They are part of receiving; the lock lasts as long as the idle time.
      await send(client, entity.target, { body: "first" });
      const receiver = createReceiver(client, entity.source, noRenewal);
      const message = await one(receiver);
      await daemon.advance("PT4M");
      await receiver.renewMessageLock(message);
      await daemon.advance("PT4M");
      await receiver.completeMessage(message);
      await daemon.advance("PT4M");
      assert.deepEqual(await peek(client, entity.source), []);
    }));

    it(`a listener keeps it: ${entity.kind}`, travelling(async (client, daemon) => {
      // S-30, S-31, S-32: as long as it waits for messages, however long that is.
      const seen = [];
      const listener = createReceiver(client, entity.source, noRenewal).subscribe({
        processMessage: async ({ body }) => void seen.push(body),
        processError: async ({ error }) => assert.fail(error),
      });
      await send(client, entity.target, { body: "first" });
      await until(async () => seen.length === 1 && (await peek(client, entity.source)).length === 0, "the first message");
      for (let hours = 0; hours < 3; hours++) await daemon.advance("PT1H");
      await send(client, entity.target, { body: "second" });
      await until(async () => seen.length === 2 && (await peek(client, entity.source)).length === 0, "the second message");
      await listener.close();
      await daemon.advance("PT4M");
      assert(!(await isGone(client, entity.source)));
      await daemon.advance("PT5M");
      assert(await isGone(client, entity.source));
    }));

    it(`an attached receiver is told: ${entity.kind}`, travelling(async (client, daemon) => {
      await send(client, entity.target, { body: "first" });
      const receivers = [{}, DEAD_LETTER].map((options) => createReceiver(client, entity.source, { ...noRenewal, ...options }));
      await one(receivers[0]);
      assert(await nothing(receivers[1]));
      await daemon.advance("PT6M");
      for (const receiver of receivers) {
        await assert.rejects(receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 }), notFound);
        await assert.rejects(receiver.peekMessages(1), notFound);
      }
    }));
  }

  for (const entity of [queue, topic]) {
    it(`pending scheduled messages keep it: ${entity.kind}`, travelling(async (client, daemon) => {
      // S-30, S-31; what is due is sent then, which is a use.
      await noUses.schedule(client, entity, daemon);
      await daemon.advance("PT59M");
      await daemon.advance("PT1M");
      await daemon.advance("PT4M");
      assert.equal((await peek(client, entity.source)).length, 1);
      await daemon.advance("PT5M");
      assert(await isGone(client, entity.source));
    }));
  }

  it("work on a session is a use", travelling(async (client, daemon) => {
    const receiver = await client.acceptSession("sessions", "s", noRenewal);
    await receiver.setSessionState("x");
    for (const work of ["renewSessionLock", "getSessionState"]) {
      await daemon.advance("PT4M");
      await receiver[work]();
    }
    await daemon.advance("PT4M");
    assert(!(await isGone(client, "sessions")));
    await daemon.advance("PT5M");
    assert(await isGone(client, "sessions"));
  }));

  it("a subscription goes alone and a topic with its subscriptions", travelling(async (client, daemon) => {
    // S-25; the remaining topic accepts messages as before.
    for (const { target } of [subscription, topic]) await send(client, target, { body: "m" });
    await daemon.advance("PT5M");
    assert(await isGone(client, subscription.source));
    await send(client, subscription.target, { body: "m" });
    assert(await isGone(client, topic.source));
    await assert.rejects(send(client, topic.target, { body: "m" }), notFound);
  }));

  it("everything in it is gone", travelling(async (client, daemon) => {
    // S-25: messages, deferred and dead ones too. A queue of the same name that is declared again is empty.
    await send(client, "q", { body: "active" }, { body: "deferred" }, { body: "dead" });
    const receiver = client.createReceiver("q", noRenewal);
    const [, deferred, dead] = await take(receiver, 3);
    await receiver.deferMessage(deferred);
    await receiver.deadLetterMessage(dead);
    await daemon.advance("PT6M");
    assert(await isGone(client, "q"));
    await daemon.restart();
    await withClient(daemon, async (again) => {
      assert.deepEqual(await peek(again, "q"), []);
      assert.deepEqual(await peek(again, "q", DEAD_LETTER), []);
      await send(again, "q", { body: "new" });
      const seen = await peek(again, "q");
      assert.deepEqual([bodies(seen), numbers(seen)], [["new"], [1]]);
    });
  }));

  it("without the option, or with its maximum, it lives for ever", travelling(async (client, daemon) => {
    // S-29.
    for (const target of ["maximum", "unlimited", "maximum-topic"]) await send(client, target, { body: "old" });
    for (let decades = 0; decades < 10; decades++) await daemon.advance("P3650D");
    for (const source of [["maximum"], ["unlimited"], ["maximum-topic", "s"]]) {
      assert.deepEqual(bodies(await drain(client, source, 1)), ["old"]);
    }
  }));

  const brief = { auto_delete_on_idle: "PT4M59.999S" };
  const refused = {
    queues: { queues: { e: brief } },
    topics: { topics: { e: brief } },
    subscriptions: { topics: { e: { subscriptions: [{ name: "s", ...brief }] } } },
  };
  for (const [kind, entities] of Object.entries(refused)) {
    it(`less than five minutes is refused: ${kind}`, async () => {
      // S-27, S-28: the option is set by the file; the other tests show that five minutes are enough.
      const daemon = new Daemon({ config: entitiesText(entities) });
      await assert.rejects(daemon.start(), /auto_delete_on_idle.*at least "PT5M"/);
      assert.equal(daemon.process.exitCode, 2);
      fs.rmSync(daemon.directory, { recursive: true });
    });
  }

  it("the last use survives a crash", travelling(async (client, daemon) => {
    // S-26: a use is stored. A restart resets the clock to the present, and a later use counts as now.
    await daemon.advance("PT3M");
    await peek(client, subscription.source);
    // A send is stored before it is answered, together with earlier events; the record of a peek alone is not.
    for (const { target } of kinds) await send(client, target, { body: "kept" });
    fs.writeFileSync(path.join(daemon.directory, "peeklock.toml"), "");
    await daemon.restart();
    await daemon.advance("PT4M");
    await withClient(daemon, async (again) => {
      for (const { source } of kinds) assert.deepEqual(bodies(await peek(again, source)), ["kept"]);
      await daemon.advance("PT6M");
      for (const { source } of kinds) assert(await isGone(again, source));
    });
  }));
});
