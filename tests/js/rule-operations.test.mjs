// The rule operations of `$management` as bytes: described types and their codes, pages, refusals. By rhea.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import rhea from "rhea";
import { Daemon, range } from "./harness.mjs";

const { types } = rhea;

const RULE_DESCRIPTION = 0x137_0000_0004;
const EMPTY_ACTION = 0x137_0000_0005;
const SQL_ACTION = 0x137_0000_0006;
const SQL_FILTER = 0x13_7000_0006;
const TRUE_FILTER = 0x13_7000_0007;
const CORRELATION_FILTER = 0x13_7000_0009;

/** A description without its codes: `[code, ...fields]`, described fields likewise. */
function plain(value) {
  if (value?.descriptor) return [value.descriptor.value, ...value.value.map(plain)];
  return value?.value !== undefined ? value.value : value;
}

describe("rule operations", { concurrency: 6 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());

  /** Runs `test` with a function that sends requests to the `$management` of a fresh subscription. */
  const managed = (test) => async () => {
    const connection = rhea.create_container().connect({
      ...{ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false },
      ...{ username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" },
    });
    try {
      await once(connection, "connection_open");
      const node = `${daemon.topic()}/Subscriptions/one/$management`;
      const receiver = connection.open_receiver({ source: node, target: "answers" });
      const sender = connection.open_sender(node);
      await Promise.all([once(receiver, "receiver_open"), once(sender, "sendable")]);
      let asked = 0;
      await test(async (operation, body) => {
        const application_properties = { operation: `com.microsoft:${operation}` };
        sender.send({ message_id: `${++asked}`, reply_to: "answers", application_properties, body });
        const [{ message }] = await once(receiver, "message");
        assert.equal(message.correlation_id, `${asked}`);
        const { statusCode, errorCondition, statusDescription } = message.application_properties;
        return { status: statusCode, condition: errorCondition, text: statusDescription, body: message.body };
      });
    } finally {
      connection.close();
      await once(connection, "connection_close");
    }
  };

  const page = (skip, top) => ({ skip: types.wrap_int(skip), top: types.wrap_int(top) });
  const add = (ask, name, description) => ask("add-rule", { "rule-name": name, "rule-description": description });
  const sql = (expression) => ({ "sql-filter": { expression } });
  const namesOf = ({ body }) => body.rules.map((rule) => plain(rule["rule-description"])[3]);

  it("every kind of filter and action has its code", managed(async (ask) => {
    const started = Date.now();
    const action = { "sql-rule-action": { expression: "SET a = 1" } };
    const correlation = { "correlation-id": "c", label: null, properties: { n: types.wrap_long(5) } };
    const given = {
      equal: { "correlation-filter": correlation, "rule-name": "as .NET repeats it" },
      both: { ...sql("a > 1"), ...action },
      all: { ...sql("1=1"), ...action },
      sql: sql("a > 1"),
      no: sql("1=0"),
    };
    for (const [name, description] of Object.entries(given)) assert.equal((await add(ask, name, description)).status, 200, name);
    const { status, body } = await ask("enumerate-rules", page(0, 2_147_483_647));
    assert.equal(status, 200);
    const rules = body.rules.map((rule) => plain(rule["rule-description"]));
    for (const rule of rules) {
      const created = rule.pop();
      assert(+created >= started - 60_000 && +created <= Date.now() + 60_000, created);
    }
    const [none, act] = [[EMPTY_ACTION], [SQL_ACTION, "SET a = 1"]];
    const equal = rules[3][1].pop();
    assert.deepEqual(rules, [
      [RULE_DESCRIPTION, [TRUE_FILTER], none, "$Default"],
      [RULE_DESCRIPTION, [SQL_FILTER, "1=1"], act, "all"],
      [RULE_DESCRIPTION, [SQL_FILTER, "a > 1"], act, "both"],
      [RULE_DESCRIPTION, [CORRELATION_FILTER, "c", null, null, null, null, null, null, null], none, "equal"],
      [RULE_DESCRIPTION, [SQL_FILTER, "1=0"], none, "no"],
      [RULE_DESCRIPTION, [SQL_FILTER, "a > 1"], none, "sql"],
    ]);
    assert.deepEqual(equal.map(plain), ["n", 5], "a map");
  }));

  it("pages: skip, top and past the end", managed(async (ask) => {
    for (const n of range(4)) await add(ask, `r${n}`, sql(`n = ${n}`));
    assert.deepEqual(namesOf(await ask("enumerate-rules", page(0, 2))), ["$Default", "r0"]);
    assert.deepEqual(namesOf(await ask("enumerate-rules", page(2, 2))), ["r1", "r2"]);
    assert.deepEqual(namesOf(await ask("enumerate-rules", page(4, 2))), ["r3"]);
    for (const past of [5, 2_147_483_647]) {
      const { status, body } = await ask("enumerate-rules", page(past, 2));
      assert.equal(status, 204);
      assert(!body?.rules?.length);
    }
    for (const wrong of [page(-1, 2), page(0, -1), { skip: "0", top: "2" }]) {
      const { status, condition } = await ask("enumerate-rules", wrong);
      assert.deepEqual([status, condition], [400, "com.microsoft:argument-error"]);
    }
  }));

  it("a null action and a null filter beside another are none", managed(async (ask) => {
    const description = { ...sql("a = 1"), "correlation-filter": null, "sql-rule-action": null };
    assert.equal((await add(ask, "r", description)).status, 200);
    const { body } = await ask("enumerate-rules", page(1, 1));
    assert.deepEqual(plain(body.rules[0]["rule-description"]).slice(1, 4), [[SQL_FILTER, "a = 1"], [EMPTY_ACTION], "r"]);
  }));

  it("existing and missing rules", managed(async (ask) => {
    const twice = [await add(ask, "r", sql("a = 1")), await add(ask, "R", sql("a = 2"))];
    assert.deepEqual(twice.map(({ status }) => status), [200, 409]);
    assert.equal(twice[1].condition, "com.microsoft:entity-already-exists");
    const removed = [await ask("remove-rule", { "rule-name": "r" }), await ask("remove-rule", { "rule-name": "r" })];
    assert.deepEqual(removed.map(({ status }) => status), [200, 404]);
    // As for every unknown entity; the SDKs recognize them by it.
    assert.equal(removed[1].condition, "amqp:not-found");
  }));

  it("malformed descriptions are refused and change nothing", managed(async (ask) => {
    const described = (description) => ({ "rule-name": "r", "rule-description": description });
    const malformed = [
      {},
      { "rule-name": "r" },
      { "rule-description": sql("1=1") },
      { "rule-name": 5, "rule-description": sql("1=1") },
      described("1=1"),
      described({}),
      described({ "sql-filter": "1=1" }),
      described({ "sql-filter": {} }),
      described({ "sql-filter": { expression: 1 } }),
      described({ "sql-filter": { expression: "a =" } }),
      described({ ...sql("1=1"), "correlation-filter": { label: "x" } }),
      described({ "correlation-filter": {} }),
      described({ "correlation-filter": { label: 5 } }),
      described({ "correlation-filter": { properties: ["a"] } }),
      described({ ...sql("1=1"), "sql-rule-action": "SET a = 1" }),
      described({ ...sql("1=1"), "sql-rule-action": { expression: 1 } }),
      described({ ...sql("1=1"), "sql-rule-action": { expression: "a = 1" } }),
    ];
    for (const body of malformed) {
      const { status, condition, text } = await ask("add-rule", body);
      assert.deepEqual([status, condition], [400, "com.microsoft:argument-error"], JSON.stringify(body));
      assert.match(text, /\w+ \w+/);
    }
    const { text } = await ask("add-rule", described({ ...sql("1=1"), "sql-rule-action": { expression: "SET a 1" } }));
    assert.match(text, /character 7/);
    assert.deepEqual(namesOf(await ask("enumerate-rules", page(0, 100))), ["$Default"]);
  }));
});
