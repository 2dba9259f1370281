// The console in a browser: holders of locks and sessions, rules and their tester, log, clock; accessibility of all screens.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SKIPPED, assertAccessible, daemonAndBrowser, entityRoute, row, screenshot, shows, visit } from "./console.mjs";
import { administrationClient, bodies, drain, entitiesText, one, send, until, withClient } from "./harness.mjs";

const config = entitiesText({
  queues: { held: {}, sessions: { requires_session: true }, scheduled: {} },
  topics: { news: { subscriptions: [{ name: "all" }, { name: "red" }] } },
});

describe("console: live", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config, timeTravel: true });

  it("receivers, their credit and locks are shown with the time until which they hold", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "held", { body: "x" });
        const receiver = client.createReceiver("held");
        const message = await one(receiver);
        await visit(page, entityRoute("held", "holders"), "held");
        const locks = page.getByRole("region", { name: "Locks" });
        await shows(locks, message.lockToken);
        await shows(locks, /\(in \d+ s\)/);
        await page.getByRole("region", { name: "Receivers" }).waitFor();
        await screenshot(page, "locks");
        await receiver.completeMessage(message);
        await shows(page, "No message is locked.");
      });
    }));

  it("sessions are shown with their holder and state", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "sessions", { body: "x", sessionId: "customer-17" }, { body: "y", messageId: "of-another", sessionId: "it's" });
        const receiver = await client.acceptSession("sessions", "customer-17");
        await receiver.setSessionState(Buffer.from("half done"));
        await visit(page, entityRoute("sessions", "sessions"), "sessions");
        await shows(row(page, "customer-17"), "locked");
        await row(page, "customer-17").getByRole("button", { name: "9 B: state of session customer-17" }).click();
        await shows(page.getByRole("dialog"), "half done");
        await page.getByRole("dialog").getByRole("button", { name: "Hex" }).click();
        await shows(page.getByRole("dialog"), /00000000 {2}68 61 6c 66/);
        await assertAccessible(page, "a session's state");
        await page.keyboard.press("Escape");
        await page.getByRole("link", { name: "it's" }).click();
        await row(page, "of-another").waitFor();
        assert.equal(await page.getByRole("button", { name: /^Open message/ }).count(), 1);
      });
    }));

  it("a rule is tested before it is saved, then tested with all others, and deleted", () =>
    browser.page(async (page) => {
      await visit(page, entityRoute("news/Subscriptions/red", "rules"), "red");
      await page.getByRole("button", { name: "Add a rule…" }).click();
      const dialog = page.getByRole("dialog", { name: "Add a rule" });
      await dialog.getByLabel("Name", { exact: true }).fill("red");
      await dialog.getByLabel("Condition").fill("colour = 'red' AND");
      await dialog.getByRole("button", { name: "Save" }).click();
      await shows(dialog.getByRole("alert"), "Not saved.");
      await dialog.getByLabel("Condition").fill("colour = 'red'");
      await dialog.getByLabel("Action (optional)").fill("SET priority = 'high'; REMOVE colour; SET sys.Label = 'urgent'");
      await dialog.getByRole("button", { name: "Test with a message" }).click();
      await dialog.getByRole("button", { name: "Add a property" }).click();
      await dialog.getByLabel("Name of the property").fill("colour");
      await dialog.getByLabel("Value of colour").fill("red");
      await dialog.getByRole("button", { name: "Test", exact: true }).click();
      await shows(dialog, "1 of 1 rules match.");
      for (const change of ['priority = "high"', "colour = removed", 'subject = "urgent"']) await shows(dialog, change);
      await screenshot(page, "rule");
      await dialog.getByRole("button", { name: "Save" }).click();
      await row(page, "priority").waitFor();
      await page.getByRole("button", { name: "Delete the rule $Default" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
      await row(page, "$Default").waitFor({ state: "detached" });

      await visit(page, entityRoute("news", "test"), "news");
      await page.getByRole("button", { name: "Test", exact: true }).click();
      await shows(page, "1 of 2 rules match.");
      await shows(row(page, "$Default"), "matches");
      await shows(row(page, "red"), "no match");
      await withClient(daemon, async (client) => {
        await send(client, "news", { body: "a", applicationProperties: { colour: "red" } }, { body: "b", applicationProperties: { colour: "blue" } });
        const [message] = await drain(client, ["news", "red"], 1);
        assert.deepEqual([message.subject, message.applicationProperties.priority], ["urgent", "high"]);
        assert.equal((await drain(client, ["news", "all"], 2)).length, 2);
      });
    }));

  it("the log and the audit log are followed live", () =>
    browser.page(async (page) => {
      await visit(page, "#/log", "Log");
      await page.getByRole("row").nth(1).waitFor();
      await visit(page, "#/entities", "Entities");
      await page.getByRole("button", { name: "Create…" }).click();
      await page.getByLabel("Name", { exact: true }).fill("made-for-the-audit");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("heading", { name: "made-for-the-audit", level: 1 }).waitFor();
      await visit(page, "#/log", "Log");
      await page.getByRole("link", { name: "Audit" }).click();
      await page.getByRole("heading", { name: "Audit", level: 1 }).waitFor();
      await row(page, "made-for-the-audit").first().waitFor();
      // Events while the page is open appear without a reload.
      const lines = await row(page, "made-for-the-audit").count();
      await administrationClient(daemon).deleteQueue("made-for-the-audit");
      await until(async () => (await row(page, "made-for-the-audit").count()) > lines, "another line");
      await screenshot(page, "audit");
    }));

  it("the clock is advanced, and scheduled messages come due", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await client.createSender("scheduled").scheduleMessages({ body: "later" }, new Date((await daemon.now()).getTime() + 3_000_000));
        await visit(page, "#/clock", "Clock");
        const before = await daemon.now();
        await page.getByRole("button", { name: "+ 1 hour" }).click();
        await shows(page, "Advanced the clock by 1 h");
        assert((await daemon.now()) - before >= 3_600_000);
        assert.deepEqual(bodies(await drain(client, "scheduled", 1)), ["later"]);
      });
    }));

  const SCREENS = [
    ["#/", "Overview"],
    ["#/entities", "Entities"],
    [entityRoute("held"), "held"],
    [entityRoute("held", "options"), "held"],
    [entityRoute("held", "holders"), "held"],
    [entityRoute("sessions", "sessions"), "sessions"],
    [entityRoute("news", "subscriptions"), "news"],
    [entityRoute("news", "test"), "news"],
    [entityRoute("news/Subscriptions/all", "rules"), "all"],
    ["#/dead-letters", "Dead letters"],
    ["#/connections", "Connections"],
    ["#/log", "Log"],
    ["#/clock", "Clock"],
  ];

  for (const [scheme, width, rules] of [
    ["light", 1280, undefined],
    ["dark", 1280, ["color-contrast"]],
    ["light", 390, ["target-size", "scrollable-region-focusable", "color-contrast"]],
  ]) {
    it(`all screens are accessible: ${scheme}, ${width} pixels wide`, () =>
      browser.page(
        async (page) => {
          await withClient(daemon, (client) => send(client, "held", { body: "one to look at", subject: "s" }));
          for (const [route, heading] of SCREENS) {
            await visit(page, route, heading);
            await until(async () => (await page.getByText(/^Loading /).count()) === 0, "the contents");
            await assertAccessible(page, `${route} ${scheme} ${width}`, rules);
            if (width === 390 && heading === "Entities") await screenshot(page, "narrow");
            if (scheme === "dark" && heading === "Entities") await screenshot(page, "dark");
          }
          await visit(page, entityRoute("held"), "held");
          await page.getByRole("button", { name: /^Open message/ }).first().click();
          await assertAccessible(page, `a message ${scheme} ${width}`, rules);
          await page.getByRole("button", { name: "Edit and send again…" }).click();
          await assertAccessible(page, `composing ${scheme} ${width}`, rules);
        },
        { scheme, width },
      ));
  }
});
