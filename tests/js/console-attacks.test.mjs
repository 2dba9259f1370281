// Attacks on the console: script in all texts of clients, other sites' pages, requests without a token.

import assert from "node:assert/strict";
import http from "node:http";
import { describe, it } from "node:test";
import { SKIPPED, daemonAndBrowser, entityRoute, screenshot, shows, token, visit } from "./console.mjs";
import { entitiesText, one, send, withClient } from "./harness.mjs";

const SCRIPT = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>`;

const ROUTES = [
  ["GET", "session"],
  ["GET", "overview"],
  ["GET", "entities"],
  ["GET", "entity?path=plain"],
  ["POST", "entities"],
  ["PATCH", "entity?path=plain"],
  ["DELETE", "entity?path=plain"],
  ["PUT", "rule?path=news/Subscriptions/all&name=x"],
  ["DELETE", "rule?path=news/Subscriptions/all&name=x"],
  ["GET", "receivers?path=plain"],
  ["GET", "locks?path=plain"],
  ["GET", "sessions?path=plain"],
  ["GET", "messages?path=plain"],
  ["GET", "messages/raw?path=plain&sequence_number=1"],
  ["POST", "messages?path=plain"],
  ["POST", "messages/act?path=plain"],
  ["GET", "dead-letters"],
  ["POST", "rules/test"],
  ["GET", "connections"],
  ["GET", "connection?id=1-1"],
  ["DELETE", "connection?id=1-1"],
  ["GET", "log?kind=log"],
  ["GET", "clock"],
  ["POST", "clock"],
];

/** Bodies that describe themselves. */
const BODIES = {
  "POST entities": JSON.stringify({ path: "made", kind: "queue" }),
  "POST rules/test": JSON.stringify({ topic: "news", message: {} }),
};

describe("console: attacks", { skip: SKIPPED }, () => {
  const config = entitiesText({ queues: { plain: {}, hostile: {} }, topics: { news: { subscriptions: [{ name: "all" }] } } });
  const { daemon, browser } = daemonAndBrowser({ config, timeTravel: true });

  it("script in bodies, ids, properties and reasons is shown as text", () =>
    browser.page(async (page) => {
      await withClient(daemon, async (client) => {
        const hostile = {
          body: Buffer.from(SCRIPT),
          messageId: SCRIPT.slice(0, 100),
          subject: SCRIPT,
          contentType: SCRIPT,
          correlationId: SCRIPT.slice(0, 100),
          to: SCRIPT,
          replyTo: SCRIPT,
          applicationProperties: { [SCRIPT]: SCRIPT },
        };
        await send(client, "hostile", hostile, { ...hostile, messageId: "second" });
        const receiver = client.createReceiver("hostile");
        await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: SCRIPT, deadLetterErrorDescription: SCRIPT });
        await receiver.close();
      });
      for (const query of ["", "queue=dead"]) {
        await visit(page, entityRoute("hostile", "messages", query), "hostile");
        await page.getByRole("button", { name: /^Open message/ }).click();
        const dialog = page.getByRole("dialog");
        for (const form of ["JSON", "Hex", "AMQP", "Text"]) await dialog.getByRole("button", { name: form, exact: true }).click();
        assert.equal(await dialog.locator("pre").innerText(), SCRIPT);
        await screenshot(page, "hostile");
        await page.keyboard.press("Escape");
      }
      await visit(page, "#/dead-letters", "Dead letters");
      await shows(page, SCRIPT);
      // A name in the address, and one in an error message.
      await visit(page, entityRoute(SCRIPT), SCRIPT);
      await page.getByRole("alert").waitFor();
      assert.equal(await page.evaluate(() => window.hit), undefined);
      assert.equal(await page.locator("img").count(), 0);
    }));

  it("the policy refuses scripts and styles that an attacker would insert", async () => {
    const answer = await fetch(`${browser.origin}/console/`);
    const policy = answer.headers.get("content-security-policy");
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) {
      assert(policy.includes(part), policy);
    }
    assert(!policy.includes("unsafe"), policy);
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    await assert.rejects(
      browser.page(async (page) => {
        await page.evaluate(() => {
          const script = document.createElement("script");
          script.textContent = "window.hit = 1";
          document.body.append(script);
        });
        assert.equal(await page.evaluate(() => window.hit), undefined);
        await page.evaluate(() => fetch("http://elsewhere.example/", { mode: "no-cors" }).catch(() => {}));
      }),
      /Content Security Policy/,
      "the violation is reported",
    );
  });

  it("no request without a token succeeds, and nothing is changed", async () => {
    for (const [method, route] of ROUTES) {
      const body = method === "GET" || method === "DELETE" ? undefined : (BODIES[`${method} ${route}`] ?? "{}");
      const headers = body && { "Content-Type": "application/json" };
      const answer = await fetch(`${browser.origin}/$api/v1/${route}`, { method, headers, body });
      assert.equal(answer.status, 401, `${method} ${route}`);
    }
  });

  it("requests of a foreign origin are refused, with and without a token", async () => {
    for (const [method, route] of ROUTES) {
      for (const authorization of [{}, { Authorization: token(browser.origin) }]) {
        const headers = { Origin: "http://evil.example", "Content-Type": "application/json", ...authorization };
        const body = method === "GET" ? undefined : (BODIES[`${method} ${route}`] ?? "{}");
        const answer = await fetch(`${browser.origin}/$api/v1/${route}`, { method, headers, body });
        assert.equal(answer.status, 403, `${method} ${route}`);
      }
    }
    const headers = { Authorization: token(browser.origin) };
    const left = await Promise.all(["plain", "made"].map((path) => fetch(`${browser.origin}/$api/v1/entity?path=${path}`, { headers })));
    assert.deepEqual(left.map(({ status }) => status), [200, 404], "nothing was deleted or created");
  });

  it("the page can't be framed, keeps no cookie, and leaves no key behind", () =>
    browser.page(async (page, context) => {
      await visit(page, "#/entities", "Entities");
      assert.deepEqual(await context.cookies(), []);
      const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML, location.href]));
      assert(!kept.includes("SAS_KEY_VALUE"), kept);
      const site = http.createServer((_, response) => {
        response.writeHead(200, { "Content-Type": "text/html" }).end(`<iframe src="${browser.origin}/console/"></iframe>`);
      });
      await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
      try {
        const other = await context.newPage();
        await other.goto(`http://evil.example:${site.address().port}/`);
        const frame = other.frames()[1];
        assert.equal(await frame?.locator("#app").count(), 0, "the console is shown in a frame");
      } finally {
        site.close();
      }
    }));
});
