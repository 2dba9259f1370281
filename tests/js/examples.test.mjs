// The examples print what examples/README.md shows, exit with 0, and leave their queues as it says.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { DEAD_LETTER, Daemon, PATIENCE_MS, peek, withClient } from "./harness.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const EXAMPLES = path.resolve(HERE, "../../examples");
const text = (file) => fs.readFileSync(path.join(EXAMPLES, file), "utf8");
const json = (file) => JSON.parse(fs.readFileSync(file, "utf8"));
const ACCOUNTS = ["Ada", "Bob", "Cleo", "Dan"];

/** A section of the README that ends its heading with the name of an example, up to the output that it shows. */
const SECTION = /^## [^\n]*`(\w+)`\n.*?^```text\n(.*?)^```/gms;
const SHOWN = Object.fromEntries(
  [...text("README.md").matchAll(SECTION)].map(([, name, output]) => [name, lines(output)]),
);

function lines(output) {
  return output.trimEnd().split("\n");
}

/** The output for each account, of any worker. */
function byAccount(printed) {
  const saidOf = (account) => printed.flatMap((line) => line.match(`^worker [123], ${account}: (.*)$`)?.[1] ?? []);
  return ACCOUNTS.map(saidOf);
}

describe("the examples", { concurrency: 4 }, () => {
  let directory;
  before(() => {
    // Next to the tested packages, so that Node finds them.
    directory = fs.mkdtempSync(path.join(os.tmpdir(), "peeklock-examples-"));
    fs.cpSync(path.join(EXAMPLES, "js"), directory, { recursive: true, filter: (file) => !file.includes("node_modules") });
    fs.symlinkSync(path.join(HERE, "node_modules"), path.join(directory, "node_modules"));
  });
  after(() => fs.rmSync(directory, { recursive: true }));

  const withBroker = (test) => async () => {
    const broker = await new Daemon({ config: text("peeklock.toml") }).start();
    try {
      await test(broker);
    } finally {
      await broker.close();
    }
  };

  /** The lines that an example prints, run as a reader runs it; rejects unless it exits with 0. */
  async function printed(name, broker) {
    const env = {
      ...process.env,
      SERVICEBUS_CONNECTION_STRING: broker.connectionString,
      PEEKLOCK_HTTP: new URL(broker.clock).host,
    };
    const file = path.join(directory, `${name}.mjs`);
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 2 * PATIENCE_MS });
    return lines(stdout);
  }

  /** Browsing shows no message in any state there; sessions have no state either. */
  async function assertLeftEmpty(broker, queue, sessions = []) {
    await withClient(broker, async (client) => {
      assert.deepEqual(await peek(client, queue), []);
      assert.deepEqual(await peek(client, queue, DEAD_LETTER), []);
      for (const session of sessions) {
        const receiver = await client.acceptSession(queue, session);
        assert(!(await receiver.getSessionState()), `a state of ${session}`);
        await receiver.close();
      }
    });
  }

  it("expiry", withBroker(async (broker) => {
    assert.deepEqual(await printed("expiry", broker), SHOWN.expiry);
    await assertLeftEmpty(broker, "offers");
    await broker.advance("PT1H");
    assert.deepEqual(await printed("expiry", broker), SHOWN.expiry, "again, and with a clock of its own");
  }));

  it("deferral", withBroker(async (broker) => {
    assert.deepEqual(await printed("deferral", broker), SHOWN.deferral);
    await assertLeftEmpty(broker, "orders", ["order-7"]);
    await broker.advance("PT1H");
    const later = { "number 1": "number 5", "number 3": "number 7" };
    const again = SHOWN.deferral.map((line) => line.replace(/number \d/, (number) => later[number]));
    assert.deepEqual(await printed("deferral", broker), again, "again, and with a clock of its own");
  }));

  it("sessions", withBroker(async (broker) => {
    for (let round = 0; round < 2; round++) {
      const found = await printed("sessions", broker);
      assert.deepEqual(byAccount(found), byAccount(SHOWN.sessions));
      assert(byAccount(found).every((said) => said.length > 0));
      assert.deepEqual([found.length, found.at(-1)], [SHOWN.sessions.length, SHOWN.sessions.at(-1)]);
      await assertLeftEmpty(broker, "bookings", ACCOUNTS);
      await broker.advance("PT1H");
    }
  }));

  it("routing", withBroker(async (broker) => {
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await printed("routing", broker), SHOWN.routing);
      for (const subscription of ["audit", "customs", "dispatch"]) await assertLeftEmpty(broker, ["shipments", subscription]);
    }
  }));

  it("request_reply", withBroker(async (broker) => {
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await printed("request_reply", broker), SHOWN.request_reply);
      await assertLeftEmpty(broker, "questions");
      await assert.rejects(assertLeftEmpty(broker, "answers"), { name: "ServiceBusError", code: "MessagingEntityNotFound" });
      await broker.restart();
    }
  }));

  it("need the versions that are tested", () => {
    const needed = json(path.join(EXAMPLES, "js/package.json")).dependencies;
    const tested = json(path.join(HERE, "package.json")).dependencies;
    assert(Object.keys(needed).length > 0);
    for (const [name, version] of Object.entries(needed)) assert.equal(version, tested[name], name);
  });
});
