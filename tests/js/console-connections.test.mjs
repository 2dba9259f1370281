// The console in a browser: connections, their links, closing a connection.

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import rhea from "rhea";
import { SKIPPED, assertAccessible, daemonAndBrowser, entityRoute, row, screenshot, shows, visit } from "./console.mjs";
import { entitiesText, one, send, take, until, withClient } from "./harness.mjs";

const SCRIPT = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>`;
const IDENTITY = { username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" };

const config = entitiesText({ queues: { orders: {}, invoices: {}, closed: {} } });

describe("console: connections", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config });

  /** Runs `test` while a client with these properties is connected. */
  async function withGeneric(options, test) {
    const connection = rhea.create_container({ id: options.container_id }).connect({
      host: "127.0.0.1",
      port: daemon.amqpPort,
      reconnect: false,
      ...IDENTITY,
      ...options,
    });
    await once(connection, "connection_open");
    try {
      await test(connection);
    } finally {
      connection.close();
      await once(connection, "connection_close");
    }
  }

  it("a client of the SDK is shown with identity, product, links, credit and rates", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "orders", { body: "a" }, { body: "b" });
        const receiver = client.createReceiver("orders");
        const [first] = await take(receiver, 2);
        await visit(page, "#/connections", "Connections");
        const line = row(page, "MSJSClient");
        await shows(line, "RootManageSharedAccessKey");
        await shows(line, "rule");
        // Events while the page is open appear without a reload.
        await until(async () => (await line.locator("td").nth(8).textContent()) === "2", "two unsettled messages");
        await receiver.completeMessage(first);
        await until(async () => (await line.locator("td").nth(8).textContent()) === "1", "one unsettled message");
        await until(async () => /\d/.test(await line.locator("td").nth(6).textContent()), "a rate");
        await screenshot(page, "connections");
        await line.getByRole("link").click();
        const links = page.getByRole("region", { name: "Links" });
        await shows(links, "to the client");
        await shows(links, "to the broker");
        await shows(page, "Container id");
        await screenshot(page, "connection");
        await links.getByRole("link", { name: "orders", exact: true }).first().click();
        await page.getByRole("heading", { name: "orders", level: 1 }).waitFor();
      });
    }));

  it("a lock leads to the connection of its receiver", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        await send(client, "invoices", { body: "x" });
        await one(client.createReceiver("invoices"));
        await withGeneric({ container_id: "bystander" }, async () => {
          await visit(page, entityRoute("invoices", "holders"), "invoices");
          await page.getByRole("region", { name: "Locks" }).getByTitle("The connection of this receiver").click();
          await page.getByRole("heading", { name: "Connections", level: 1 }).waitFor();
          await shows(row(page, "MSJSClient"), "RootManageSharedAccessKey");
          assert.equal(await row(page, "bystander").count(), 0);
        });
      });
    }));

  it("connections are searched, opened and left by keyboard", () =>
    browser.page(async (page) => {
      await withGeneric({ container_id: "first-client" }, () =>
        withGeneric({ container_id: "second-client" }, async (second) => {
          const receiver = second.open_receiver("invoices");
          await once(receiver, "receiver_open");
          await page.keyboard.press("g");
          await page.keyboard.press("c");
          await row(page, "first-client").waitFor();
          await row(page, "second-client").waitFor();
          await page.keyboard.press("/");
          await page.keyboard.type("INVOICES");
          await row(page, "first-client").waitFor({ state: "detached" });
          await row(page, "second-client").waitFor();
          await page.keyboard.press("Escape");
          await page.keyboard.press("j");
          await page.keyboard.press("Enter");
          await shows(page, "second-client");
          await shows(page.getByRole("region", { name: "Links" }), "invoices");
          await page.keyboard.press("Escape");
          await page.getByRole("heading", { name: "Connections", level: 1 }).waitFor();
          await page.getByLabel("Search connections").fill("nobody like that");
          await shows(page, "No connection matches.");
        }),
      );
    }));

  it("a connection is closed when that is confirmed, and the SDK connects again", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        const [sender, receiver] = [client.createSender("closed"), client.createReceiver("closed")];
        await sender.sendMessages({ body: "before" });
        await receiver.completeMessage(await one(receiver));
        await visit(page, "#/connections?search=closed", "Connections");
        await row(page, "MSJSClient").waitFor();
        const opened = await row(page, "MSJSClient").getByRole("link").getAttribute("href");
        const close = row(page, "MSJSClient").getByRole("button", { name: /^Close/ });
        await close.click();
        await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
        assert.equal(await row(page, "MSJSClient").count(), 1);
        await close.click();
        await page.getByRole("dialog").getByRole("button", { name: "Close the connection" }).click();
        await shows(page, "Closed the connection");
        await sender.sendMessages({ body: "after" });
        assert.equal((await one(receiver)).body, "after");
        await row(page, "MSJSClient").first().waitFor();
        const now = await row(page, "MSJSClient").getByRole("link").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
        assert(!now.includes(opened), "another connection");
        await visit(page, opened, "Connection");
        await shows(page, "This connection has ended.");
      });
    }));

  it("a generic client hears why its connection was closed", () =>
    browser.page(async (page) => {
      const connection = rhea.create_container({ id: "to-be-closed" }).connect({ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false, ...IDENTITY });
      await once(connection, "connection_open");
      const closed = once(connection, "connection_error");
      await visit(page, "#/connections?search=to-be-closed", "Connections");
      await row(page, "to-be-closed").getByRole("link").click();
      await page.getByRole("button", { name: "Close…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Close the connection" }).click();
      const [context] = await closed;
      assert.equal(context.connection.error.condition, "amqp:connection:forced");
      await page.getByRole("heading", { name: "Connections", level: 1 }).waitFor();
      await row(page, "to-be-closed").waitFor({ state: "detached" });
    }));

  it("script in a client's own description is shown as text", () =>
    browser.page(async (page) => {
      const properties = { product: SCRIPT, version: SCRIPT, platform: SCRIPT, framework: SCRIPT, "user-agent": SCRIPT };
      await withGeneric({ container_id: SCRIPT, hostname: SCRIPT, properties }, async (connection) => {
        await once(connection.open_receiver({ name: SCRIPT, source: "orders" }), "receiver_open");
        await visit(page, "#/connections", "Connections");
        await shows(page, SCRIPT);
        await row(page, SCRIPT).getByRole("link").click();
        const links = page.getByRole("region", { name: "Links" });
        await shows(links, SCRIPT);
        assert.equal(await page.getByText(SCRIPT).count() >= 4, true);
        await page.getByRole("button", { name: "Close…" }).click();
        await shows(page.getByRole("dialog"), SCRIPT);
        assert.equal(await page.evaluate(() => window.hit), undefined);
        assert.equal(await page.locator("main img, main script, dialog img").count(), 0);
      });
    }));

  for (const [scheme, width] of [
    ["light", 1280],
    ["dark", 1280],
    ["light", 390],
  ]) {
    it(`the screens are accessible: ${scheme}, ${width} pixels wide`, () =>
      browser.page(
        async (page) => {
          await withGeneric({ container_id: "a-client-with-a-rather-long-name-".repeat(4) }, async (connection) => {
            await once(connection.open_receiver("orders"), "receiver_open");
            await visit(page, "#/connections", "Connections");
            await row(page, "a-client").waitFor();
            await assertAccessible(page, `connections ${scheme} ${width}`);
            await row(page, "a-client").getByRole("link").click();
            await page.getByRole("region", { name: "Links" }).waitFor();
            await assertAccessible(page, `a connection ${scheme} ${width}`);
            await page.getByRole("button", { name: "Close…" }).click();
            await assertAccessible(page, `closing ${scheme} ${width}`);
          });
        },
        { scheme, width },
      ));
  }
});
