// Starts a Peeklock daemon on its own ports and data directory, and provides fresh queues.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import Long from "long";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

/** Time-out for a condition on a busy machine. */
export const PATIENCE_MS = 40_000;

const DUPLICATES = { requires_duplicate_detection: true, duplicate_detection_history_time_window: "PT1H" };

/** Queues of a kind share their options: `[options, count]`. */
const KINDS = {
  plain: [{}, 120],
  brief_lock: [{ lock_duration: "PT5S" }, 20],
  two_tries: [{ max_delivery_count: 2 }, 4],
  dead_letter_on_expiry: [{ dead_lettering_on_message_expiration: true }, 8],
  one_megabyte: [{ max_size_in_megabytes: 1 }, 2],
  default_ttl: [{ default_message_time_to_live: "PT1H" }, 4],
  long_lock_dead_letter_on_expiry: [{ lock_duration: "PT5M", dead_lettering_on_message_expiration: true }, 2],
  session: [{ requires_session: true }, 30],
  duplicates: [DUPLICATES, 8],
  duplicates_session: [{ ...DUPLICATES, requires_session: true }, 2],
  session_dead_letter_on_expiry: [{ requires_session: true, dead_lettering_on_message_expiration: true }, 4],
  session_brief_lock: [{ requires_session: true, lock_duration: "PT5S" }, 4],
};

/** As `KINDS`, for topics; without a key `rules` the rule matches every message. */
const TOPIC_KINDS = {
  topic: [{ subscriptions: [{ name: "one" }, { name: "two" }] }, 30],
  topic_duplicates: [{ ...DUPLICATES, subscriptions: [{ name: "one" }, { name: "two" }] }, 2],
  topic_sessions: [{ subscriptions: [{ name: "plain" }, { name: "session", requires_session: true }] }, 4],
  topic_ttl: [
    {
      default_message_time_to_live: "PT1H",
      subscriptions: [
        { name: "none" },
        { name: "shorter", default_message_time_to_live: "PT30M" },
        { name: "longer", default_message_time_to_live: "PT2H", dead_lettering_on_message_expiration: true },
      ],
    },
    8,
  ],
  topic_rules: [
    {
      subscriptions: [
        { name: "all" },
        { name: "none", rules: [] },
        { name: "red", rules: [{ name: "red", correlation: { label: "red" } }] },
        { name: "eu", rules: [{ name: "eu", correlation: { properties: { region: "eu", amount: 5 } } }] },
      ],
    },
    4,
  ],
};

export function binary() {
  if (process.env.PEEKLOCK_BIN) return path.resolve(process.env.PEEKLOCK_BIN);
  const target = process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target");
  const found = ["release", "debug"]
    .map((profile) => path.join(target, profile, "peeklock"))
    .find((file) => fs.existsSync(file));
  assert(found, "no daemon: run `cargo build --release` or set PEEKLOCK_BIN");
  return found;
}

function configText() {
  const named = (kinds) =>
    Object.fromEntries(
      Object.entries(kinds).flatMap(([kind, [options, count]]) => range(count).map((n) => [`${kind}-${n}`, options])),
    );
  return entitiesText({ queues: named(KINDS), topics: named(TOPIC_KINDS) });
}

/**
 * The TOML of a test's own daemon: options by name of queue or topic, and `[limits]`. A short idle time needs
 * `limits: { auto_delete_on_idle_min: "PT0.1S" }`.
 */
export function entitiesText({ queues = {}, topics = {}, limits = {} }) {
  const tables = (header, entities) =>
    Object.entries(entities).map(([name, options]) => [`[[${header}]]`, ...tomlLines({ name, ...options }), ""]);
  return [["[limits]", ...tomlLines(limits), ""], ...tables("queues", queues), ...tables("topics", topics)]
    .flat()
    .join("\n");
}

function tomlLines(table) {
  return Object.entries(table).map(([key, value]) => `${JSON.stringify(key)} = ${tomlValue(value)}`);
}

function tomlValue(value) {
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  if (value instanceof Date) return value.toISOString();
  return typeof value === "object" ? `{ ${tomlLines(value).join(", ")} }` : JSON.stringify(value);
}

/** The server on which brokers store their messages in this run, instead of files; see tests/python/postgres.py. */
const SERVER = process.env.PEEKLOCK_TEST_POSTGRES;

/** Creates a database there and returns its URL. */
function createDatabase() {
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  runSql(`create database ${name}`);
  return SERVER + name;
}

const dropDatabase = (url) => runSql(`drop database if exists ${url.split("/").at(-1)} with (force)`);

function runSql(statement) {
  execFileSync(process.env.PEEKLOCK_TEST_PSQL, ["-Xq", `${SERVER}postgres`, "-c", statement], { stdio: "pipe" });
}

/** Daemons that must be ended with an interrupted test run. */
const started = new Set();
process.on("exit", () => started.forEach((daemon) => daemon.kill("SIGKILL")));
process.once("SIGTERM", () => process.exit(143));

/** One daemon; its data remains after `kill` and is served again after `start`. */
export class Daemon {
  #taken = {};

  /**
   * With `timeTravel`, `now`, `advance` and `advanceTo` read and move the daemon's clock. `config` is the file's text,
   * such as `entitiesText` gives; without it every kind of entity is declared. `emulator` is the text of a Config.json,
   * which declares them instead.
   */
  constructor({ timeTravel = false, emulator, config = emulator ? "" : configText() } = {}) {
    this.timeTravel = timeTravel;
    this.directory = fs.mkdtempSync(path.join(os.tmpdir(), "peeklock-js-"));
    fs.writeFileSync(path.join(this.directory, "peeklock.toml"), config);
    this.emulator = emulator && path.join(this.directory, "Config.json");
    if (emulator) fs.writeFileSync(this.emulator, emulator);
    this.database = SERVER && createDatabase();
  }

  /** Returns when connections are accepted, on a port that the system chose. */
  async start(amqpPort = 0) {
    const file = (name) => path.join(this.directory, name);
    // The file of a killed daemon would be mistaken for the new one's.
    fs.rmSync(file("ready.json"), { force: true });
    const log = fs.openSync(file("daemon.log"), "a");
    const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("PEEKLOCK_"));
    const environment = { ...Object.fromEntries(inherited), ...(this.database && { PEEKLOCK_STORAGE_URL: this.database }) };
    this.process = spawn(
      binary(),
      [
        ...["serve", "--config", file("peeklock.toml"), "--data-dir", file("data"), "--ready-file", file("ready.json")],
        ...["--amqp", `127.0.0.1:${amqpPort}`, "--http", "127.0.0.1:0"],
        ...(this.timeTravel ? ["--time-travel"] : []),
        ...(this.emulator ? ["--emulator-config", this.emulator] : []),
      ],
      { stdio: ["ignore", log, log], cwd: this.directory, env: environment },
    );
    this.exited = once(this.process, "exit");
    started.add(this.process);
    fs.closeSync(log);
    await until(() => fs.existsSync(file("ready.json")) || this.process.exitCode !== null, "the ready file");
    assert.equal(this.process.exitCode, null, `the daemon does not start:\n${this.log()}`);
    return this.find(file("ready.json"));
  }

  /** The daemon of the process that started this one by `runTrusting`. */
  static attached() {
    const daemon = Object.create(Daemon.prototype);
    const file = process.env.PEEKLOCK_TEST_READY_FILE;
    return Object.assign(daemon.find(file), { close: () => {} });
  }

  /** Reads the daemon's addresses from the ready file. */
  find(readyFile) {
    const addresses = JSON.parse(fs.readFileSync(readyFile));
    this.readyFile = readyFile;
    this.amqpPort = Number(addresses.amqp.split(":").at(-1));
    this.httpPort = Number(addresses.http.split(":").at(-1));
    this.connectionStringTls = addresses.connection_string_tls;
    this.ca = addresses.ca_file;
    this.clock = `http://${addresses.http}/development/clock`;
    return this;
  }

  /** SIGKILL and a new start on the same port. */
  async restart() {
    await this.kill();
    await this.start(this.amqpPort);
  }

  /** The time of the daemon's clock. */
  async now() {
    return told(await fetch(this.clock));
  }

  /** Moves the clock by an ISO 8601 duration and returns the new time; all due events have happened then. */
  async advance(duration) {
    return told(await fetch(this.clock, { method: "POST", body: JSON.stringify({ advance: duration }) }));
  }

  /** Moves the clock to a date, or leaves it if that is past. */
  async advanceTo(date) {
    const left = date - (await this.now());
    return left > 0 ? this.advance(`PT${left / 1_000}S`) : this.now();
  }

  log() {
    return fs.readFileSync(path.join(this.directory, "daemon.log"), "utf8");
  }

  get connectionString() {
    return (
      `Endpoint=sb://localhost:${this.amqpPort};SharedAccessKeyName=RootManageSharedAccessKey;` +
      "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    );
  }

  client(options) {
    return new ServiceBusClient(this.connectionString, options);
  }

  /** A queue of the kind that no other test of this daemon has used. */
  queue(kind = "plain") {
    return this.#take(kind, KINDS);
  }

  /** A topic, likewise. */
  topic(kind = "topic") {
    return this.#take(kind, TOPIC_KINDS);
  }

  #take(kind, kinds) {
    const number = (this.#taken[kind] ??= 0);
    assert(number < kinds[kind][1], `declare more of the kind ${kind} in harness.mjs`);
    this.#taken[kind]++;
    return `${kind}-${number}`;
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.exited;
  }

  /** Ends the daemon; fails if it had died or panicked. */
  async close() {
    const alive = this.process.exitCode === null && this.process.signalCode === null;
    if (alive) await this.kill();
    const log = this.log();
    if (this.database) dropDatabase(this.database);
    fs.rmSync(this.directory, { recursive: true });
    assert(alive, `the daemon died:\n${log}`);
    assert.doesNotMatch(log, /panicked/);
  }
}

/** Whether this process trusts the CA of a daemon that another one started. */
export const isTrusting = process.env.PEEKLOCK_TEST_READY_FILE !== undefined;

/** Runs a test file, named by its URL, in a process that trusts the daemon's CA: Node reads the variable at its start only. */
export async function runTrusting(url, daemon) {
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
  const env = { ...environment, NODE_EXTRA_CA_CERTS: daemon.ca, PEEKLOCK_TEST_READY_FILE: daemon.readyFile };
  const child = spawn(process.execPath, ["--test", "--test-reporter=spec", fileURLToPath(url)], { env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
  const [code] = await once(child, "close");
  assert.equal(code, 0, output);
  assert.match(output, /pass [1-9]/, output);
}

async function told(response) {
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return new Date(JSON.parse(text).now);
}

/** Runs `test` with an own client, and closes it in any case. */
export async function withClient(daemon, test, options) {
  const client = daemon.client(options);
  try {
    return await test(client);
  } finally {
    await client.close();
  }
}

/** A receiver of a queue, or of `[topic, subscription]`. */
export function createReceiver(client, source, options) {
  return client.createReceiver(...[source].flat(), options);
}

/** Sends messages, each on its own. */
export async function send(client, queue, ...messages) {
  const sender = client.createSender(queue);
  for (const message of messages) await sender.sendMessages(message);
  await sender.close();
}

/** Exactly `count` messages, by as many calls as needed. */
export async function take(receiver, count) {
  const messages = [];
  const deadline = Date.now() + PATIENCE_MS;
  while (messages.length < count) {
    assert(Date.now() < deadline, `only ${messages.length} of ${count} messages came`);
    messages.push(...(await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: 5_000 })));
  }
  return messages;
}

export async function one(receiver) {
  const [message] = await take(receiver, 1);
  return message;
}

/** True when a short receive returns empty. */
export async function nothing(receiver) {
  return (await receiver.receiveMessages(1, { maxWaitTimeInMs: 500 })).length === 0;
}

/** Receives and deletes exactly `count` messages. */
export async function drain(client, source, count, options = {}) {
  const receiver = createReceiver(client, source, { receiveMode: "receiveAndDelete", ...options });
  const messages = await take(receiver, count);
  await receiver.close();
  return messages;
}

/** All messages that browsing shows. Opens no receiver link, only `$management`. */
export async function peek(client, source, options = {}) {
  const receiver = createReceiver(client, source, options);
  const found = [];
  let from = Long.fromNumber(1);
  for (;;) {
    const page = await receiver.peekMessages(250, { fromSequenceNumber: from });
    if (page.length === 0) break;
    found.push(...page);
    from = page.at(-1).sequenceNumber.add(1);
  }
  await receiver.close();
  return found;
}

/** Awaits `condition()` until it is truthy and returns its value. */
export async function until(condition, what) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert(Date.now() < deadline, `${what} never came true`);
    await delay(20);
  }
}

export const DEAD_LETTER = { subQueueType: "deadLetter" };
export const bodies = (messages) => messages.map((message) => message.body);
export const numbers = (messages) => messages.map((message) => message.sequenceNumber.toNumber());
export const range = (count) => Array.from({ length: count }, (_, n) => n);
export { delay };

/** With NODE_EXTRA_CA_CERTS the client works unchanged. It insists on https; a policy in its pipeline redirects it to plain HTTP. */
export function administrationClient(daemon, connectionString = daemon.connectionStringTls) {
  const client = new ServiceBusAdministrationClient(connectionString, { retryOptions: { maxRetries: 0 } });
  if (isTrusting) return client;
  client.pipeline.addPolicy({
    name: "plain HTTP",
    sendRequest(request, next) {
      request.url = request.url.replace(/^https:/, "http:");
      request.allowInsecureConnection = true;
      return next(request);
    },
  });
  return client;
}
