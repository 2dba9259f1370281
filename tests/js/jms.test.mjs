// Features that JMS clients request by attaching links, from a generic client: dynamic nodes, the anonymous relay, consumers of topics.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import rhea from "rhea";
import { Daemon, administrationClient, range, until } from "./harness.mjs";

const { types } = rhea;
const IDENTITY = { username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" };
const QUEUE = ["temporary-queue"];
const DELETE_ON_CLOSE = types.wrap_described([], 0x2b);
const lifetime = (descriptor) => ({ "lifetime-policy": types.wrap_described([], descriptor) });
/** The maximum for one connection. */
const HELD_MAX = 1000;
/** Terminus durability and expiry of durable consumers. */
const DURABLE = { durable: 2, expiry_policy: "never", capabilities: ["topic"] };
const VOLATILE = { durable: 0, expiry_policy: "link-detach", capabilities: ["topic"] };

async function connect(daemon, options = {}) {
  const connection = rhea.create_container().connect({
    ...{ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false },
    ...IDENTITY,
    ...options,
  });
  connection.on("disconnected", () => {});
  await once(connection, "connection_open");
  return connection;
}

async function closed(connection) {
  connection.close();
  await once(connection, "connection_close");
}

/** The error with which a link is refused. */
const refusal = async (link, event) => (await once(link, `${event}_error`), link.error ?? link.remote.detach.error);

async function openReceiver(connection, options) {
  const receiver = connection.open_receiver({ credit_window: 0, autoaccept: false, ...options });
  await Promise.race([
    once(receiver, "receiver_open"),
    once(receiver, "receiver_error").then(() => Promise.reject(receiver.error)),
  ]);
  if (!receiver.source) await once(receiver, "receiver_error");
  if (receiver.error) throw receiver.error;
  return receiver;
}

const consumer = (connection, name, topic, source) =>
  openReceiver(connection, { name, source: { address: topic, ...source } });

async function take(receiver, count) {
  const taken = [];
  const done = new Promise((resolve) => {
    receiver.on("message", ({ message, delivery }) => {
      taken.push(message.body);
      delivery.accept();
      if (taken.length === count) resolve();
    });
  });
  receiver.add_credit(count);
  await done;
  return taken;
}

async function send(sender, message) {
  const delivery = sender.send(message);
  return new Promise((resolve) => {
    sender.on("accepted", (context) => context.delivery === delivery && resolve("accepted"));
    sender.on("rejected", (context) => context.delivery === delivery && resolve(delivery.remote_state.error.condition));
  });
}

async function sender(connection, target) {
  const link = connection.open_sender(target);
  await once(link, "sendable");
  return link;
}

async function names(pages) {
  const found = [];
  for await (const one of pages) found.push(one.subscriptionName ?? one.name);
  return found;
}

describe("links of JMS clients", { concurrency: 4 }, () => {
  let daemon, administration;
  before(async () => {
    daemon = await new Daemon().start();
    administration = administrationClient(daemon);
  });
  after(() => daemon.close());

  // Not by listing: other tests create and delete queues meanwhile, which moves pages.
  const exists = (queue) => administration.queueExists(queue);
  const connected = (test, options) => async () => {
    const connection = await connect(daemon, options);
    try {
      await test(connection);
    } finally {
      if (connection.is_open()) await closed(connection);
    }
  };

  it("a dynamic source is a queue as long as its link", connected(async (connection) => {
    const source = { dynamic: true, capabilities: QUEUE, dynamic_node_properties: { "lifetime-policy": DELETE_ON_CLOSE } };
    const receiver = await openReceiver(connection, { source });
    const { address } = receiver.source;
    assert.match(address, /^temporary-queue-[0-9a-f]{32}$/);
    assert(await exists(address));
    const relay = await sender(connection, {});
    assert.equal(await send(relay, { to: address, body: "x" }), "accepted");
    assert.deepEqual(await take(receiver, 1), ["x"]);
    receiver.close();
    await until(async () => !(await exists(address)), "the end of the queue");
    assert.equal(await send(relay, { to: address, body: "late" }), "amqp:not-found");
  }));

  it("dynamic nodes that are not understood are refused", connected(async (connection) => {
    const cases = [
      [{ dynamic: true }, "amqp:not-implemented"],
      [{ dynamic: true, capabilities: ["queue"] }, "amqp:not-implemented"],
      [{ dynamic: true, capabilities: ["temporary-queue", "temporary-topic"] }, "amqp:not-implemented"],
      [{ dynamic: true, capabilities: QUEUE, dynamic_node_properties: lifetime(0x2c) }, "amqp:not-implemented"],
      [{ dynamic: true, capabilities: QUEUE, dynamic_node_properties: { "lifetime-policy": "for ever" } }, "amqp:not-implemented"],
      [{ dynamic: true, capabilities: QUEUE, address: "mine" }, "amqp:invalid-field"],
    ];
    for (const [terminus, condition] of cases) {
      const receiver = connection.open_receiver({ source: terminus });
      assert.equal((await refusal(receiver, "receiver")).condition, condition, JSON.stringify(terminus));
      const target = connection.open_sender({ target: terminus });
      assert.equal((await refusal(target, "sender")).condition, condition, JSON.stringify(terminus));
    }
    const topic = connection.open_receiver({ source: { dynamic: true, capabilities: ["temporary-topic"] } });
    assert.equal((await refusal(topic, "receiver")).condition, "amqp:not-implemented");
    assert(!(await exists("mine")));
  }));

  it("a connection has a limited number of temporary entities, and they go with it", async () => {
    const connection = await connect(daemon);
    const links = await Promise.all(range(HELD_MAX).map(async () => {
      const link = connection.open_sender({ target: { dynamic: true, capabilities: QUEUE } });
      await once(link, "sender_open");
      return link;
    }));
    assert.equal(new Set(links.map((link) => link.target.address)).size, HELD_MAX);
    const more = connection.open_sender({ target: { dynamic: true, capabilities: QUEUE } });
    assert.equal((await refusal(more, "sender")).condition, "amqp:resource-limit-exceeded");
    connection.socket.destroy(new Error("cut"));
    const some = links.filter((_, n) => n % 100 === 0).map((link) => link.target.address);
    await until(async () => !(await Promise.all(some.map(exists))).some(Boolean), "the end of the queues");
  });

  it("messages without a destination, or for a missing entity, are rejected by the relay", connected(async (connection) => {
    const relay = await sender(connection, {});
    const queue = daemon.queue();
    assert.equal(await send(relay, { body: "x" }), "com.microsoft:argument-error");
    assert.equal(await send(relay, { to: "nowhere", body: "x" }), "amqp:not-found");
    assert.equal(await send(relay, { to: "$cbs", body: "x" }), "amqp:not-allowed");
    assert.equal(await send(relay, { to: `${queue}/$deadletterqueue`, body: "x" }), "amqp:not-allowed");
    assert.equal(await send(relay, { to: queue, body: "y" }), "accepted");
    assert.deepEqual(await take(await openReceiver(connection, { source: queue }), 1), ["y"]);
  }));

  it("a relay needs an authenticated connection", connected(async (connection) => {
    const relay = connection.open_sender({ target: {} });
    assert.equal((await refusal(relay, "sender")).condition, "amqp:unauthorized-access");
  }, { username: undefined, password: undefined }));

  it("a consumer of a topic without the capability is refused as before", connected(async (connection) => {
    const refused = await consumer(connection, "s", daemon.topic(), {}).catch((error) => error);
    assert.equal(refused.condition, "amqp:not-allowed");
  }));

  it("names that no subscription can have are refused", connected(async (connection) => {
    const topic = daemon.topic();
    for (const name of ["a/b", "a$b", "x".repeat(51), "|global", "a\nb"]) {
      const refused = await consumer(connection, name, topic, DURABLE).catch((error) => error);
      assert.equal(refused.condition, "com.microsoft:argument-error", name);
    }
  }, { container_id: "client-names" }));

  it("client ids that no subscription can have are refused", connected(async (connection) => {
    const refused = await consumer(connection, "s", daemon.topic(), DURABLE).catch((error) => error);
    assert.equal(refused.condition, "com.microsoft:argument-error");
    // An unnamed one needs no client id.
    await consumer(connection, "s2", daemon.topic(), VOLATILE);
  }, { container_id: "host/path?" }));

  it("only its connection receives from a consumer's subscription", connected(async (connection) => {
    const topic = daemon.topic();
    await consumer(connection, "mine", topic, VOLATILE);
    const name = (await names(administration.listSubscriptions(topic))).find((one) => one.endsWith("$ND"));
    const other = await connect(daemon);
    const refused = await openReceiver(other, { source: `${topic}/Subscriptions/${name}` }).catch((error) => error);
    assert.equal(refused.condition, "amqp:not-allowed");
    await closed(other);
  }));

  it("the answer to a durable consumer has the values in force", connected(async (connection) => {
    const filter = rhea.filter.selector("n > 1");
    const receiver = await consumer(connection, "answer", daemon.topic(), { ...DURABLE, filter });
    assert.equal(receiver.source.durable, 2);
    assert.equal(receiver.source.expiry_policy, "never");
    assert.deepEqual([receiver.source.capabilities].flat(), ["topic"]);
    assert.equal(receiver.source.filter["jms-selector"].value ?? receiver.source.filter["jms-selector"], "n > 1");
  }, { container_id: "client-answer" }));

  it("a durable subscription that does not exist is not found by an attach without a source", connected(async (connection) => {
    const receiver = connection.open_receiver({ name: "missing", source: null });
    assert.equal((await refusal(receiver, "receiver")).condition, "amqp:not-found");
  }, { container_id: "client-missing" }));

  it("administration keeps whose a subscription is when it changes it", connected(async (connection) => {
    const topic = daemon.topic();
    await consumer(connection, "kept", topic, DURABLE);
    const name = "kept$client-kept$D";
    const watching = administrationClient(daemon);
    let text;
    watching.pipeline.addPolicy({
      name: "text",
      async sendRequest(request, next) {
        const response = await next(request);
        text = response.bodyAsText;
        return response;
      },
    });
    const properties = await watching.getSubscription(topic, name);
    await watching.updateSubscription({ ...properties, maxDeliveryCount: 3 });
    assert.equal((await watching.getSubscription(topic, name)).maxDeliveryCount, 3);
    assert.match(
      text,
      /<IsClientAffine>true<\/IsClientAffine><ClientAffineProperties><ClientId>client-kept<\/ClientId><IsDurable>true<\/IsDurable><IsShared>false<\/IsShared><\/ClientAffineProperties>/,
    );
  }, { container_id: "client-kept" }));
});

describe("links of JMS clients, over SIGKILL", () => {
  it("durable subscriptions keep their messages, and temporary entities are gone", async () => {
    const daemon = await new Daemon().start();
    try {
      const topic = daemon.topic();
      const connection = await connect(daemon, { container_id: "c" });
      const filter = rhea.filter.selector("n > 1");
      await consumer(connection, "durable", topic, { ...DURABLE, filter });
      await consumer(connection, "volatile", topic, VOLATILE);
      await consumer(connection, "shared|volatile1", topic, { ...VOLATILE, capabilities: ["topic", "shared"] });
      const shared = { ...DURABLE, capabilities: ["topic", "shared", "global"] };
      await consumer(connection, "shared|global", topic, shared);
      const dynamic = connection.open_sender({ target: { dynamic: true, capabilities: QUEUE } });
      const temporary = connection.open_sender({ target: { dynamic: true, capabilities: ["temporary-topic"] } });
      await Promise.all([once(dynamic, "sender_open"), once(temporary, "sender_open")]);
      const publisher = await sender(connection, topic);
      for (const n of [1, 2]) {
        assert.equal(await send(publisher, { body: `m${n}`, application_properties: { n: types.wrap_int(n) } }), "accepted");
      }
      const administration = () => administrationClient(daemon);
      const made = async () => (await names(administration().listSubscriptions(topic))).filter((name) => name.includes("$")).sort();
      assert.equal((await made()).length, 4);
      await daemon.restart();
      assert.deepEqual(await made(), ["durable$c$D", "shared$$D"]);
      const left = [...(await names(administration().listQueues())), ...(await names(administration().listTopics()))];
      assert.deepEqual(left.filter((name) => name.startsWith("temporary-")), []);
      const again = await connect(daemon, { container_id: "c" });
      assert.deepEqual(await take(await consumer(again, "durable", topic, { ...DURABLE, filter }), 1), ["m2"]);
      assert.deepEqual(await take(await consumer(again, "shared|global", topic, shared), 2), ["m1", "m2"]);
      await closed(again);
    } finally {
      await daemon.close();
    }
  });
});

describe("rights on links of JMS clients", () => {
  it("a key without Manage uses existing entities and creates nothing", async () => {
    const rule = (name, rights) =>
      `[[authorization.rules]]\nname = "${name}"\nrights = ${JSON.stringify(rights)}\nprimary_key = "${name}-key"\nsecondary_key = "${name}-other"\n`;
    const config = rule("RootManageSharedAccessKey", ["Manage", "Send", "Listen"]).replace("RootManageSharedAccessKey-key", "SAS_KEY_VALUE")
      + rule("reader", ["Listen"]) + rule("writer", ["Send"]) + '[[topics]]\nname = "news"\n[[queues]]\nname = "q"\n';
    const daemon = await new Daemon({ config }).start();
    try {
      const as = (username) => connect(daemon, { username, password: `${username}-key`, container_id: "c" });
      const [owner, reader, writer] = [await connect(daemon, { container_id: "c" }), await as("reader"), await as("writer")];
      const refused = async (promise) => assert.equal((await promise.catch((error) => error)).condition, "amqp:unauthorized-access");
      await refused(consumer(reader, "s", "news", DURABLE));
      await refused(consumer(reader, "v", "news", VOLATILE));
      await refused(consumer(writer, "s", "news", DURABLE));
      for (const connection of [reader, writer]) {
        const dynamic = connection.open_sender({ target: { dynamic: true, capabilities: QUEUE } });
        assert.equal((await refusal(dynamic, "sender")).condition, "amqp:unauthorized-access");
      }
      const created = await consumer(owner, "s", "news", DURABLE);
      created.detach();
      await once(created, "receiver_close").catch(() => {});
      const relay = await sender(writer, {});
      assert.equal(await send(relay, { to: "news", body: "m" }), "accepted");
      assert.equal(await send(await sender(reader, {}), { to: "q", body: "m" }), "amqp:unauthorized-access");
      assert.deepEqual(await take(await consumer(reader, "s", "news", DURABLE), 1), ["m"]);
      // Another selector would recreate it.
      const another = await connect(daemon, { username: "reader", password: "reader-key", container_id: "c" });
      const unsubscribing = another.open_receiver({ name: "s", source: null });
      assert.equal((await refusal(unsubscribing, "receiver")).condition, "amqp:unauthorized-access");
      for (const connection of [owner, reader, writer, another]) await closed(connection);
    } finally {
      await daemon.close();
    }
  });

  it("a namespace of a lower tier has neither temporary queues nor subscriptions of clients", async () => {
    const daemon = await new Daemon({ config: '[namespace]\nname = "shop"\ntier = "standard"\n[[topics]]\nname = "news"\n' }).start();
    try {
      const connection = await connect(daemon);
      const refused = await consumer(connection, "s", "news", VOLATILE).catch((error) => error);
      assert.equal(refused.condition, "amqp:not-allowed");
      const dynamic = connection.open_sender({ target: { dynamic: true, capabilities: QUEUE } });
      assert.equal((await refusal(dynamic, "sender")).condition, "amqp:not-allowed");
      await closed(connection);
    } finally {
      await daemon.close();
    }
  });
});
