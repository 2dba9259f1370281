// Rules by the SDK's rule manager: created, listed, deleted, refused. Their matches are in rule-matrix.test.mjs.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DEAD_LETTER, Daemon, bodies, drain, entitiesText, peek, range, send, take, withClient } from "./harness.mjs";

const failsWith = (code, message) => (error) => {
  assert.deepEqual([error.name, error.code], ["ServiceBusError", code], error.message);
  if (message) assert.match(error.message, message);
  return true;
};

/** By page: one by one, the SDK shows `undefined` where there are no rules. */
async function listed(manager, settings) {
  const pages = [];
  for await (const page of manager.listRules().byPage(settings)) pages.push(page);
  return pages;
}
const rulesOf = async (manager) => (await listed(manager)).flat();

describe("rules", { concurrency: 8 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withRules = (test) => () =>
    withClient(daemon, async (client) => {
      const topic = daemon.topic();
      await test(client.createRuleManager(topic, "one"), client, topic);
    });

  it("SQL filters and actions come back as they were written", withRules(async (manager) => {
    const filter = { sqlExpression: "  color = 'it''s'\n  AND [two words] > 5  " };
    const action = { sqlExpression: "SET a = 1; REMOVE b;" };
    await manager.deleteRule("$Default");
    await manager.createRule("both", filter, action);
    await manager.createRule("filter", filter);
    await manager.createRule("action", { subject: "red" }, action);
    const [correlated, both, bare] = await rulesOf(manager);
    assert.deepEqual(both, { name: "both", filter, action });
    assert.deepEqual(bare, { name: "filter", filter, action: {} });
    assert.deepEqual([correlated.filter.subject, correlated.action], ["red", action]);
  }));

  it("filters that are always true or false are shown as by Service Bus", withRules(async (manager) => {
    await manager.createRule("yes", { sqlExpression: "1=1" }, { sqlExpression: "SET a = 1" });
    await manager.createRule("no", { sqlExpression: "1=0" });
    const rules = await rulesOf(manager);
    assert.deepEqual(
      rules.map(({ name, filter, action }) => [name, filter.sqlExpression, action.sqlExpression]),
      [["$Default", "1=1", undefined], ["no", "1=0", undefined], ["yes", "1=1", "SET a = 1"]],
    );
  }));

  it("hundreds of SQL rules are listed in pages of any size", withRules(async (manager) => {
    const names = range(205).map((n) => `r${String(n).padStart(3, "0")}`);
    await Promise.all(names.map((name, n) => manager.createRule(name, { sqlExpression: `n = ${n}` })));
    const all = ["$Default", ...names];
    assert.deepEqual((await rulesOf(manager)).map(({ name }) => name), all);
    const pages = await listed(manager, { maxPageSize: 30 });
    assert.deepEqual(pages.map((page) => page.length), [30, 30, 30, 30, 30, 30, 26]);
    assert.deepEqual(pages.flat().map(({ name }) => name), all);
    assert.deepEqual(pages.flat().map(({ filter }) => filter.sqlExpression), ["1=1", ...range(205).map((n) => `n = ${n}`)]);
  }));

  it("SQL that makes no sense is refused with its place", withRules(async (manager) => {
    const wrong = [
      ["color = ", undefined, /filter.*text ends where a value was expected.*character 8/],
      ["color == 'red'", undefined, /filter.*found '='.*character 8/],
      ["color = 'red", undefined, /filter.*character 9/],
      ["sys.Colour = 'red'", undefined, /filter.*Colour.*character/],
      ["color = @missing", undefined, /filter.*@missing.*character 9/],
      ["", undefined, /filter/],
      ["SET a = 1", undefined, /filter.*SET.*character 1/],
      ["1=1", "color = 'red'", /action.*SET or REMOVE.*character 1/],
      ["1=1", "SET a = 1; SET sys.SequenceNumber = 5", /action.*SequenceNumber.*character/],
      ["1=1", "SET a 1", /action.*found '1'.*character 7/],
    ];
    for (const [sqlExpression, action, message] of wrong) {
      const refused = action
        ? manager.createRule("r", { sqlExpression }, { sqlExpression: action })
        : manager.createRule("r", { sqlExpression });
      await assert.rejects(refused, failsWith("GeneralError", message), `${sqlExpression} ${action}`);
    }
    assert.deepEqual((await rulesOf(manager)).map(({ name }) => name), ["$Default"]);
  }));

  it("parameters do not travel over AMQP, so they have no value", withRules(async (manager) => {
    const refused = manager.createRule("r", { sqlExpression: "n = @n", sqlParameters: { "@n": 5 } });
    await assert.rejects(refused, failsWith("GeneralError", /@n.*character 5/));
  }));

  it("the limits of an expression and of an action", withRules(async (manager) => {
    const longest = `color = '${"x".repeat(1_024 - 10)}'`;
    await manager.createRule("longest", { sqlExpression: longest });
    await assert.rejects(manager.createRule("longer", { sqlExpression: `${longest} ` }), failsWith("GeneralError", /1024/));
    const most = range(32).map((n) => `SET a${n} = ${n}`).join("; ");
    await manager.createRule("most", { sqlExpression: "1=0" }, { sqlExpression: most });
    await assert.rejects(manager.createRule("more", { sqlExpression: "1=0" }, { sqlExpression: `${most}; REMOVE b` }), failsWith("GeneralError", /32/));
  }));

  it("an SQL rule that is there already, and one that is not", withRules(async (manager) => {
    await manager.createRule("r", { sqlExpression: "a = 1" });
    await assert.rejects(manager.createRule("R", { sqlExpression: "a = 2" }), failsWith("MessagingEntityAlreadyExists"));
    const [, rule] = await rulesOf(manager);
    assert.equal(rule.filter.sqlExpression, "a = 1", "unchanged");
    await manager.deleteRule("r");
    await assert.rejects(manager.deleteRule("r"), failsWith("MessagingEntityNotFound"));
  }));

  it("each message sees the rules before a change or those after it", withRules(async (manager, client, topic) => {
    await manager.deleteRule("$Default");
    const sender = client.createSender(topic);
    const expected = [];
    for (const round of range(40)) {
      await manager.createRule(`r${round}`, { sqlExpression: "n > 0" }, { sqlExpression: `SET round = ${round}` });
      const during = range(3).map((n) => sender.sendMessages({ body: `${round}-${n}`, applicationProperties: { n: n + 1 } }));
      // Sent without waiting for their arrival: the change is ordered before or after the first one.
      await during[0];
      await manager.deleteRule(`r${round}`);
      await Promise.all(during);
      expected.push(round);
    }
    await manager.createRule("end", { sqlExpression: "1=1" });
    await sender.sendMessages({ body: "end" });
    const receiver = client.createReceiver(topic, "one", { receiveMode: "receiveAndDelete" });
    const received = [];
    while (received.at(-1)?.body !== "end") received.push(...(await take(receiver, 1)));
    const copies = received.slice(0, -1).map(({ body, applicationProperties: { RuleName, round } }) => [body, RuleName, round]);
    for (const [body, rule, round] of copies) {
      assert.equal(body.split("-")[0], `${round}`, "each by the rule of its round");
      assert.equal(rule, `r${round}`);
    }
    const first = copies.filter(([body]) => body.endsWith("-0")).map(([, , round]) => round);
    assert.deepEqual(first, expected, "what was accepted before the change was sorted before it");
    assert.equal(new Set(copies.map(([body]) => body)).size, copies.length);
  }));

  it("a session's subscription takes the session that an action sets", async () => {
    const subscriptions = [{ name: "s", requires_session: true, rules: [] }];
    const own = await new Daemon({ config: entitiesText({ topics: { t: { subscriptions } } }) }).start();
    await withClient(own, async (client) => {
      const manager = client.createRuleManager("t", "s");
      await manager.createRule("r", { sqlExpression: "EXISTS(customer)" }, { sqlExpression: "SET sys.SessionId = customer" });
      const customer = (name) => ({ body: name, applicationProperties: { customer: name } });
      await send(client, "t", [customer("ada"), customer("bob"), customer("ada")]);
      for (const [name, count] of [["bob", 1], ["ada", 2]]) {
        const receiver = await client.acceptSession("t", "s", name, { receiveMode: "receiveAndDelete" });
        const messages = await take(receiver, count);
        assert.deepEqual(messages.map(({ body, sessionId }) => [body, sessionId]), Array(count).fill([name, name]));
        await receiver.close();
      }
    });
    await own.close();
  });

  it("changes of receivers lie over those of actions", withRules(async (manager, client, topic) => {
    await manager.deleteRule("$Default");
    await manager.createRule("act", { sqlExpression: "1=1" }, { sqlExpression: "SET n = 2; SET extra = 'set'; REMOVE gone" });
    await send(client, topic, { body: "x", applicationProperties: { n: 1, gone: 1, stays: 1 } });
    const receiver = client.createReceiver(topic, "one");
    const copy = { n: 2, extra: "set", stays: 1, RuleName: "act" };
    const [first] = await take(receiver, 1);
    assert.deepEqual(first.applicationProperties, copy);
    await receiver.abandonMessage(first, { n: 3, gone: 3 });
    const [second] = await take(receiver, 1);
    assert.deepEqual(second.applicationProperties, { ...copy, n: 3, gone: 3 });
    await receiver.deadLetterMessage(second, { deadLetterReason: "r", extra: "mine" });
    const [dead] = await peek(client, [topic, "one"], DEAD_LETTER);
    assert.deepEqual(dead.applicationProperties, { ...copy, n: 3, gone: 3, extra: "mine", DeadLetterReason: "r" });
    assert.equal(dead.deadLetterReason, "r");
  }));

  it("rules survive a kill", async () => {
    const config = entitiesText({ topics: { t: { subscriptions: [{ name: "s" }] } } });
    const own = await new Daemon({ config }).start();
    const listing = await withClient(own, async (client) => {
      const manager = client.createRuleManager("t", "s");
      await manager.deleteRule("$Default");
      await manager.createRule("plain", { sqlExpression: "n > 1 AND color LIKE 'r%'" });
      await manager.createRule("act", { subject: "x" }, { sqlExpression: "SET n = n + 1" });
      await send(client, "t", { body: "before", subject: "x", applicationProperties: { n: 1, color: "red" } });
      return rulesOf(manager);
    });
    await own.restart();
    await withClient(own, async (client) => {
      assert.deepEqual(await rulesOf(client.createRuleManager("t", "s")), listing);
      await send(client, "t", { body: "after", subject: "x", applicationProperties: { n: 2, color: "red" } });
      const messages = await drain(client, ["t", "s"], 3);
      assert.deepEqual(bodies(messages), ["before", "after", "after"]);
      assert.deepEqual(
        messages.map(({ applicationProperties }) => applicationProperties),
        [{ n: 2, color: "red", RuleName: "act" }, { n: 2, color: "red" }, { n: 3, color: "red", RuleName: "act" }],
      );
      assert.deepEqual(await peek(client, ["t", "s"]), []);
    });
    await own.close();
  });
});
