// Entities created, changed, listed and deleted by the SDK's administration client.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  Daemon,
  administrationClient,
  drain,
  entitiesText,
  isTrusting,
  peek,
  range,
  runTrusting,
  send,
  withClient,
} from "./harness.mjs";

const QUEUE = {
  lockDuration: "PT30S",
  maxSizeInMegabytes: 2048,
  requiresDuplicateDetection: true,
  requiresSession: true,
  defaultMessageTimeToLive: "P2D",
  deadLetteringOnMessageExpiration: true,
  duplicateDetectionHistoryTimeWindow: "PT5M",
  maxDeliveryCount: 7,
  enableBatchedOperations: false,
  status: "ReceiveDisabled",
  userMetadata: 'mine & "yours" <ä>',
  autoDeleteOnIdle: "PT1H",
  enablePartitioning: true,
  enableExpress: false,
  maxMessageSizeInKilobytes: 2048,
  authorizationRules: [
    {
      claimType: "SharedAccessKey",
      accessRights: ["Manage", "Send", "Listen"],
      keyName: "key",
      primaryKey: "one",
      secondaryKey: "two",
    },
  ],
};
const TOPIC = {
  defaultMessageTimeToLive: "P2D",
  maxSizeInMegabytes: 2048,
  requiresDuplicateDetection: true,
  duplicateDetectionHistoryTimeWindow: "PT5M",
  enableBatchedOperations: false,
  status: "SendDisabled",
  supportOrdering: false,
  autoDeleteOnIdle: "PT1H",
  enablePartitioning: true,
  userMetadata: "mine",
  maxMessageSizeInKilobytes: 2048,
};
const SUBSCRIPTION = {
  lockDuration: "PT30S",
  requiresSession: true,
  defaultMessageTimeToLive: "P2D",
  deadLetteringOnMessageExpiration: true,
  deadLetteringOnFilterEvaluationExceptions: false,
  maxDeliveryCount: 7,
  enableBatchedOperations: false,
  status: "Disabled",
  userMetadata: "mine",
  autoDeleteOnIdle: "PT1H",
};

const chosen = (entity, of) => Object.fromEntries(Object.keys(of).map((key) => [key, entity[key]]));
const all = async (pages) => {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
};

describe(`administration over ${isTrusting ? "https" : "plain HTTP"}`, () => {
  let daemon, admin;
  before(async () => {
    const queues = Object.fromEntries(range(250).map((n) => [`many-${String(n).padStart(3, "0")}`, {}]));
    daemon = isTrusting ? Daemon.attached() : await new Daemon({ config: entitiesText({ queues }) }).start();
    admin = administrationClient(daemon);
  });
  after(() => daemon.close());

  it("gives back every property of a queue", async () => {
    const name = "every/property";
    assert.deepEqual(chosen(await admin.createQueue(name, QUEUE), QUEUE), QUEUE);
    await admin.updateQueue(await admin.getQueue(name));
    assert.deepEqual(chosen(await admin.getQueue(name), QUEUE), QUEUE);
    await admin.updateQueue({ ...(await admin.getQueue(name)), userMetadata: undefined, maxDeliveryCount: 3 });
    const changed = await admin.getQueue(name);
    assert.deepEqual([changed.userMetadata, changed.maxDeliveryCount], [undefined, 3]);
    await admin.deleteQueue(name);
    assert.equal(await admin.queueExists(name), false);
  });

  it("gives back every property of a topic and a subscription", async () => {
    assert.deepEqual(chosen(await admin.createTopic("t", TOPIC), TOPIC), TOPIC);
    await admin.updateTopic(await admin.getTopic("t"));
    assert.deepEqual(chosen(await admin.getTopic("t"), TOPIC), TOPIC);
    assert.deepEqual(chosen(await admin.createSubscription("t", "s", SUBSCRIPTION), SUBSCRIPTION), SUBSCRIPTION);
    await admin.updateSubscription(await admin.getSubscription("t", "s"));
    assert.deepEqual(chosen(await admin.getSubscription("t", "s"), SUBSCRIPTION), SUBSCRIPTION);
    await admin.deleteSubscription("t", "s");
    assert.equal(await admin.subscriptionExists("t", "s"), false);
    await admin.deleteTopic("t");
    assert.equal(await admin.topicExists("t"), false);
  });

  it("keeps rules and matches numbers by value", async () => {
    await admin.createQueue("target");
    await admin.createTopic("rules");
    const filter = { subject: "red", applicationProperties: { n: 5, half: 1.5, yes: true, word: "x", at: new Date(7) } };
    const forwarding = { forwardTo: "target" };
    await admin.createSubscription("rules", "s", { defaultRuleOptions: { name: "first", filter }, ...forwarding });
    assert.match((await admin.getSubscription("rules", "s")).forwardTo, /^sb:\/\/.*\/target$/);
    const first = await admin.getRule("rules", "s", "first");
    assert.deepEqual(chosen(first.filter, filter), filter);
    await admin.updateSubscription({ ...(await admin.getSubscription("rules", "s")), forwardTo: undefined });
    await admin.createRule("rules", "s", "all");
    await admin.updateRule("rules", "s", { ...first, filter: { applicationProperties: { n: 5 } } });
    await admin.deleteRule("rules", "s", "all");
    const rules = await all(admin.listRules("rules", "s"));
    assert.deepEqual(rules.map((rule) => rule.name), ["first"]);
    await withClient(daemon, async (client) => {
      await send(client, "rules", { body: "six", applicationProperties: { n: 6 } });
      await send(client, "rules", { body: "five", applicationProperties: { n: 5 } });
      const [message] = await drain(client, ["rules", "s"], 1);
      assert.equal(message.body, "five");
    });
  });

  it("keeps SQL, its parameters and actions", async () => {
    await admin.createTopic("sql");
    await admin.createSubscription("sql", "s", { defaultRuleOptions: { name: "no", filter: { sqlExpression: "1=0" } } });
    const parameters = { "@n": 5, "@word": "x <&>", "@yes": true, "@at": new Date(7) };
    const filter = { sqlExpression: "n > @n AND word <> @word", sqlParameters: parameters };
    const action = { sqlExpression: "SET n = @to; SET sys.Label = 'large'", sqlParameters: { "@to": 2.5 } };
    const created = await admin.createRule("sql", "s", "large", filter, action);
    for (const rule of [created, await admin.getRule("sql", "s", "large"), (await all(admin.listRules("sql", "s")))[0]]) {
      assert.deepEqual([rule.filter, rule.action], [filter, action]);
    }
    await admin.updateRule("sql", "s", await admin.getRule("sql", "s", "large"));
    assert.deepEqual((await admin.getRule("sql", "s", "large")).action, action);
    await withClient(daemon, async (client) => {
      await send(client, "sql", { body: "small", applicationProperties: { n: 5, word: "y" } });
      await send(client, "sql", { body: "large", applicationProperties: { n: 6, word: "y" } });
      const [message] = await drain(client, ["sql", "s"], 1);
      assert.deepEqual([message.body, message.subject], ["large", "large"]);
      assert.deepEqual(message.applicationProperties, { word: "y", n: 2.5, RuleName: "large" });
    });
    const refused = (filter, action, text) => assert.rejects(admin.createRule("sql", "s", "r", filter, action), text);
    await refused({ sqlExpression: "a > " }, undefined, /rule's filter can't be read: .* \(at character 4 of the expression\)/);
    await refused({ sqlExpression: "1=1" }, { sqlExpression: "REMOVE" }, /rule's action can't be read/);
    await admin.deleteTopic("sql");
  });

  it("refuses with the SDK's own codes", async () => {
    await assert.rejects(admin.getQueue("missing"), { code: "MessageEntityNotFoundError", statusCode: 200 });
    await assert.rejects(admin.createQueue("many-000"), { code: "MessageEntityAlreadyExistsError" });
    await assert.rejects(admin.createQueue("bad", { lockDuration: "PT1H" }), /'LockDuration' must be from PT5S to PT5M/);
    await assert.rejects(admin.deleteTopic("missing"), { code: "MessageEntityNotFoundError" });
    const wrong = administrationClient(daemon, daemon.connectionStringTls.replace("SAS_KEY_VALUE", "wrong"));
    await assert.rejects(wrong.getQueue("many-000"), { code: "UnauthorizedRequestError", statusCode: 401 });
  });

  it("forwards and disables as configured", async () => {
    await admin.createQueue("last");
    await admin.createQueue("first", { forwardTo: "last", forwardDeadLetteredMessagesTo: "last" });
    await withClient(daemon, async (client) => {
      await send(client, "first", { body: "forwarded" });
      const [message] = await drain(client, "last", 1);
      assert.equal(message.body, "forwarded");
      await admin.updateQueue({ ...(await admin.getQueue("last")), status: "SendDisabled" });
      await assert.rejects(send(client, "last", { body: "refused" }), { code: "MessagingEntityDisabled" });
    }, { retryOptions: { maxRetries: 0 } });
    await Promise.all(["first", "last"].map((name) => admin.deleteQueue(name)));
  });

  it("cancels scheduled messages where sending is disabled", async () => {
    await admin.createQueue("closed");
    await admin.createTopic("closed-topic");
    await withClient(daemon, async (client) => {
      for (const [name, update] of [
        ["closed", async (status) => admin.updateQueue({ ...(await admin.getQueue("closed")), status })],
        ["closed-topic", async (status) => admin.updateTopic({ ...(await admin.getTopic("closed-topic")), status })],
      ]) {
        const sender = client.createSender(name);
        const later = new Date(Date.now() + 3_600_000);
        const [first, second] = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], later);
        await update("SendDisabled");
        assert.equal((await peek(client, name)).length, 2);
        await sender.cancelScheduledMessages(first);
        assert.deepEqual((await peek(client, name)).map((m) => m.body), [2]);
        await assert.rejects(sender.scheduleMessages({ body: 3 }, later), { code: "MessagingEntityDisabled" });
        await update("Disabled");
        await assert.rejects(sender.cancelScheduledMessages(second), { code: "MessagingEntityDisabled" });
      }
    }, { retryOptions: { maxRetries: 0 } });
    await admin.deleteQueue("closed");
    await admin.deleteTopic("closed-topic");
  });

  it("forwards to an entity where sending is disabled", async () => {
    await admin.createQueue("last", { status: "SendDisabled" });
    await admin.createQueue("first", { forwardTo: "last" });
    await withClient(daemon, async (client) => {
      await send(client, "first", { body: "forwarded" });
      assert.equal((await drain(client, "last", 1))[0].body, "forwarded");
    });
    await Promise.all(["first", "last"].map((name) => admin.deleteQueue(name)));
  });

  it("lists 250 queues in pages of any size", async () => {
    const names = range(250).map((n) => `many-${String(n).padStart(3, "0")}`);
    const many = (found) => found.map((queue) => queue.name).filter((name) => name.startsWith("many-"));
    assert.deepEqual(many(await all(admin.listQueues())), names);
    const pages = await all(admin.listQueuesRuntimeProperties().byPage({ maxPageSize: 30 }));
    assert.deepEqual(many(pages.flat()), names);
  });

  it("counts messages and tells about the namespace", async () => {
    await admin.createQueue("counted");
    await withClient(daemon, (client) => send(client, "counted", { body: 1 }, { body: 2 }));
    const queue = await admin.getQueueRuntimeProperties("counted");
    assert.deepEqual([queue.activeMessageCount, queue.totalMessageCount], [2, 2]);
    assert.equal((await admin.getNamespaceProperties()).messagingSku, "Premium");
  });

  it("does all of this over https as well", { skip: isTrusting }, async () => {
    for (const name of ["counted", "target"]) await admin.deleteQueue(name);
    await admin.deleteTopic("rules");
    await runTrusting(import.meta.url, daemon);
  });
});
