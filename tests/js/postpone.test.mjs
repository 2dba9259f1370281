// Abandoning a message until a time: an extension, which the SDK can request by a property to modify.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import rhea from "rhea";
import { DEAD_LETTER, Daemon, bodies, nothing, one, peek, send, take, until, withClient } from "./harness.mjs";

const HOUR_MS = 3_600_000;
const DELIVERY_TIME = "x-opt-delivery-time";

describe("abandoning until a time", () => {
  let daemon;
  before(async () => (daemon = await new Daemon({ timeTravel: true }).start()));
  after(() => daemon.close());
  const withQueue =
    (test, kind = "plain") =>
    () =>
      withClient(daemon, (client) => test(client, daemon.queue(kind)));
  const inAnHour = async () => new Date((await daemon.now()).getTime() + HOUR_MS);

  it("the message comes again then, and others pass it", withQueue(async (client, queue) => {
    await send(client, queue, { body: "first" }, { body: "second" });
    const receiver = client.createReceiver(queue);
    await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: await inAnHour(), why: "busy" });
    const second = await one(receiver);
    assert.equal(second.body, "second");
    await receiver.completeMessage(second);
    assert(await nothing(receiver));
    await daemon.advance("PT1H");
    const again = await one(receiver);
    assert.deepEqual([again.body, again.deliveryCount], ["first", 1]);
    assert.deepEqual(again.applicationProperties, { why: "busy" }, "the time is no property of the message");
  }));

  it("milliseconds since 1970 will do, and a time that is over is no delay", withQueue(async (client, queue) => {
    await send(client, queue, { body: "x" });
    const receiver = client.createReceiver(queue);
    await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: (await inAnHour()).getTime() });
    assert(await nothing(receiver));
    assert.deepEqual(bodies(await peek(client, queue)), ["x"], "it can be browsed");
    await daemon.advance("PT1H");
    await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: new Date(0) });
    assert.equal((await one(receiver)).deliveryCount, 2);
  }));

  it("an invalid time is refused, and the message stays locked", withQueue(async (client, queue) => {
    const times = ["soon", true, -1];
    await send(client, queue, ...times.map((time) => ({ body: time })));
    const receiver = client.createReceiver(queue);
    for (const time of times) {
      const wrong = receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: time });
      await assert.rejects(wrong, /x-opt-delivery-time/);
    }
    assert(await nothing(receiver));
  }));

  it("a deferred message goes back to the deferred, through $management", withQueue(async (client, queue) => {
    await send(client, queue, { body: "x" });
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    await receiver.deferMessage(message);
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    await receiver.abandonMessage(deferred, { [DELIVERY_TIME]: await inAnHour() });
    const [again] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(again.deliveryCount, 2);
    await receiver.completeMessage(again);
  }));

  it("a session waits for its first message", withQueue(async (client, queue) => {
    await send(client, queue, { body: 1, sessionId: "s" }, { body: 2, sessionId: "s" });
    const first = await client.acceptSession(queue, "s");
    await first.abandonMessage(await one(first), { [DELIVERY_TIME]: await inAnHour() });
    assert(await nothing(first), "later messages wait too");
    await first.close();
    await daemon.advance("PT1H");
    const next = await client.acceptNextSession(queue);
    assert.deepEqual(bodies(await take(next, 2)), [1, 2]);
  }, "session"));

  it("the last failure dead-letters at once, and a dead letter can wait", withQueue(async (client, queue) => {
    await send(client, queue, { body: "x" });
    const receiver = client.createReceiver(queue);
    await receiver.abandonMessage(await one(receiver));
    await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: await inAnHour() });
    const dead = client.createReceiver(queue, DEAD_LETTER);
    await dead.abandonMessage(await one(dead), { [DELIVERY_TIME]: await inAnHour() });
    assert(await nothing(dead));
    await daemon.advance("PT1H");
    assert.equal((await one(dead)).body, "x");
  }, "two_tries"));

  it("a broker that is killed meanwhile keeps the time", async () => {
    const own = await new Daemon({ timeTravel: true }).start();
    try {
      const queue = own.queue();
      await withClient(own, async (client) => {
        await send(client, queue, { body: "x" });
        const receiver = client.createReceiver(queue);
        const time = new Date((await own.now()).getTime() + HOUR_MS);
        await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: time });
      });
      await own.restart();
      await withClient(own, async (client) => {
        const receiver = client.createReceiver(queue);
        assert(await nothing(receiver));
        await own.advance("PT1H1S");
        assert.equal((await one(receiver)).deliveryCount, 1);
      });
    } finally {
      await own.close();
    }
  });

  it("receivers with selectors get it at its time, if it matches", withQueue(async (client, queue) => {
    const colored = (body, color) => ({ body, applicationProperties: { color } });
    await send(client, queue, colored("first", "red"), colored("second", "red"), colored("third", "blue"));
    const receiver = client.createReceiver(queue);
    await receiver.abandonMessage(await one(receiver), { [DELIVERY_TIME]: await inAnHour() });
    await receiver.close();
    const identity = { username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" };
    const connection = rhea.create_container().connect({ host: "127.0.0.1", port: daemon.amqpPort, reconnect: false, ...identity });
    try {
      await once(connection, "connection_open");
      const received = {};
      for (const color of ["red", "blue"]) {
        const source = { address: queue, filter: rhea.filter.selector(`color = '${color}'`) };
        received[color] = [];
        connection
          .open_receiver({ source, credit_window: 5 })
          .on("message", ({ message }) => received[color].push(message.body.content?.toString() ?? message.body));
      }
      const arrived = (red, blue) => until(() => received.red.length === red && received.blue.length === blue, "the messages");
      await arrived(1, 1);
      assert.match(received.red[0], /second/, "it is not held back by the first");
      await daemon.advance("PT1H");
      await arrived(2, 1);
      assert.match(received.red[1], /first/);
    } finally {
      connection.close();
      await once(connection, "connection_close");
    }
  }));
});
