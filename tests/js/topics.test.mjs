// Topics: every subscription gets its own copy of matching messages. Rules over AMQP: only this SDK has them.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, bodies, createReceiver, drain, entitiesText, nothing, numbers, one, peek, range, send, take, withClient } from "./harness.mjs";

const failsWith = (code) => ({ name: "ServiceBusError", code });

/** By page: one by one, the SDK shows `undefined` where there are no rules. */
async function rulesOf(manager) {
  const rules = [];
  for await (const page of manager.listRules().byPage()) rules.push(...page);
  return rules;
}

/** Application properties in the order of their names. */
const ordered = (_, value) =>
  value && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value;

const given = (filter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined && value !== null));

describe("topics", { concurrency: 12 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withTopic =
    (test, kind = "topic") =>
    () =>
      withClient(daemon, (client) => test(client, daemon.topic(kind)));
  const withRules = (test) =>
    withTopic((client, topic) => test(client.createRuleManager(topic, "one"), client, topic));

  it("every subscription gets its own copy", withTopic(async (client, topic) => {
    await send(client, topic, range(3).map((body) => ({ body })), { body: "last" });
    const receiver = client.createReceiver(topic, "one");
    const messages = await take(receiver, 4);
    assert.deepEqual(bodies(messages), [0, 1, 2, "last"]);
    assert.deepEqual(numbers(messages), [1, 2, 3, 4]);
    assert.deepEqual(messages.map((m) => m.enqueuedSequenceNumber), [1, 2, 3, 4]);
    for (const message of messages) await receiver.completeMessage(message);
    assert.equal((await peek(client, [topic, "one"])).length, 0);
    assert.deepEqual(bodies(await drain(client, [topic, "two"], 4)), [0, 1, 2, "last"]);
  }));

  it("copies live on their own", withTopic(async (client, topic) => {
    await send(client, topic, ...range(3).map((body) => ({ body, applicationProperties: { k: 0 } })));
    const receiver = client.createReceiver(topic, "one");
    const [first, second, third] = await take(receiver, 3);
    await receiver.abandonMessage(first, { k: 1 });
    await receiver.deferMessage(second);
    await receiver.deadLetterMessage(third, { deadLetterReason: "why" });
    const again = await one(receiver);
    assert.deepEqual([again.body, again.deliveryCount, again.applicationProperties.k], [0, 1, 1]);
    assert.deepEqual(bodies(await receiver.receiveDeferredMessages([second.sequenceNumber])), [1]);
    assert.deepEqual(bodies(await peek(client, [topic, "one"], DEAD_LETTER)), [2]);
    const others = await drain(client, [topic, "two"], 3);
    assert.deepEqual(others.map((m) => [m.body, m.deliveryCount, m.applicationProperties.k]), [[0, 0, 0], [1, 0, 0], [2, 0, 0]]);
  }));

  it("the dead-letter queue of a subscription", withTopic(async (client, topic) => {
    await send(client, topic, { body: 1 });
    const receiver = client.createReceiver(topic, "two");
    await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "r", deadLetterErrorDescription: "d" });
    const dead = createReceiver(client, [topic, "two"], DEAD_LETTER);
    const message = await one(dead);
    assert.deepEqual([message.deadLetterReason, message.deadLetterErrorDescription], ["r", "d"]);
    await dead.renewMessageLock(message);
    await dead.completeMessage(message);
    assert.equal((await peek(client, [topic, "two"], DEAD_LETTER)).length, 0);
    assert.equal((await peek(client, [topic, "one"])).length, 1);
  }));

  it("a subscription's lock is renewed and settled there only", withTopic(async (client, topic) => {
    await send(client, topic, { body: 1 });
    const receiver = client.createReceiver(topic, "one");
    const message = await one(receiver);
    const end = message.lockedUntilUtc;
    assert((await receiver.renewMessageLock(message)) >= end);
    await assert.rejects(client.createReceiver(topic, "two").renewMessageLock(message), failsWith("MessageLockLost"));
    await receiver.completeMessage(message);
  }));

  it("declared rules decide who gets a message", withTopic(async (client, topic) => {
    const eu = { region: "eu", amount: 5 };
    await send(
      client,
      topic,
      { body: "plain" },
      { body: "red", subject: "red" },
      { body: "eu", applicationProperties: eu },
      { body: "half", applicationProperties: { region: "eu" } },
      { body: "both", subject: "red", applicationProperties: eu },
    );
    assert.equal((await peek(client, [topic, "all"])).length, 5);
    assert.deepEqual(bodies(await peek(client, [topic, "red"])), ["red", "both"]);
    assert.deepEqual(bodies(await peek(client, [topic, "eu"])), ["eu", "both"]);
    assert.equal((await peek(client, [topic, "none"])).length, 0);
  }, "topic_rules"));

  it("scheduling on a topic and cancelling there", withTopic(async (client, topic) => {
    const sender = client.createSender(topic);
    const later = new Date(Date.now() + 3_600_000);
    const [first, second] = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], later);
    await sender.cancelScheduledMessages(first);
    await assert.rejects(sender.cancelScheduledMessages(first), failsWith("MessageNotFound"));
    assert.equal((await peek(client, [topic, "one"])).length, 0, "it rests on the topic");
    await sender.scheduleMessages({ body: "now" }, new Date(Date.now() - 1_000));
    assert.deepEqual(bodies(await drain(client, [topic, "one"], 1)), ["now"]);
    await sender.cancelScheduledMessages(second);
  }));

  it("messages scheduled on a topic are found by browsing it, and cancelled", withTopic(async (client, topic) => {
    const sender = client.createSender(topic);
    const later = new Date(Date.now() + 3_600_000);
    await send(client, topic, { body: "now" });
    await sender.scheduleMessages([{ body: 1 }, { body: 2, messageId: "two" }], later);
    const found = await peek(client, topic);
    assert.deepEqual(found.map((m) => [m.body, m.state]), [[1, "scheduled"], [2, "scheduled"]]);
    await sender.cancelScheduledMessages(found.find((m) => m.messageId === "two").sequenceNumber);
    assert.deepEqual(bodies(await peek(client, topic)), [1]);
    await assert.rejects(client.createReceiver(topic).receiveMessages(1), /one of its subscriptions/);
  }));

  it("a new subscription has the rule that matches everything", withRules(async (manager) => {
    const rules = await rulesOf(manager);
    assert.deepEqual(rules.map(({ name, filter }) => [name, filter]), [["$Default", { sqlExpression: "1=1" }]]);
  }));

  it("rules are added and removed, and count from then on", withRules(async (manager, client, topic) => {
    await manager.createRule("red", { subject: "red" });
    await manager.deleteRule("$Default");
    await send(client, topic, { body: 1, subject: "red" }, { body: 2, subject: "blue" }, { body: 3 });
    assert.deepEqual(bodies(await peek(client, [topic, "one"])), [1]);
    assert.equal((await peek(client, [topic, "two"])).length, 3);
    await manager.createRule("also", { applicationProperties: { also: true } });
    await send(
      client,
      topic,
      { body: 4, applicationProperties: { also: true } },
      { body: 5, subject: "red", applicationProperties: { also: true } },
    );
    assert.deepEqual(bodies(await peek(client, [topic, "one"])), [1, 4, 5], "once, however many rules match");
    await manager.deleteRule("red");
    await manager.deleteRule("also");
    await send(client, topic, { body: 6 });
    assert.equal((await peek(client, [topic, "one"])).length, 3);
    assert.deepEqual(await rulesOf(manager), []);
  }));

  it("every field of a correlation filter comes back and counts", withRules(async (manager, client, topic) => {
    const when = new Date(1_700_000_000_000);
    const filter = {
      correlationId: "correlation",
      messageId: "message",
      to: "to",
      replyTo: "reply",
      subject: "subject",
      sessionId: "session",
      replyToSessionId: "back",
      contentType: "type",
      applicationProperties: { text: "x", whole: 7, half: 0.5, truth: true, when },
    };
    await manager.deleteRule("$Default");
    await manager.createRule("all", filter);
    const [rule] = await rulesOf(manager);
    assert.equal(rule.name, "all");
    assert.deepEqual({ ...rule.filter, applicationProperties: undefined }, { ...filter, applicationProperties: undefined });
    const { when: shown, ...others } = rule.filter.applicationProperties;
    assert.deepEqual(others, { text: "x", whole: 7, half: 0.5, truth: true });
    assert.equal(+shown, +when);
    const message = { body: "match", ...filter };
    await send(client, topic, message);
    for (const key of Object.keys(filter)) await send(client, topic, { ...message, body: key, [key]: undefined });
    for (const key of Object.keys(filter.applicationProperties)) {
      await send(client, topic, { ...message, body: key, applicationProperties: { ...filter.applicationProperties, [key]: "other" } });
    }
    assert.deepEqual(bodies(await peek(client, [topic, "one"])), ["match"]);
  }));

  it("a filter of one field shows no others", withRules(async (manager) => {
    await manager.createRule("r", { correlationId: "c" });
    const rule = (await rulesOf(manager)).find(({ name }) => name === "r");
    const { applicationProperties, ...fields } = given(rule.filter);
    assert.deepEqual(fields, { correlationId: "c" });
    assert.deepEqual(applicationProperties ?? {}, {});
  }));

  it("true and false filters travel as SQL and keep their text", withRules(async (manager, client, topic) => {
    await manager.createRule("no", { sqlExpression: "1=0" });
    await manager.createRule("yes", { sqlExpression: " 1 = 1 " });
    const rules = await rulesOf(manager);
    assert.deepEqual(rules.map(({ name, filter }) => [name, filter.sqlExpression]), [["$Default", "1=1"], ["no", "1=0"], ["yes", " 1 = 1 "]]);
    await manager.deleteRule("$Default");
    await manager.deleteRule("yes");
    await send(client, topic, { body: 1 });
    assert.equal((await peek(client, [topic, "one"])).length, 0);
  }));

  it("a hundred and fifty rules are all listed", withRules(async (manager) => {
    const names = range(150).map((n) => `r${String(n).padStart(3, "0")}`);
    await Promise.all(names.map((name) => manager.createRule(name, { subject: name })));
    const rules = await rulesOf(manager);
    assert.deepEqual(rules.map(({ name }) => name), ["$Default", ...names]);
  }));

  it("a rule that is there already, and one that is not", withRules(async (manager) => {
    await manager.createRule("r", { subject: "x" });
    await assert.rejects(manager.createRule("R", { subject: "x" }), failsWith("MessagingEntityAlreadyExists"));
    await assert.rejects(manager.deleteRule("nowhere"), failsWith("MessagingEntityNotFound"));
    await manager.deleteRule("R");
  }));

  it("rules that make no sense", withRules(async (manager) => {
    for (const name of ["a/b", "a?b", "n".repeat(51)]) {
      await assert.rejects(manager.createRule(name, { subject: "x" }), failsWith("GeneralError"), name);
    }
    await assert.rejects(manager.createRule("empty", { applicationProperties: {} }), failsWith("GeneralError"));
    assert.equal((await rulesOf(manager)).length, 1);
  }));

  it("SQL filters and actions make the copies they say", withRules(async (manager, client, topic) => {
    await manager.createRule("large", { sqlExpression: "amount > 5 AND sys.Label LIKE 'order%'" });
    await manager.createRule("priced", { sqlExpression: "EXISTS(amount)" }, {
      sqlExpression: "SET amount = amount + 1; SET sys.Label = 'priced'; SET sys.To = 'shop'; REMOVE note",
    });
    await manager.createRule("red", { applicationProperties: { colour: "red" } }, { sqlExpression: "SET sys.CorrelationId = colour" });
    const rules = await rulesOf(manager);
    assert.deepEqual(rules.map(({ name, filter, action }) => [name, filter.sqlExpression, action.sqlExpression]), [
      ["$Default", "1=1", undefined],
      ["large", "amount > 5 AND sys.Label LIKE 'order%'", undefined],
      ["priced", "EXISTS(amount)", "SET amount = amount + 1; SET sys.Label = 'priced'; SET sys.To = 'shop'; REMOVE note"],
      ["red", undefined, "SET sys.CorrelationId = colour"],
    ]);
    await manager.deleteRule("$Default");
    await send(
      client,
      topic,
      { body: "all", subject: "order 7", applicationProperties: { amount: 7, note: "n", colour: "red" } },
      { body: "priced", subject: "order 8", applicationProperties: { amount: 5 } },
      { body: "none", subject: "order 9", applicationProperties: { colour: "blue" } },
    );
    const shown = (m) => [m.body, m.subject, m.to, m.correlationId, m.applicationProperties];
    const priced = (properties) => ({ ...properties, RuleName: "priced" });
    const expected = [
      ["all", "order 7", undefined, undefined, { amount: 7, note: "n", colour: "red" }],
      ["all", "order 7", undefined, "red", { amount: 7, note: "n", colour: "red", RuleName: "red" }],
      ["all", "priced", "shop", undefined, priced({ amount: 8, colour: "red" })],
      ["priced", "priced", "shop", undefined, priced({ amount: 6 })],
    ];
    const sorted = (copies) => copies.map((copy) => JSON.stringify(copy.map((field) => field ?? null))).map((text) => JSON.parse(text, ordered)).map((copy) => JSON.stringify(copy)).sort();
    assert.deepEqual(sorted((await peek(client, [topic, "one"])).map(shown)), sorted(expected));
    assert.deepEqual(sorted((await drain(client, [topic, "one"], 4)).map(shown)), sorted(expected));
    assert.equal((await peek(client, [topic, "two"])).length, 3, "untouched");
  }));

  it("invalid SQL is refused with its place", withRules(async (manager) => {
    const everything = { sqlExpression: "1=1" };
    await assert.rejects(manager.createRule("r", { sqlExpression: "color = 'red' blue" }), /found 'blue' where .* \(at character 15 of the expression\)/);
    await assert.rejects(manager.createRule("r", { sqlExpression: "sys.Nothing = 1" }), /no system property 'Nothing'/);
    await assert.rejects(manager.createRule("r", everything, { sqlExpression: "SET a" }), /rule's action .* \(at character 6 of the expression\)/);
    await assert.rejects(manager.createRule("r", { sqlExpression: `a = '${"x".repeat(1_024)}'` }), /at most 1024 are accepted/);
    await assert.rejects(manager.createRule("r", everything, { sqlExpression: "REMOVE a ".repeat(33) }), /at most 32 are accepted/);
    assert.equal((await rulesOf(manager)).length, 1);
  }));

  it("rules of an entity that is not a subscription", withTopic(async (client, topic) => {
    const nowhere = client.createRuleManager(topic, "nowhere");
    await assert.rejects(rulesOf(nowhere), failsWith("MessagingEntityNotFound"));
  }));

  it("missing entities", withTopic(async (client, topic) => {
    const receiver = client.createReceiver(topic, "nowhere");
    await assert.rejects(receiver.receiveMessages(1, { maxWaitTimeInMs: 1_000 }), failsWith("MessagingEntityNotFound"));
    await assert.rejects(receiver.peekMessages(1), failsWith("MessagingEntityNotFound"));
  }));

  it("topics give nothing and subscriptions take nothing", withTopic(async (client, topic) => {
    await assert.rejects(client.createReceiver(topic).receiveMessages(1, { maxWaitTimeInMs: 1_000 }), /can't be received from a topic/);
    assert.deepEqual(await client.createReceiver(topic).peekMessages(1), [], "nothing is scheduled");
    await assert.rejects(client.createReceiver(topic).receiveDeferredMessages([Long.fromNumber(1)]), /can't be received from a topic/);
    const sender = client.createSender(`${topic}/Subscriptions/one`);
    await assert.rejects(sender.sendMessages({ body: 1 }), /can't be sent to a subscription/);
    await assert.rejects(sender.scheduleMessages({ body: 1 }, new Date(Date.now() + 60_000)), /can't be sent to a subscription/);
    assert(await nothing(client.createReceiver(topic, "one")));
  }));
});

it("a sender and a rule manager are told when their entity is deleted", async () => {
  const idle = { auto_delete_on_idle: "PT1H" };
  const config = entitiesText({ queues: { q: idle }, topics: { t: { ...idle, subscriptions: [{ name: "s" }] } } });
  const daemon = await new Daemon({ timeTravel: true, config }).start();
  await withClient(daemon, async (client) => {
    const senders = [client.createSender("q"), client.createSender("t")];
    for (const sender of senders) await sender.sendMessages({ body: 1 });
    const manager = client.createRuleManager("t", "s");
    assert.equal((await rulesOf(manager)).length, 1);
    await daemon.advance("PT2H");
    for (const sender of senders) await assert.rejects(sender.sendMessages({ body: 2 }), failsWith("MessagingEntityNotFound"));
    await assert.rejects(rulesOf(manager), failsWith("MessagingEntityNotFound"));
  });
  await daemon.close();
});
