// A daemon as a replacement of the Service Bus emulator, with its Config.json and its connection string.

import assert from "node:assert/strict";
import fs from "node:fs";
import { after, before, describe, it } from "node:test";
import { DEAD_LETTER, Daemon, bodies, drain, one, peek, send, until, withClient } from "./harness.mjs";

const config = (more = "") => `{
  // In the emulator's format.
  "UserConfig": {
    "Namespaces": [{
      "Name": "sbemulatorns",
      "Queues": [{ "Name": "orders", "Properties": { "MaxDeliveryCount": 2 } } ${more}],
      "Topics": [{
        "Name": "news",
        "Subscriptions": [
          { "Name": "all" },
          { "Name": "red", "Rules": [{ "Name": "label", "Properties": {
            "FilterType": "Correlation", "CorrelationFilter": { "Label": "red", "Properties": { "region": "eu" } } } }] },
          { "Name": "sql", "Rules": [{ "Name": "large", "Properties": {
            "FilterType": "Sql", "SqlFilter": { "SqlExpression": "amount > 10 AND sys.Label LIKE 'r%'" },
            "Action": { "SqlExpression": "SET size = 'large'; REMOVE region" } } }] }
        ]
      }]
    }],
    "Logging": { "Type": "Console" }
  }
}`;

describe("in the place of the emulator", () => {
  let daemon;
  before(async () => (daemon = await new Daemon({ emulator: config() }).start()));
  after(() => daemon.close());

  it("says that it is up, as the emulator does", async () => {
    await until(() => daemon.log().split("\n").includes("Emulator Service is Successfully Up!"), "the line");
  });

  it("the declared queue has the declared properties", () => withClient(daemon, async (client) => {
    await send(client, "orders", { body: "hello" });
    const receiver = client.createReceiver("orders");
    for (let round = 0; round < 2; round++) await receiver.abandonMessage(await one(receiver));
    const [dead] = await drain(client, "orders", 1, DEAD_LETTER);
    assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
    assert.equal(dead.timeToLive, 3_600_000, "the emulator's default");
  }));

  it("the declared topic gives to its subscriptions by their rules", () => withClient(daemon, async (client) => {
    const message = (body, subject, region) => ({ body, subject, applicationProperties: { region } });
    await send(client, "news", message(1, "red", "eu"), message(2, "red", "us"), message(3, "blue", "eu"));
    assert.deepEqual(bodies(await peek(client, ["news", "all"])), [1, 2, 3]);
    assert.deepEqual(bodies(await drain(client, ["news", "red"], 1)), [1]);
    assert.deepEqual(await peek(client, ["news", "red"]), []);
  }));

  it("SQL of the file sorts and changes", () => withClient(daemon, async (client) => {
    const [rule] = await client.createRuleManager("news", "sql").getRules();
    assert.deepEqual(rule, {
      name: "large",
      filter: { sqlExpression: "amount > 10 AND sys.Label LIKE 'r%'" },
      action: { sqlExpression: "SET size = 'large'; REMOVE region" },
    });
    const message = (body, subject, amount) => ({ body, subject, applicationProperties: { amount, region: "us" } });
    await send(client, "news", message(4, "red", 10), message(5, "blue", 11), message(6, "red", 10.5));
    const [found] = await drain(client, ["news", "sql"], 1);
    assert.deepEqual([found.body, found.applicationProperties], [6, { amount: 10.5, size: "large", RuleName: "large" }]);
    assert.deepEqual(await peek(client, ["news", "sql"]), []);
  }));

  it("a queue that is added to the file is there after SIGHUP", () => withClient(daemon, async (client) => {
    fs.writeFileSync(daemon.emulator, config(', { "Name": "more" }'));
    daemon.process.kill("SIGHUP");
    await until(() => daemon.log().includes("reloaded; changes: 1"), "the reload");
    await send(client, "more", { body: "hello" });
    assert.deepEqual(bodies(await drain(client, "more", 1)), ["hello"]);
  }));
});
