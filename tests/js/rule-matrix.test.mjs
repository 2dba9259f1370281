// Which copies a subscription gets for which rules: a matrix of rules and messages, as JavaScript sends and sees them.
//
// All messages are sent in one batch. Only the last rule matches the last message, so copies that have not arrived before
// its copy never will.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ServiceBusClient } from "@azure/service-bus";
import { DEAD_LETTER, Daemon, entitiesText, peek, take } from "./harness.mjs";

const AT = new Date("2026-01-02T03:04:05.678Z");
const MESSAGES = [
  { body: "red", subject: "red", applicationProperties: { color: "red", amount: 5, n: 5 } },
  { body: "Red", subject: "Red", applicationProperties: { color: "Red", amount: 5.5, n: 5.5 } },
  { body: "blue", subject: "blue", applicationProperties: { color: "blue", amount: -7, n: -7, big: 2 ** 40 } },
  { body: "nulls", applicationProperties: { color: null, amount: null } },
  { body: "bare" },
  { body: "texts", applicationProperties: { color: `it's "50%" [x]`, amount: "5", path: "eu/shop_1/a" } },
  { body: "truths", applicationProperties: { yes: true, no: false, at: AT } },
  { body: "names", applicationProperties: { "two words": 1, "a]b": 2, 'q"t': 3, and: 4 } },
  {
    body: "ids",
    ...{ messageId: "m-1", correlationId: "c-1", to: "there", replyTo: "back", contentType: "text/plain" },
    ...{ sessionId: "s-1", replyToSessionId: "r-1" },
  },
  { body: "keyed", messageId: 7, partitionKey: "k-1", timeToLive: 3_600_000 },
  { body: "end", applicationProperties: { end: true } },
];
const ALL = MESSAGES.map(({ body }) => body);
const but = (...bodies) => ALL.filter((body) => !bodies.includes(body));
/** The copy that a rule with an action makes: the properties set, `undefined` for removed ones. */
const by = (rule, body, user = {}, system = {}) => ({ rule, body, user, system });
const sql = (sqlExpression, action) => [{ sqlExpression }, action && { sqlExpression: action }];
const equal = (filter, action) => [filter, action && { sqlExpression: action }];

/** `[title, rules by name, copies in order (that of the rules' names), dead letters as [body, reason]]`; a string stands for an unchanged copy. */
const CASES = [
  // --- conditions ---
  ["everything", { all: sql("1=1") }, ALL],
  ["nothing", { none: sql("1=0") }, []],
  ["equality is case-sensitive", { r: sql("color = 'red'") }, ["red"]],
  ["names of properties are not", { r: sql("COLOR = 'red' and user.Amount = 5") }, ["red"]],
  ["what is missing or null is not different", { r: sql("color <> 'red'") }, ["Red", "blue", "texts"]],
  ["nor does NOT find it", { r: sql("NOT (color = 'red')") }, ["Red", "blue", "texts"]],
  ["an int equals a double", { r: sql("amount = 5.0") }, ["red"]],
  ["a number is no text", { r: sql("amount = '5'") }, ["texts"]],
  ["ints and doubles in one order", { r: sql("amount > 4.5 AND amount <= 5.5") }, ["red", "Red"]],
  ["negative numbers", { r: sql("amount < 0 AND -n = 7") }, ["blue"]],
  ["beyond 32 bits", { r: sql("big = 1099511627776 AND big > 2147483647.5") }, ["blue"]],
  ["IN", { r: sql("amount IN (1, 5, 5.5)") }, ["red", "Red"]],
  ["NOT IN", { r: sql("color NOT IN ('red', 'blue')") }, ["Red", "texts"]],
  ["EXISTS finds null", { r: sql("EXISTS(color)") }, ["red", "Red", "blue", "nulls", "texts"]],
  ["NOT EXISTS", { r: sql("NOT EXISTS (color)") }, but("red", "Red", "blue", "nulls", "texts")],
  ["IS NULL is missing or null", { r: sql("color IS NULL") }, but("red", "Red", "blue", "texts")],
  ["IS NOT NULL", { r: sql("amount IS NOT NULL") }, ["red", "Red", "blue", "texts"]],
  ["LIKE", { r: sql("color LIKE '%ed'") }, ["red", "Red"]],
  ["LIKE one character", { r: sql("color LIKE '_ed' AND color LIKE 'r__'") }, ["red"]],
  ["LIKE with ESCAPE", { r: sql("path LIKE 'eu/%!_1/_' ESCAPE '!' AND color LIKE '%50^%%' ESCAPE '^'") }, ["texts"]],
  ["NOT LIKE", { r: sql("color NOT LIKE '%e%'") }, ["texts"]],
  ["quotes in a text", { r: sql(`color = 'it''s "50%" [x]'`) }, ["texts"]],
  ["quoted names", { r: sql(`[two words] = 1 AND user.[a]]b] = 2 AND "q""t" = 3 AND [and] = 4`) }, ["names"]],
  ["booleans", { r: sql("yes = TRUE AND no <> true AND yes <> no") }, ["truths"]],
  ["a boolean is a condition", { r: sql("yes AND NOT no") }, ["truths"]],
  ["dates", { r: sql("at > '2026-01-02T03:04:05Z' AND at < '2026-01-02T03:04:06Z'") }, ["truths"]],
  ["AND before OR", { r: sql("color = 'red' OR color = 'blue' AND amount > 0") }, ["red"]],
  ["parentheses", { r: sql("(color = 'red' OR color = 'blue') AND amount > -8") }, ["red", "blue"]],
  ["unknown OR true", { r: sql("missing = 1 OR color = 'red'") }, ["red"]],
  ["unknown AND true", { r: sql("missing = 1 AND color = 'red'") }, []],
  ["arithmetic", { r: sql("(n + 1) * 2 = 12 OR n % 4 = -3 OR n / 2 = 2.75") }, ["red", "Red", "blue"]],
  ["texts are joined", { r: sql("color + '!' = 'red!'") }, ["red"]],
  ["names are computed", { r: sql("property('col' + 'or') = 'red' OR p('amount') = -7") }, ["red", "blue"]],
  ["the label", { r: sql("sys.Label = 'red' OR sys.Subject LIKE 'bl%'") }, ["red", "blue"]],
  [
    "ids and addresses",
    {
      r: sql(
        "sys.MessageId = 'm-1' AND sys.CorrelationId = 'c-1' AND sys.To = 'there' AND sys.ReplyTo = 'back' AND " +
          "SYS.contenttype = 'text/plain' AND sys.SessionId = 's-1' AND sys.ReplyToSessionId = 'r-1'",
      ),
    },
    ["ids"],
  ],
  ["a partition key, an id of another type", { r: sql("sys.PartitionKey = 'k-1' AND sys.MessageId = '7'") }, ["keyed"]],
  ["scopes are apart", { r: sql("user.Label = 'red' OR sys.To = 'red' OR EXISTS(user.MessageId)") }, []],
  [
    "what the broker knows",
    {
      r: sql(
        "sys.SequenceNumber > 0 AND sys.DeliveryCount = 0 AND sys.Size > 0 AND sys.State = 0 AND " +
          "sys.EnqueuedTimeUtc > '2020-01-01T00:00:00Z' AND amount = 5",
      ),
    },
    ["red"],
  ],
  // --- several rules ---
  ["one copy for all plain rules", { a: sql("color = 'red'"), b: sql("amount = 5"), c: sql("amount < 0") }, ["red", "blue"]],
  ["correlation and SQL", { a: equal({ subject: "red" }), b: sql("amount = 5.5"), c: equal({ applicationProperties: { amount: 5 } }) }, ["red", "Red"]],
  [
    "plain rules together, each action for itself",
    {
      one: sql("color = 'red'"),
      two: sql("amount = 5"),
      three: equal({ subject: "red" }),
      four: sql("amount > 4", "SET mark = 'four'"),
      five: equal({ subject: "red" }, "SET mark = 'five'"),
    },
    ["red", by("five", "red", { mark: "five" }), by("four", "red", { mark: "four" }), by("four", "Red", { mark: "four" })],
  ],
  ["an action that does not match", { a: sql("1=0", "SET a = 1"), b: sql("color = 'red'") }, ["red"]],
  // --- actions ---
  [
    "SET makes values of each type",
    { r: sql("amount = 5", "SET int = 7; SET half = 0.5; SET truth = TRUE; SET text = 'it''s'; SET nothing = NULL") },
    [by("r", "red", { int: 7, half: 0.5, truth: true, text: "it's", nothing: null })],
  ],
  [
    "SET computes, one statement after the other",
    { r: sql("amount = 5", "SET amount = amount * 2; SET twice = amount * 2; SET color = color + '-' + sys.Label") },
    [by("r", "red", { amount: 10, twice: 20, color: "red-red" })],
  ],
  [
    "REMOVE and names in any case",
    { r: sql("color = 'blue'", "REMOVE AMOUNT; REMOVE missing; SET Big = 1; REMOVE sys.Label") },
    [by("r", "blue", { amount: undefined, big: 1 }, { subject: undefined })],
  ],
  [
    "system properties",
    {
      r: sql(
        "sys.MessageId = 'm-1'",
        "SET sys.CorrelationId = 'c-2'; SET sys.Label = 'l-2'; SET sys.To = 't-2'; SET sys.ReplyTo = 'r-2'; SET sys.MessageId = 'm-2'; " +
          "SET sys.ReplyToSessionId = 'rs-2'; SET sys.ContentType = 'c/2'; SET sys.SessionId = 's-2'; SET sys.PartitionKey = 's-2'",
      ),
    },
    [
      by("r", "ids", {}, {
        ...{ correlationId: "c-2", subject: "l-2", to: "t-2", replyTo: "r-2", messageId: "m-2" },
        ...{ replyToSessionId: "rs-2", contentType: "c/2", sessionId: "s-2", partitionKey: "s-2" },
      }),
    ],
  ],
  // --- failures ---
  ["a condition that fails", { r: sql("big / 0 = 1") }, [], [["blue", "FilterException"]]],
  ["a text in arithmetic", { r: sql("amount + 1 = 6") }, ["red"], [["texts", "FilterException"]]],
  ["an action that fails", { r: sql("color LIKE '%l%'", "SET x = 1; SET y = big / 0") }, [], [["blue", "RuleActionException"]]],
  [
    "other rules count all the same",
    { bad: sql("big * big > 0"), good: sql("amount < 0"), act: equal({ subject: "blue" }, "SET a = 1") },
    ["blue", by("act", "blue", { a: 1 })],
    [["blue", "FilterException"]],
  ],
];

const SYSTEM = [
  ...["messageId", "correlationId", "subject", "to", "replyTo", "contentType"],
  ...["sessionId", "replyToSessionId", "partitionKey"],
];

/** The expected copy at a receiver. The last message is marked by its rule; messages without an id have got one. */
function expected(copy) {
  const { rule, body, user, system } = typeof copy === "string" ? by(undefined, copy) : copy;
  const sent = MESSAGES.find((message) => message.body === body);
  const named = rule === undefined ? {} : { RuleName: rule };
  return seen({ ...sent, ...system, applicationProperties: { ...sent.applicationProperties, ...user, ...named } });
}

/** The compared properties of a message, without missing ones. */
function seen(message) {
  const there = ([, value]) => value !== undefined;
  const user = Object.entries(message.applicationProperties ?? {}).map(([key, value]) => [key, key === "at" ? +value : value]);
  const known = MESSAGES.find(({ body }) => body === message.body);
  const system = SYSTEM.filter((key) => key !== "messageId" || known.messageId !== undefined).map((key) => [key, message[key]]);
  // The session id is the default partition key of its messages.
  const shown = system.map(([key, value]) => [key, key === "partitionKey" ? (value ?? message.sessionId) : value]);
  return { body: message.body, user: Object.fromEntries(user.filter(there)), ...Object.fromEntries(shown.filter(there)) };
}

describe("rules and messages", { concurrency: 8 }, () => {
  let daemon, client;
  before(async () => {
    const subscriptions = CASES.map((_, number) => ({ name: `s${number}`, rules: [] }));
    daemon = await new Daemon({ config: entitiesText({ topics: { t: { subscriptions } } }) }).start();
    client = new ServiceBusClient(daemon.connectionString);
    for (const [number, [, rules]] of CASES.entries()) {
      const manager = client.createRuleManager("t", `s${number}`);
      for (const [name, [filter, action]] of Object.entries(rules)) {
        await (action ? manager.createRule(name, filter, action) : manager.createRule(name, filter));
      }
      await manager.createRule("the end", { sqlExpression: "end = TRUE" }, { sqlExpression: "SET last = TRUE" });
    }
    const sender = client.createSender("t");
    await sender.sendMessages(MESSAGES);
  });
  after(async () => {
    await client.close();
    await daemon.close();
  });

  for (const [number, [title, , copies, dead = []]] of CASES.entries()) {
    it(`copies: ${title}`, async () => {
      const receiver = client.createReceiver("t", `s${number}`, { receiveMode: "receiveAndDelete" });
      const received = [];
      while (received.at(-1)?.applicationProperties?.last !== true) received.push(...(await take(receiver, 1)));
      await receiver.close();
      assert.deepEqual(received.slice(0, -1).map(seen), copies.map(expected));
      const { RuleName, ...others } = received.at(-1).applicationProperties;
      assert.deepEqual([RuleName, others], ["the end", { end: true, last: true }]);
      assert.deepEqual(await peek(client, ["t", `s${number}`]), []);
      const letters = await peek(client, ["t", `s${number}`], DEAD_LETTER);
      assert.deepEqual(letters.map(({ body, deadLetterReason }) => [body, deadLetterReason]), dead);
      for (const letter of letters) assert.match(letter.deadLetterErrorDescription, /\w+ \w+/);
    });
  }
});
