// The console in a browser: sign-in, overview, entities, options, keyboard.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SKIPPED, daemonAndBrowser, entityRoute, row, screenshot, shows, signIn, visit } from "./console.mjs";
import { entitiesText, range, send, until, withClient } from "./harness.mjs";

const config = entitiesText({
  queues: { orders: {}, "orders/eu": {}, options: {}, busy: {} },
  topics: { news: { subscriptions: [{ name: "all" }, { name: "red" }] } },
});

describe("console", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config });

  it("a connection string signs in, for the life of the page only", () =>
    browser.page(
      async (page) => {
        await page.getByRole("heading", { name: "Peeklock console" }).waitFor();
        await screenshot(page, "sign-in");
        await signIn(page, "Endpoint=sb://localhost");
        await shows(page, "The connection string has no SharedAccessKeyName.");
        await signIn(page, daemon.connectionString);
        await page.getByRole("heading", { name: "Overview" }).waitFor();
        await page.reload();
        await page.getByRole("heading", { name: "Peeklock console" }).waitFor();
      },
      { signedIn: false },
    ));

  it("a kept key survives a reload and not signing out; a wrong key is refused with advice", () =>
    browser.page(
      async (page) => {
        await page.getByRole("button", { name: "Key", exact: true }).click();
        await page.getByLabel("Key", { exact: true }).fill("wrong");
        await page.getByRole("button", { name: "Sign in", exact: true }).click();
        await shows(page, "Sign in again with a valid key.");
        await page.getByLabel("Key", { exact: true }).fill("SAS_KEY_VALUE");
        await page.getByLabel(/Keep the key/).check();
        await page.getByRole("button", { name: "Sign in", exact: true }).click();
        await page.getByRole("heading", { name: "Overview" }).waitFor();
        await page.reload();
        await page.getByRole("heading", { name: "Overview" }).waitFor();
        await page.getByRole("button", { name: "Sign out" }).click();
        await page.reload();
        await page.getByRole("heading", { name: "Peeklock console" }).waitFor();
      },
      { signedIn: false },
    ));

  it("a machine whose clock is hours late signs in as well", () =>
    browser.page(
      async (page) => {
        await page.clock.install({ time: Date.now() - 5 * 3_600_000 });
        await page.getByRole("button", { name: "Use the development key" }).click();
        await page.getByRole("heading", { name: "Overview" }).waitFor();
        await shows(page.getByRole("region", { name: "Namespace" }), "Subscriptions");
      },
      { signedIn: false },
    ));

  it("tokens are renewed before they end", () =>
    browser.page(
      async (page) => {
        const ends = [];
        page.on("request", (request) => {
          const authorization = request.headers().authorization;
          if (authorization) ends.push(Number(/&se=(\d+)&/.exec(authorization)[1]));
        });
        // The page's clock runs ahead, and the broker's appears to.
        await page.clock.install();
        await page.route("**/$api/**", async (route) => {
          const response = await route.fetch();
          const date = await page.evaluate(() => new Date().toUTCString());
          await route.fulfill({ response, headers: { ...response.headers(), date } });
        });
        await page.getByRole("button", { name: "Use the development key" }).click();
        await page.getByRole("heading", { name: "Overview" }).waitFor();
        const first = ends.at(-1);
        await page.clock.fastForward("40:00");
        await page.clock.fastForward("12:00");
        await until(() => ends.at(-1) > first + 3000, "another token");
      },
      { signedIn: false },
    ));

  it("the overview counts messages and entities, and leads to dead letters", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "busy", range(7).map((n) => ({ body: n })));
        const receiver = client.createReceiver("busy");
        const [message] = await receiver.receiveMessages(1);
        await receiver.deadLetterMessage(message, { deadLetterReason: "broken" });
        await receiver.close();
      });
      const states = page.getByRole("region", { name: "Messages" });
      await shows(states, "Dead-lettered");
      await until(async () => /Active6/.test(await states.innerText().then((text) => text.replace(/\s+/g, ""))), "six messages");
      await shows(states, "Oldest available");
      await shows(page.getByRole("region", { name: "Storage" }), "Allocated");
      await shows(page.getByRole("region", { name: "Namespace" }), "Subscriptions");
      await screenshot(page, "overview");
      await page.getByRole("link", { name: "Find out why 1 message is dead-lettered" }).click();
      await page.getByRole("heading", { name: "Dead letters", level: 1 }).waitFor();
    }));

  it("a route that changes as soon as the frame appears is shown", () =>
    browser.page(
      async (page) => {
        await page.evaluate(() => {
          // Called before the next task, so earlier than the first paint.
          const changes = new MutationObserver(() => {
            if (!document.querySelector("nav[aria-label=Screens]")) return;
            changes.disconnect();
            location.hash = "#/entities";
          });
          changes.observe(document, { childList: true, subtree: true });
        });
        await page.getByRole("button", { name: "Use the development key" }).click();
        await page.getByRole("heading", { name: "Entities", level: 1 }).waitFor();
      },
      { signedIn: false },
    ));

  it("the tree of entities is searched, opened and left by keyboard", () =>
    browser.page(async (page) => {
      await visit(page, "#/entities", "Entities");
      await row(page, "red").waitFor();
      await page.getByRole("button", { name: "Subscriptions of news" }).click();
      await row(page, "red").waitFor({ state: "detached" });
      await page.keyboard.press("/");
      await page.keyboard.type("eu");
      // A slow machine searches for the first letter alone before.
      for (const other of ["busy", "news"]) await row(page, other).waitFor({ state: "detached" });
      await page.keyboard.press("Escape");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "orders/eu", level: 1 }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("heading", { name: "Entities", level: 1 }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Help" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.keyboard.press("g");
      await page.keyboard.press("d");
      await page.getByRole("heading", { name: "Dead letters", level: 1 }).waitFor();
    }));

  it("shortcuts can be switched off", () =>
    browser.page(async (page) => {
      await page.getByRole("button", { name: "Help and shortcuts" }).click();
      await page.getByLabel("Single-key shortcuts").uncheck();
      await page.keyboard.press("Escape");
      await page.keyboard.press("g");
      await page.keyboard.press("e");
      await page.keyboard.press("?");
      assert.equal(await page.getByRole("dialog").count(), 0);
      assert.equal(await page.getByRole("heading", { level: 1 }).innerText(), "Overview");
    }));

  it("queues and subscriptions are created and deleted", () =>
    browser.page(async (page) => {
      await visit(page, "#/entities", "Entities");
      await page.getByRole("button", { name: "Create…" }).click();
      await page.getByLabel("Name", { exact: true }).fill("made/here");
      await page.getByLabel("Requires sessions").check();
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("heading", { name: "made/here", level: 1 }).waitFor();
      await page.getByRole("link", { name: "Sessions" }).waitFor();
      await visit(page, entityRoute("news", "subscriptions"), "news");
      await page.getByRole("button", { name: "Create a subscription…" }).click();
      await page.getByLabel("Name", { exact: true }).fill("blue");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("heading", { name: "blue", level: 1 }).waitFor();
      await page.getByRole("button", { name: "Delete…" }).click();
      const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true });
      assert(await confirm.isDisabled());
      await page.getByLabel("Type blue to confirm").fill("blue");
      await confirm.click();
      await page.getByRole("heading", { name: "Entities", level: 1 }).waitFor();
      await row(page, "made/here").waitFor();
      await row(page, "blue").waitFor({ state: "detached" });
    }));

  it("an option is edited in place, and a bad value explained", () =>
    browser.page(async (page) => {
      await visit(page, entityRoute("options", "options"), "options");
      await page.getByRole("button", { name: /^LockDuration: PT1M/ }).click();
      await page.getByRole("textbox", { name: "LockDuration" }).fill("an hour");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("alert").waitFor();
      await page.getByRole("textbox", { name: "LockDuration" }).fill("PT2M");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: /^LockDuration: PT2M/ }).waitFor();
      await withClient(daemon, async (client) => {
        await send(client, "options", { body: "x" });
        const [message] = await client.createReceiver("options").receiveMessages(1);
        assert(message.lockedUntilUtc - Date.now() > 90_000);
      });
      await page.getByRole("button", { name: /^Status: Active/ }).click();
      await page.getByRole("combobox", { name: "Status" }).selectOption("SendDisabled");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("button", { name: /^Status: SendDisabled/ }).waitFor();
      await screenshot(page, "options");
    }));

  it("an entity that is gone and a broker that is away are explained", () =>
    browser.page(async (page) => {
      await visit(page, entityRoute("nowhere"), "nowhere");
      await shows(page, "It may have been deleted.");
      await page.route("**/$api/**", (request) => request.abort());
      await visit(page, "#/entities", "Entities");
      await shows(page, "Check that the broker is running");
      await page.unroute("**/$api/**");
      await page.getByRole("button", { name: "Try again" }).click();
      await row(page, "orders").first().waitFor();
    }));

  it("colours follow the system until they are chosen", () =>
    browser.page(
      async (page) => {
        const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const dark = await ground();
        await page.getByLabel("Colour scheme").selectOption("light");
        assert.notEqual(await ground(), dark);
        await page.reload();
        assert.notEqual(await ground(), dark);
      },
      { scheme: "dark" },
    ));
});
