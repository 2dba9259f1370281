// A generic AMQP 1.0 client, rhea: no CBS, no $management.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import rhea from "rhea";
import { Daemon, range } from "./harness.mjs";

const { types, message: codec } = rhea;

/** The emulator's rule, for SASL PLAIN. */
const IDENTITY = { username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" };
/** The message format of a Service Bus batch. */
const BATCH_FORMAT = 0x80013700;
const batch = (messages) => codec.encode({ body: codec.data_sections(messages) });

describe("rhea", { concurrency: 6 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());

  /** Runs `test` with an own connection; by default SASL PLAIN with the emulator's rule. */
  const connected = (test, options = {}) => async () => {
    const container = rhea.create_container();
    const connection = container.connect({ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false, ...IDENTITY, ...options });
    try {
      await once(connection, "connection_open");
      await test(connection, daemon.queue());
    } finally {
      connection.close();
      await once(connection, "connection_close");
    }
  };

  /** Sends and awaits each outcome. */
  async function send(connection, queue, ...messages) {
    const sender = connection.open_sender(queue);
    await once(sender, "sendable");
    const outcomes = messages.map(
      (message) =>
        new Promise((resolve, reject) => {
          const delivery = sender.send(message);
          sender.on("accepted", (context) => context.delivery === delivery && resolve());
          sender.on("rejected", (context) => context.delivery === delivery && reject(context.delivery.remote_state.error));
        }),
    );
    await Promise.all(outcomes);
    sender.close();
  }

  /** Receives `count` deliveries and calls `settle` for each. */
  async function receive(connection, queue, count, settle = (delivery) => delivery.accept(), options = {}) {
    const receiver = connection.open_receiver({ source: queue, credit_window: 0, autoaccept: false, ...options });
    receiver.add_credit(count);
    const messages = [];
    await new Promise((resolve) => {
      receiver.on("message", ({ message, delivery }) => {
        messages.push(message);
        settle(delivery);
        if (messages.length === count) resolve();
      });
    });
    receiver.close();
    await once(receiver, "receiver_close");
    return messages;
  }

  it("sends, receives and accepts", connected(async (connection, queue) => {
    await send(connection, queue, ...range(10).map((body) => ({ body })));
    assert.deepEqual((await receive(connection, queue, 10)).map((m) => m.body), range(10));
  }));

  it("authenticates with PLAIN and a key", async () => {
    const container = rhea.create_container();
    const options = { host: "127.0.0.1", port: daemon.amqpPort, reconnect: false, ...IDENTITY, password: "wrong" };
    const [{ error }] = await once(container.connect(options), "connection_error").catch((caught) => [{ error: caught }]);
    assert.match(String(error), /authenticat|unauthorized/i);
  });

  it("keeps every wrapped type", connected(async (connection, queue) => {
    const application_properties = {
      ubyte: types.wrap_ubyte(255),
      ushort: types.wrap_ushort(65_535),
      uint: types.wrap_uint(4_294_967_295),
      ulong: types.wrap_ulong(2 ** 50),
      byte: types.wrap_byte(-128),
      short: types.wrap_short(-32_768),
      int: types.wrap_int(-2_147_483_648),
      long: types.wrap_long(-(2 ** 50)),
      float: types.wrap_float(0.5),
      double: types.wrap_double(0.1),
      timestamp: types.wrap_timestamp(1_767_323_045_678),
      symbol: types.wrap_symbol("symbol"),
      binary: types.wrap_binary(Buffer.from([0, 255])),
    };
    await send(connection, queue, { body: "", application_properties });
    const [received] = await receive(connection, queue, 1);
    const plain = Object.fromEntries(Object.entries(application_properties).map(([key, wrapped]) => [key, wrapped.value]));
    plain.timestamp = new Date(1_767_323_045_678);
    assert.deepEqual({ ...received.application_properties, timestamp: new Date(received.application_properties.timestamp) }, plain);
  }));

  it("reassembles messages of many frames both ways", connected(async (connection, queue) => {
    const body = "x".repeat(500_000);
    await send(connection, queue, { body });
    assert.equal((await receive(connection, queue, 1))[0].body, body);
  }, { max_frame_size: 4_096 }));

  it("rejects to the dead-letter queue", connected(async (connection, queue) => {
    await send(connection, queue, { body: "bad" });
    await receive(connection, queue, 1, (delivery) => delivery.reject({ condition: "app:bad", description: "is bad" }));
    assert.equal((await receive(connection, `${queue}/$DeadLetterQueue`, 1))[0].body, "bad");
  }));

  it("modifies: failed counts, released does not, undeliverable defers", connected(async (connection, queue) => {
    await send(connection, queue, { body: "again" });
    const counts = [];
    const settle = (delivery) => delivery.release({ delivery_failed: true, undeliverable_here: false });
    counts.push((await receive(connection, queue, 1, settle))[0].delivery_count);
    counts.push((await receive(connection, queue, 1, (delivery) => delivery.release()))[0].delivery_count);
    counts.push((await receive(connection, queue, 1, (delivery) => delivery.modified({ undeliverable_here: true })))[0].delivery_count);
    assert.deepEqual(counts.map((count) => count ?? 0), [0, 1, 1]);
    const receiver = connection.open_receiver({ source: queue, credit_window: 0 });
    receiver.drain = true;
    receiver.add_credit(1);
    const [event] = await Promise.race([
      once(receiver, "receiver_drained").then(() => ["drained"]),
      once(receiver, "message").then(() => ["message"]),
    ]);
    assert.equal(event, "drained", "a deferred message is not delivered");
  }));

  it("drains: the available messages come, then the credit is gone", connected(async (connection, queue) => {
    await send(connection, queue, { body: 1 }, { body: 2 });
    const receiver = connection.open_receiver({ source: queue, credit_window: 0 });
    const received = [];
    receiver.on("message", (context) => received.push(context.message.body));
    receiver.drain = true;
    receiver.add_credit(10);
    await once(receiver, "receiver_drained");
    assert.deepEqual(received, [1, 2]);
    assert.equal(receiver.credit, 0);
  }));

  it("pre-settled deliveries leave the queue at once", connected(async (connection, queue) => {
    const sender = connection.open_sender({ target: queue, snd_settle_mode: 1 });
    await once(sender, "sendable");
    sender.send({ body: "settled" });
    const [message] = await receive(connection, queue, 1, () => {}, { snd_settle_mode: 1 });
    assert.equal(message.body, "settled");
    await send(connection, queue, { body: "next" });
    assert.equal((await receive(connection, queue, 1))[0].body, "next");
  }));

  it("a batch of the Service Bus format becomes single messages", connected(async (connection, queue) => {
    const sections = range(3).map((n) => codec.encode({ message_id: `id-${n}`, body: n }));
    const sender = connection.open_sender(queue);
    await once(sender, "sendable");
    sender.send(batch(sections), undefined, BATCH_FORMAT);
    await once(sender, "accepted");
    const messages = await receive(connection, queue, 3);
    assert.deepEqual(messages.map((m) => [m.message_id, m.body]), range(3).map((n) => [`id-${n}`, n]));
  }));

  it("a malformed batch is rejected whole", connected(async (connection, queue) => {
    const good = codec.encode({ body: "good" });
    const sender = connection.open_sender(queue);
    await once(sender, "sendable");
    sender.send(batch([good, Buffer.from("not a message")]), undefined, BATCH_FORMAT);
    const [{ delivery }] = await once(sender, "rejected");
    assert(delivery.remote_state.error.condition);
    await send(connection, queue, { body: "after" });
    assert.equal((await receive(connection, queue, 1))[0].body, "after");
  }));

  it("an unknown queue is refused with attach and detach", connected(async (connection) => {
    const receiver = connection.open_receiver("no-such-queue");
    await once(receiver, "receiver_error");
    assert.equal(receiver.error.condition, "amqp:not-found");
    const sender = connection.open_sender("no-such-queue");
    await once(sender, "sender_error");
    assert.equal(sender.error.condition, "amqp:not-found");
  }));

  it("a link of the same name steals the old one", connected(async (connection, queue) => {
    const options = { source: queue, name: "one-name", credit_window: 0 };
    const old = connection.open_receiver(options);
    await once(old, "receiver_open");
    const second = connection.create_session();
    second.begin();
    const newer = second.open_receiver(options);
    const [lost] = await Promise.all([once(old, "receiver_error"), once(newer, "receiver_open")]);
    assert.equal(lost[0].receiver.error.condition, "amqp:link:stolen");
  }));

  it("an unknown management operation is not implemented", connected(async (connection, queue) => {
    const node = `${queue}/$management`;
    const receiver = connection.open_receiver({ source: node, target: "reply-here" });
    const sender = connection.open_sender(node);
    await Promise.all([once(receiver, "receiver_open"), once(sender, "sendable")]);
    sender.send({ message_id: 1, reply_to: "reply-here", application_properties: { operation: "com.example:dance" }, body: {} });
    const [{ message }] = await once(receiver, "message");
    assert.equal(message.application_properties.statusCode, 501);
    assert.equal(message.application_properties.errorCondition, "amqp:not-implemented");
    assert.equal(message.correlation_id, 1);
  }));

  it("a receiver with a selector gets matching messages, and the rest stays", connected(async (connection, queue) => {
    const colored = (body, color) => ({ body, application_properties: { color } });
    await send(connection, queue, colored("a", "red"), colored("b", "blue"), colored("c", "red"), colored("d", "Red"));
    const filter = rhea.filter.selector("color = 'red'");
    const red = await receive(connection, queue, 2, undefined, { source: { address: queue, filter } });
    assert.deepEqual(red.map((message) => message.body), ["a", "c"]);
    assert.deepEqual((await receive(connection, queue, 2)).map((message) => message.body), ["b", "d"]);
  }));

  it("the answer to an attach shows the selector in place", connected(async (connection, queue) => {
    const filter = rhea.filter.selector("color = 'red'");
    const receiver = connection.open_receiver({ source: { address: queue, filter }, credit_window: 0 });
    await once(receiver, "receiver_open");
    assert.equal(receiver.source.filter["jms-selector"].value ?? receiver.source.filter["jms-selector"], "color = 'red'");
  }));

  it("a browser sees messages and takes none", connected(async (connection, queue) => {
    await send(connection, queue, ...range(300).map((body) => ({ body, application_properties: { odd: body % 2 === 1 } })));
    const browse = (filter, count) =>
      receive(connection, queue, count, () => {}, { source: { address: queue, distribution_mode: "copy", filter } });
    assert.deepEqual((await browse(undefined, 300)).map((message) => message.body), range(300));
    const odd = await browse(rhea.filter.selector("odd"), 150);
    assert.deepEqual(odd.map((message) => message.body), range(300).filter((body) => body % 2 === 1));
    assert.deepEqual((await receive(connection, queue, 300)).map((message) => message.body), range(300));
  }));

  it("a selector that is not valid is refused", connected(async (connection, queue) => {
    for (const selector of ["color =", "color LIKE 5", "x".repeat(20_000)]) {
      const filter = rhea.filter.selector(selector);
      const receiver = connection.open_receiver({ source: { address: queue, filter } });
      const [{ receiver: refused }] = await once(receiver, "receiver_error");
      assert.equal(refused.error.condition, "amqp:invalid-field");
      assert.match(refused.error.description, /The selector is not valid: .* \(at character \d+ of the expression\)/);
    }
  }));

  it("ten connections open at once", async () => {
    const container = rhea.create_container();
    const connections = range(10).map(() => container.connect({ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false, ...IDENTITY }));
    await Promise.all(connections.map((each) => once(each, "connection_open")));
    connections.forEach((each) => each.close());
    await Promise.all(connections.map((each) => once(each, "connection_close")));
  });
});
