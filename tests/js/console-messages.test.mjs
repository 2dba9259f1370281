// The console in a browser: messages in every state, dead letters over all entities, purging.

import assert from "node:assert/strict";
import fs from "node:fs";
import { describe, it } from "node:test";
import { SKIPPED, daemonAndBrowser, entityRoute, row, screenshot, shows, visit } from "./console.mjs";
import { DEAD_LETTER, bodies, drain, entitiesText, one, peek, range, send, take, withClient } from "./harness.mjs";

const QUEUES = ["compose", "browse", "states", "moving", "parking", "grouped", "grouped-too", "failing", "failing-too", "purged", "large"];
const config = entitiesText({ queues: Object.fromEntries(QUEUES.map((name) => [name, {}])) });

describe("console: messages", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config });

  /** Sends the given number of messages and dead-letters all of them with one reason. */
  async function deadLetter(queue, count, reason, description) {
    await withClient(daemon, async (client) => {
      await send(client, queue, range(count).map((n) => ({ body: `${reason} ${n}`, messageId: `${queue}-${reason}-${n}`, applicationProperties: { n } })));
      const receiver = client.createReceiver(queue);
      for (const message of await take(receiver, count)) {
        await receiver.deadLetterMessage(message, { deadLetterReason: reason, deadLetterErrorDescription: description });
      }
      await receiver.close();
    });
  }

  it("a message is composed with typed properties and sent", () =>
    browser.page(async (page) => {
      await visit(page, entityRoute("compose"), "compose");
      await shows(page, "There are no messages here.");
      await page.getByRole("button", { name: "Send…" }).click();
      await page.getByRole("textbox", { name: "Body" }).fill('{"amount": 12}');
      await page.getByRole("combobox", { name: "Body format" }).selectOption("json");
      await page.getByLabel("Subject").fill("order");
      await page.getByRole("button", { name: "Add a property" }).click();
      await page.getByLabel("Name of the property").fill("big");
      await page.getByLabel("Type of big").selectOption("long");
      await page.getByLabel("Value of big").fill("9007199254740993");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await row(page, "order").waitFor();
      await page.getByRole("button", { name: /^Open message/ }).click();
      await shows(page.getByRole("dialog"), "9007199254740993");
      await withClient(daemon, async (client) => {
        const message = await one(client.createReceiver("compose", { receiveMode: "receiveAndDelete" }));
        assert.equal(message.subject, "order");
        assert.equal(message.contentType, "application/json");
        assert.equal(typeof message.applicationProperties.big, "number");
      });
    }));

  it("a message is shown as text, JSON, hex and AMQP, filtered by SQL, edited and sent again, downloaded", () =>
    browser.page(async (page) => {
      await withClient(daemon, (client) =>
        send(client, "browse", { body: { id: 1, items: ["a", "b"], total: 12.5 }, subject: "first", applicationProperties: { colour: "red", priority: 5 } }, { body: "plain", subject: "second" }),
      );
      await visit(page, entityRoute("browse"), "browse");
      await row(page, "second").waitFor();
      await page.getByLabel("SQL filter").fill("colour = ");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").waitFor();
      await page.getByLabel("SQL filter").fill("colour = 'red'");
      await page.keyboard.press("Enter");
      await row(page, "first").waitFor();
      assert.equal(await row(page, "second").count(), 0);
      await page.getByRole("button", { name: /^Open message/ }).click();
      const dialog = page.getByRole("dialog", { name: /^Message / });
      await shows(dialog, '"id": 1');
      await screenshot(page, "message");
      await dialog.getByRole("button", { name: "Hex" }).click();
      await shows(dialog, "7b 22 69 64");
      await dialog.getByRole("button", { name: "AMQP" }).click();
      await shows(dialog, "application-properties");
      await shows(dialog, 'colour: "red"');
      const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Download" }).click()]);
      assert(fs.readFileSync(await download.path()).includes("red"));
      await dialog.getByRole("button", { name: "Edit and send again…" }).click();
      await page.getByLabel("Value of colour").fill("green");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await withClient(daemon, async (client) => {
        const colours = (await peek(client, "browse")).map((message) => message.applicationProperties?.colour);
        assert.deepEqual(colours, ["red", undefined, "green"]);
      });
    }));

  it("deferred and scheduled messages are found; a deferred one becomes active again", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "states", { body: "to defer", messageId: "deferred-one" });
        const receiver = client.createReceiver("states");
        await receiver.deferMessage(await one(receiver));
        await receiver.close();
        await client.createSender("states").scheduleMessages({ body: "later", messageId: "scheduled-one" }, new Date(Date.now() + 3_600_000));
      });
      await visit(page, entityRoute("states"), "states");
      await row(page, "scheduled-one").waitFor();
      await page.getByLabel("State", { exact: true }).selectOption("deferred");
      await row(page, "scheduled-one").waitFor({ state: "detached" });
      await page.getByLabel("Select all shown").check();
      await page.getByRole("button", { name: "Undefer…" }).click();
      await page.getByRole("button", { name: "Undefer", exact: true }).click();
      await shows(page.getByRole("dialog"), "1 undeferred");
      await page.getByRole("button", { name: "Done" }).click();
      await withClient(daemon, async (client) => assert.deepEqual(bodies(await drain(client, "states", 1)), ["to defer"]));
    }));

  it("selected messages are moved, dead-lettered and deleted", () =>
    browser.page(async (page) => {
      await withClient(daemon, (client) => send(client, "moving", ...["move", "bury", "delete", "stay"].map((body) => ({ body, messageId: body }))));
      const act = async (id, button, done, fill = async () => {}) => {
        await page.getByRole("row").filter({ hasText: id }).getByRole("checkbox").check();
        await page.getByRole("group", { name: "Selected messages" }).getByRole("button", { name: `${button}…` }).click();
        await fill();
        await page.getByRole("dialog").getByRole("button", { name: button, exact: true }).click();
        await shows(page.getByRole("dialog"), `1 ${done}`);
        await page.getByRole("button", { name: "Done" }).click();
        await row(page, id).waitFor({ state: "detached" });
      };
      await visit(page, entityRoute("moving"), "moving");
      await act("move", "Move", "moved", () => page.getByLabel("To queue or topic").fill("parking"));
      await act("bury", "Dead-letter", "dead-lettered");
      await act("delete", "Delete", "deleted");
      await withClient(daemon, async (client) => {
        assert.deepEqual(bodies(await peek(client, "moving")), ["stay"]);
        assert.deepEqual(bodies(await peek(client, "moving", DEAD_LETTER)), ["bury"]);
        const [moved] = await drain(client, "parking", 1);
        assert.deepEqual([moved.body, moved.messageId], ["move", "move"]);
      });
    }));

  it("dead letters are grouped by reason over all entities, and lead to their messages", () =>
    browser.page(async (page) => {
      await deadLetter("grouped", 3, "SchemaMismatch", "no field 'amount'");
      await deadLetter("grouped", 2, "NoAnswer", "payment service timed out");
      await deadLetter("grouped-too", 4, "SchemaMismatch", "no field 'amount'");
      await visit(page, "#/dead-letters", "Dead letters");
      await page.getByRole("heading", { name: "SchemaMismatch 7" }).waitFor();
      await page.getByRole("heading", { name: "NoAnswer 2" }).waitFor();
      await screenshot(page, "dead-letters");
      await row(page, "timed out").getByRole("link", { name: "grouped" }).click();
      await row(page, "grouped-NoAnswer-0").waitFor();
      assert.equal(await row(page, "grouped-SchemaMismatch-0").count(), 0);
    }));

  it("dead letters are resubmitted exactly once: one message, one group, all", () =>
    browser.page(async (page) => {
      await deadLetter("failing", 3, "schema", "no field");
      await deadLetter("failing", 2, "timeout", "no answer");
      await deadLetter("failing-too", 4, "schema", "no field");
      const resubmit = async (button, done) => {
        await button.click();
        await page.getByRole("dialog").last().getByRole("button", { name: "Resubmit", exact: true }).click();
        await shows(page.getByRole("dialog"), `${done} resubmitted`);
        await page.getByRole("button", { name: "Done" }).click();
      };
      await visit(page, entityRoute("failing", "messages", "queue=dead"), "failing");
      await row(page, "failing-timeout-0").getByRole("button").click();
      await resubmit(page.getByRole("dialog").getByRole("button", { name: "Resubmit…" }), 1);
      await withClient(daemon, async (client) => {
        const [message] = await drain(client, "failing", 1);
        assert.deepEqual([message.body, message.messageId, message.applicationProperties.n], ["timeout 0", "failing-timeout-0", 0]);
      });

      await visit(page, "#/dead-letters", "Dead letters");
      await page.getByRole("heading", { name: "schema 7" }).waitFor();
      await page.getByLabel("Select failing-too, no field").check();
      await resubmit(page.getByRole("button", { name: "Resubmit 1 selected…" }), 4);
      await withClient(daemon, async (client) => assert.equal((await drain(client, "failing-too", 4)).length, 4));

      await page.getByRole("heading", { name: "schema 3" }).waitFor();
      await page.getByRole("button", { name: "Resubmit all…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Resubmit", exact: true }).click();
      await page.getByRole("button", { name: "Done" }).click();
      await withClient(daemon, async (client) => {
        const all = bodies(await drain(client, "failing", 4)).sort();
        assert.deepEqual(all, ["schema 0", "schema 1", "schema 2", "timeout 1"]);
        assert.deepEqual(await peek(client, "failing", DEAD_LETTER), []);
      });
    }));

  it("long work is stopped, and processed messages stay processed", () =>
    browser.page(async (page) => {
      await withClient(daemon, (client) => client.createSender("large").sendMessages(range(1_200).map((n) => ({ body: n }))));
      // The second request waits until the operation is stopped.
      let release;
      const held = new Promise((resolve) => (release = resolve));
      let requests = 0;
      await page.route("**/messages/act*", async (route) => {
        if (++requests === 2) await held;
        await route.continue();
      });
      await visit(page, entityRoute("large"), "large");
      await page.getByRole("button", { name: "Purge…" }).click();
      await page.getByRole("button", { name: "Purge", exact: true }).click();
      const dialog = page.getByRole("dialog", { name: "Purge" });
      await shows(dialog, /^[1-9]\d* deleted/);
      await dialog.getByRole("button", { name: "Stop" }).click();
      release();
      await shows(dialog, "Stopped; messages already processed are not restored.");
      assert.equal(requests, 2);
      await withClient(daemon, async (client) => {
        const left = (await peek(client, "large")).length;
        assert(left > 0 && left < 1_200, `${left} are left`);
      });
    }));

  it("a queue is purged of messages that match", () =>
    browser.page(async (page) => {
      const messages = range(20).map((n) => ({ body: n, subject: n % 2 ? "odd" : "even" }));
      await withClient(daemon, (client) => client.createSender("purged").sendMessages(messages));
      await visit(page, entityRoute("purged"), "purged");
      await page.getByRole("button", { name: "Purge…" }).click();
      await page.getByRole("dialog").getByLabel("SQL filter").fill("sys.Label = 'odd'");
      await page.getByRole("button", { name: "Purge", exact: true }).click();
      await shows(page.getByRole("dialog"), "10 deleted");
      await page.getByRole("button", { name: "Done" }).click();
      await withClient(daemon, async (client) => assert((await peek(client, "purged")).every(({ subject }) => subject === "even")));
      await screenshot(page, "messages");
    }));
});
