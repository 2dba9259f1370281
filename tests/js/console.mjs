// A browser on the console of a daemon: sign-in, checks of accessibility, screenshots.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { Daemon, PATIENCE_MS } from "./harness.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const AXE = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** The directory of screenshots. */
export const SHOTS = path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target"), "console");

/** Debian's Chromium, or the browser in PEEKLOCK_CHROMIUM; undefined if there is none. */
export const CHROMIUM = process.env.PEEKLOCK_CHROMIUM ?? ["chromium", "google-chrome"].map(which).find(Boolean);

/** The reason to skip, for `describe`; false if there is a browser. */
export const SKIPPED = CHROMIUM ? false : "NOT TESTED: no browser; install chromium or set PEEKLOCK_CHROMIUM";
if (SKIPPED) console.error(`\n${SKIPPED}\n`);

function which(name) {
  try {
    return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}

/** A daemon with these options, and a browser on its console, for the duration of the suite that calls this. */
export function daemonAndBrowser(options) {
  const daemon = new Daemon(options);
  const browser = new Browser();
  before(async () => {
    await daemon.start();
    await browser.start(daemon);
  });
  after(async () => {
    await browser.close();
    if (daemon.process) await daemon.close();
  });
  return { daemon, browser };
}

/** Fills in the connection string and signs in. */
export async function signIn(page, connectionString) {
  await page.getByLabel("Connection string", { exact: true }).fill(connectionString);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

/** One browser for a test file. */
export class Browser {
  async start(daemon) {
    this.daemon = daemon;
    this.origin = `http://localhost:${daemon.httpPort}`;
    const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.example 127.0.0.1"];
    this.browser = await chromium.launch({ executablePath: CHROMIUM, args });
    fs.mkdirSync(SHOTS, { recursive: true });
    return this;
  }

  close() {
    return this.browser?.close();
  }

  /**
   * Runs `test` with a new page, signed in with the development key unless `signedIn` is false, at the route. Exceptions
   * of the page, and violations of its policy, fail the test.
   */
  async page(test, { route = "", signedIn = true, scheme = "light", width = 1280, height = 860 } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: scheme, acceptDownloads: true });
    context.setDefaultTimeout(PATIENCE_MS / 2);
    const page = await context.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => {
      if (/Content Security Policy|Refused to/.test(message.text())) faults.push(message.text());
    });
    try {
      await page.goto(`${this.origin}/console/${route}`);
      if (signedIn) {
        await page.getByRole("button", { name: "Use the development key" }).click();
        await page.getByRole("navigation", { name: "Screens" }).waitFor();
      }
      await test(page, context);
      assert.deepEqual(faults, []);
    } finally {
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await context.close();
    }
  }
}

/** A shared access signature of the development key, valid for an hour. */
export function token(origin) {
  const resource = encodeURIComponent(`${origin}/`);
  const expirySecs = Math.floor(Date.now() / 1000) + 3600;
  const signature = createHmac("sha256", "SAS_KEY_VALUE").update(`${resource}\n${expirySecs}`).digest("base64");
  return `SharedAccessSignature sr=${resource}&sig=${encodeURIComponent(signature)}&se=${expirySecs}&skn=RootManageSharedAccessKey`;
}

/** The route of a tab of an entity. */
export function entityRoute(entity, tab = "messages", query = "") {
  return `#/entity/${encodeURIComponent(entity)}/${tab}${query && `?${query}`}`;
}

/** Goes to another screen and waits for its heading. */
export async function visit(page, route, heading) {
  await page.evaluate((hash) => (location.hash = hash), route);
  await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
}

/** Waits until a text is shown somewhere in `place`. */
export function shows(place, text) {
  return place.getByText(text).first().waitFor();
}

/** The row of a table with this text, except that of the headings. */
export function row(page, text) {
  return page.getByRole("row").filter({ has: page.getByRole("cell") }).filter({ hasText: text });
}

export async function screenshot(page, name) {
  await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
}

/** Fails on findings of axe that are serious or critical, and if the page is wider than its window. `rules` restricts the check. */
export async function assertAccessible(page, name, rules) {
  if (await page.evaluate(() => globalThis.axe === undefined)) await page.evaluate(AXE);
  const only = rules ? { type: "rule", values: rules } : { type: "tag", values: TAGS };
  const findings = await page.evaluate(async (runOnly) => (await globalThis.axe.run(document, { runOnly })).violations, only);
  const serious = findings.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`);
  assert.deepEqual(told, []);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(over <= 0, `${name} is ${over} pixels wider than the window`);
}
