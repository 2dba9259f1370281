// The console in a browser: keys that may only listen, jobs over messages, rules with parameters, long texts.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Browser, SKIPPED, assertAccessible, daemonAndBrowser, entityRoute, row, shows, signIn, token, visit } from "./console.mjs";
import { DEAD_LETTER, Daemon, bodies, drain, entitiesText, peek, range, send, take, until, withClient } from "./harness.mjs";

const KEY = "bGlzdGVuLW9ubHkta2V5LW9mLXRoZS10ZXN0cw==";
const listener = { authorization_rules: [{ name: "listener", rights: ["Listen"], primary_key: KEY }] };
const QUEUES = ["circle", "states", "wide", "values"];
const config = entitiesText({
  queues: { ...Object.fromEntries(QUEUES.map((name) => [name, {}])), seen: listener },
  topics: {
    news: { subscriptions: [{ name: "all" }] },
    "many/n\"<b>": { subscriptions: range(205).map((n) => ({ name: `s&${String(n).padStart(3, "0")}` })) },
  },
});

describe("console: operators", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config });

  it("a key of a queue with Listen shows its messages", () =>
    browser.page(
      async (page) => {
        await withClient(daemon, (client) => send(client, "seen", { body: "visible", messageId: "seen-1" }));
        await signIn(page, `Endpoint=sb://localhost;SharedAccessKeyName=listener;SharedAccessKey=${KEY};EntityPath=seen`);
        await page.getByRole("heading", { name: "seen", level: 1 }).waitFor();
        await row(page, "seen-1").getByRole("button").click();
        await shows(page.getByRole("dialog"), "visible");
        await page.keyboard.press("Escape");
        assert.equal(await page.getByRole("alert").count(), 0);
        assert.deepEqual(await page.getByRole("navigation", { name: "Screens" }).getByRole("link").allInnerTexts(), ["Entities"]);
        await assertAccessible(page, "messages for Listen");
      },
      { signedIn: false },
    ));

  it("a key of the namespace with Listen opens an entity by its name", async () => {
    const rules = ["[[authorization.rules]]", 'name = "listener"', 'rights = ["Listen"]', `primary_key = "${KEY}"`].join("\n");
    const other = await new Daemon({ config: `${entitiesText({ queues: { seen: {} } })}\n${rules}\n` }).start();
    const visitor = await new Browser().start(other);
    try {
      await visitor.page(
        async (page) => {
          await signIn(page, `Endpoint=sb://localhost;SharedAccessKeyName=listener;SharedAccessKey=${KEY}`);
          await page.getByRole("heading", { name: "Entities", level: 1 }).waitFor();
          await assertAccessible(page, "entities for Listen");
          await page.getByLabel("Queue, topic or subscription").fill("seen");
          await page.getByRole("button", { name: "Open" }).click();
          await page.getByRole("heading", { name: "seen", level: 1 }).waitFor();
          await shows(page, "There are no messages here.");
          assert.equal(await page.getByRole("alert").count(), 0);
        },
        { signedIn: false },
      );
    } finally {
      await visitor.close();
      await other.close();
    }
  });

  it("the subscriptions of a topic are shown in pages and found by name", () =>
    browser.page(async (page) => {
      await visit(page, entityRoute('many/n"<b>', "subscriptions"), 'many/n"<b>');
      const table = page.getByRole("region", { name: "Subscriptions" });
      const names = (count) => range(count).map((n) => `s&${String(n).padStart(3, "0")}`);
      const headings = async () => (await table.getByRole("rowheader").allInnerTexts()).join(" ");
      const shown = (expected) => until(async () => (await headings()) === expected.join(" "), expected.at(-1));
      await shown(names(205).slice(0, 100));
      const more = page.getByRole("button", { name: "Show more" });
      await more.click();
      await shown(names(205).slice(0, 200));
      await more.click();
      await shown(names(205));
      assert.equal(await more.count(), 0);
      await page.getByLabel("Search by name").fill("S&20");
      await shown(["s&200", "s&201", "s&202", "s&203", "s&204"]);
      await page.getByLabel("Search by name").fill("none");
      await shows(page, "No subscription matches.");
      await assertAccessible(page, "subscriptions of a topic");
    }));

  /** Sends the given number of messages and dead-letters all of them. */
  async function deadLetter(client, queue, count, reason, description) {
    await send(client, queue, range(count).map((n) => ({ body: n, messageId: `${queue}-${n}` })));
    await deadLetterWaiting(client, queue, count, reason, description);
  }

  async function deadLetterWaiting(client, queue, count, reason, description) {
    const receiver = client.createReceiver(queue);
    const options = { deadLetterReason: reason, deadLetterErrorDescription: description };
    await Promise.all((await take(receiver, count)).map((message) => receiver.deadLetterMessage(message, options)));
    await receiver.close();
  }

  for (const [name, route, filter] of [
    ["all dead letters", "#/dead-letters", ""],
    ["a filtered queue", entityRoute("circle", "messages", "queue=dead"), "sys.Label IS NULL"],
  ]) {
    it(`messages that are dead-lettered again are not resubmitted in circles: ${name}`, () =>
      withClient(daemon, async (client) => {
        await deadLetter(client, "circle", 501, "again", "and again");
        await browser.page(async (page) => {
          let requests = 0;
          await page.route("**/messages/act*", async (request) => {
            // Those of the first request fail once more before the second one is sent.
            if (++requests === 2) await deadLetterWaiting(client, "circle", 500, "again", "and again");
            await request.continue();
          });
          await visit(page, route, filter ? "circle" : "Dead letters");
          await page.getByRole("button", { name: "Resubmit all…" }).click();
          if (filter) await page.getByRole("dialog").getByLabel("SQL filter").fill(filter);
          await page.getByRole("dialog").getByRole("button", { name: "Resubmit", exact: true }).click();
          await shows(page.getByRole("dialog"), /^501 resubmitted.*Finished/);
        });
        assert.equal((await peek(client, "circle", { ...DEAD_LETTER })).length, 500);
        assert.deepEqual(bodies(await drain(client, "circle", 1)), [500]);
        await drain(client, "circle", 500, DEAD_LETTER);
      }));
  }

  it("a purge begins with the state that is listed, in a topic with scheduled messages", () =>
    browser.page(async (page) => {
      const purge = async (entity, query) => {
        await visit(page, entityRoute(entity, "messages", query), entity);
        await page.getByRole("button", { name: "Purge…" }).click();
        await page.getByRole("button", { name: "Purge", exact: true }).click();
        await shows(page.getByRole("dialog"), "1 deleted");
        await page.getByRole("button", { name: "Done" }).click();
      };
      await withClient(daemon, async (client) => {
        await send(client, "states", { body: "stays" });
        for (const entity of ["states", "news"]) await client.createSender(entity).scheduleMessages({ body: "later" }, new Date(Date.now() + 3_600_000));
        await purge("states", "state=scheduled");
        await purge("news", "");
        assert.deepEqual(bodies(await peek(client, "states")), ["stays"]);
      });
    }));

  it("a rule whose action has parameters keeps them when it is edited", () =>
    browser.page(async (page) => {
      const rule = { filter: { kind: "true" }, action: { expression: "SET sys.Label = @label", parameters: { "@label": { type: "string", value: "kept" } } } };
      const address = `${browser.origin}/$api/v1/rule?path=${encodeURIComponent("news/Subscriptions/all")}&name=parameters`;
      const headers = { Authorization: token(browser.origin), "Content-Type": "application/json" };
      const put = await fetch(address, { method: "PUT", headers, body: JSON.stringify(rule) });
      assert.equal(put.status, 201, await put.text());
      await visit(page, entityRoute("news/Subscriptions/all", "rules"), "all");
      await page.getByRole("button", { name: "Edit the rule parameters" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Action (optional)").fill("SET sys.Label = @label; SET edited = true");
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "detached" });
      await withClient(daemon, async (client) => {
        await send(client, "news", { body: "labelled" });
        const labels = (await drain(client, ["news", "all"], 2)).map(({ subject }) => subject ?? "");
        assert.deepEqual(labels.sort(), ["", "kept"]);
      });
    }));

  it("long reasons leave room for the rest of the row", () =>
    browser.page(async (page) => {
      await withClient(daemon, (client) => deadLetter(client, "wide", 1, "R".repeat(2_000), "D".repeat(4_000)));
      await visit(page, entityRoute("wide", "messages", "queue=dead"), "wide");
      await row(page, "wide-0").waitFor();
      const table = await page.getByRole("region", { name: "Messages" }).boundingBox();
      const id = await row(page, "wide-0").getByText("wide-0").boundingBox();
      assert(id.x + id.width <= table.x + table.width, "the message id is outside the table");
      await visit(page, "#/dead-letters", "Dead letters");
      await page.getByRole("link", { name: "wide" }).waitFor();
      assert((await page.getByRole("heading", { level: 2 }).first().boundingBox()).height < 120, "the heading is too high");
      assert((await row(page, "DDD").boundingBox()).height < 200, "the row is too high");
    }));

  it("a value that is edited and sent again is said to become bytes", () =>
    browser.page(async (page) => {
      const body = { bodyType: "value", body: { k: 1 } };
      await withClient(daemon, (client) => send(client, "values", { ...body, properties: { messageId: "value-1" } }));
      await visit(page, entityRoute("values"), "values");
      await row(page, "value-1").getByRole("button").click();
      await page.getByRole("button", { name: "Edit and send again…" }).click();
      await shows(page.getByRole("dialog").last(), "The body is an AMQP value. It would be sent as bytes");
    }));
});
