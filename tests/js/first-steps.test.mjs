// docs/first-steps.md as a reader follows it: messages from the command line, a receiver that dead-letters two, the console in a browser
// to find out why, to repair one and to resubmit the others, and the Grafana board's metrics that show all of it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { SKIPPED, daemonAndBrowser, entityRoute, row, shows } from "./console.mjs";
import { DEAD_LETTER, binary, bodies, entitiesText, peek, until, withClient } from "./harness.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const PAGE = fs.readFileSync(path.join(ROOT, "docs/first-steps.md"), "utf8");
const BOARD = JSON.parse(fs.readFileSync(path.join(ROOT, "packaging/grafana/peeklock.json"), "utf8"));

/** The page's names of screens, buttons and panels: `*Resubmit all…*`. */
const NAMED = [...PAGE.matchAll(/(?<!\*)\*([^*\n]+)\*(?!\*)/g)].map(([, name]) => name);

/** The values of a panel's first expression, by `entity` and their other labels. */
function panel(title, metrics) {
  const [target] = BOARD.panels.flatMap((one) => [one, ...(one.panels ?? [])]).find((one) => one.title === title && one.type === "timeseries").targets;
  const [, metric, labels] = target.expr.match(/(peeklock_\w+)\{([^}]*)\}/);
  const state = labels.match(/state=~?"([^"]+)"/)?.[1].split("|");
  const lines = metrics.split("\n").filter((line) => line.startsWith(`${metric}{`) && line.includes('entity="orders"'));
  const wanted = lines.filter((line) => !state || state.some((one) => line.includes(`state="${one}"`)));
  return Object.fromEntries(wanted.map((line) => [line.replace(/^[^{]*|\s+\S+$/g, ""), Number(line.split(" ").at(-1))]));
}

const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0);

describe("the first steps", { skip: SKIPPED }, () => {
  const { daemon, browser } = daemonAndBrowser({ config: entitiesText({ queues: { orders: {} } }) });

  const metrics = async () => (await fetch(`http://127.0.0.1:${daemon.httpPort}/metrics`)).text();

  /** Runs the page's commands with this beginning, unchanged. */
  function run(beginning) {
    const commands = PAGE.split("\n").filter((line) => line.startsWith(beginning));
    assert(commands.length > 0, `docs/first-steps.md has no ${beginning}`);
    const environment = { ...process.env, PEEKLOCK_READY_FILE: daemon.readyFile };
    for (const command of commands) {
      execFileSync("bash", ["-c", command.replace(/^peeklock/, `"${binary()}"`)], { env: environment, stdio: "ignore" });
    }
  }

  /** The page's worker, in JavaScript: `stock` has the items that it can deliver. Returns the outcome for each message id. */
  async function worker(...stock) {
    return withClient(daemon, async (client) => {
      const receiver = client.createReceiver("orders");
      const outcomes = {};
      while ((await peek(client, "orders")).length > 0) {
        const [message] = await receiver.receiveMessages(1);
        const { item, amount } = typeof message.body === "object" ? message.body : JSON.parse(message.body);
        const reason = Number.isInteger(amount) ? !stock.includes(item) && "OutOfStock" : "BadAmount";
        outcomes[message.messageId] = reason || "done";
        const details = { deadLetterReason: reason, deadLetterErrorDescription: reason === "BadAmount" ? "the amount is no number: 'two'" : `there is no ${item}` };
        await (reason ? receiver.deadLetterMessage(message, details) : receiver.completeMessage(message));
      }
      await receiver.close();
      return outcomes;
    });
  }

  it("lead from a dead letter to its reason, to its repair and to the board", () =>
    browser.page(async (page) => {
      run("peeklock send orders");
      assert.deepEqual(await worker("tea"), { "order-1": "done", "order-2": "OutOfStock", "order-3": "BadAmount" });
      assert.equal(sum(panel("Dead letters", await metrics())), 2);
      const given = panel("Dead-lettered, by reason", await metrics());
      assert.equal(sum(given), 2);

      // Find out why.
      await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Dead letters" }).click();
      await page.getByRole("heading", { name: "BadAmount 1" }).waitFor();
      await page.getByRole("heading", { name: "OutOfStock 1" }).waitFor();
      await row(page, "the amount is no number").getByRole("link", { name: "orders" }).click();
      await row(page, "order-3").getByRole("button").click();
      const dialog = page.getByRole("dialog", { name: /^Message / });
      await shows(dialog, '"two"');

      // Repair and resubmit.
      await dialog.getByRole("button", { name: "Edit and send again…" }).click();
      const body = page.getByRole("textbox", { name: "Body" });
      await body.fill((await body.inputValue()).replace('"two"', "2"));
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await until(async () => withClient(daemon, async (client) => (await peek(client, "orders")).length === 1), "the mended message");
      await page.goto(`${browser.origin}/console/${entityRoute("orders", "messages", "queue=dead")}`);
      await row(page, "order-3").getByRole("button").click();
      await dialog.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("dialog").last().getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByRole("button", { name: "Done" }).click();
      await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Dead letters" }).click();
      await page.getByRole("button", { name: "Resubmit all…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Resubmit", exact: true }).click();
      await shows(page.getByRole("dialog"), "1 resubmitted");
      await page.getByRole("button", { name: "Done" }).click();
      await withClient(daemon, async (client) => assert.deepEqual(bodies(await peek(client, "orders", DEAD_LETTER)), []));

      // The board's values after that.
      assert.deepEqual(Object.values(await worker("tea", "coffee")), ["done", "done"]);
      const shown = await metrics();
      assert.equal(sum(panel("Dead letters", shown)), 0);
      assert.equal(sum(panel("Dead-lettered, by reason", shown)), 2);
      const settled = panel("Settlements", shown);
      const outcome = (name) => settled[Object.keys(settled).find((labels) => labels.includes(`"${name}"`))];
      assert.deepEqual([outcome("complete"), outcome("dead_letter"), outcome("delete")], [3, 2, 2], "two left the dead letters: deleted, resubmitted");
      assert.equal(sum(panel("Messages accepted", shown)), 5);
    }));

  it("name existing panels and buttons", () => {
    const titles = new Set(BOARD.panels.flatMap((one) => [one, ...(one.panels ?? [])]).map(({ title }) => title));
    for (const name of ["Dead letters", "Dead-lettered, by reason", "Settlements"]) {
      assert(titles.has(name) && PAGE.includes(`*${name}*`), name);
    }
    for (const name of ["Use the development key", "Edit and send again…", "Resubmit all…", "Delete…"]) assert(NAMED.includes(name), name);
  });
});
