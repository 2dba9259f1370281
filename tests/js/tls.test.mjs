// Any port, any protocol: the SDK and rhea over TLS and WebSockets. Runs itself in a process that trusts the daemon's CA.

import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import { after, before, describe, it } from "node:test";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import rhea from "rhea";
import WebSocket from "ws";
import { Daemon, bodies, drain, isTrusting, one, range, runTrusting, send } from "./harness.mjs";

/** The SDK always uses `wss:`; users need this for a server without TLS. */
class PlainWebSocket extends WebSocket {
  constructor(url, ...others) {
    super(url.replace(/^wss:/, "ws:"), ...others);
  }
}

const WAYS = {
  AMQPS: {},
  "WebSockets with TLS": { webSocketOptions: { webSocket: WebSocket } },
  "WebSockets without TLS": { webSocketOptions: { webSocket: PlainWebSocket } },
};
const IDENTITY = { username: "RootManageSharedAccessKey", password: "SAS_KEY_VALUE" };

describe("TLS, for those who trust the CA", { skip: isTrusting }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());

  it("serves the SDK and rhea in every way", () => runTrusting(import.meta.url, daemon));

  it("is refused by clients that do not know the CA", async () => {
    const client = new ServiceBusClient(daemon.connectionStringTls, { retryOptions: { maxRetries: 0 } });
    await assert.rejects(send(client, "plain-0", { body: 1 }), /certificate/);
    await client.close();
  });
});

for (const [way, options] of Object.entries(WAYS)) {
  describe(way, { skip: !isTrusting, concurrency: 4 }, () => {
    const daemon = isTrusting ? Daemon.attached() : undefined;
    const name = (what) => `${what} by ${way}`.replaceAll(" ", "-");
    let client, admin;
    before(() => {
      client = new ServiceBusClient(daemon.connectionStringTls, { retryOptions: { maxRetries: 0 }, ...options });
      admin = new ServiceBusAdministrationClient(daemon.connectionStringTls);
    });
    after(() => client.close());

    it("sends, receives and settles in an entity of an administrator", async () => {
      const queue = name("messages");
      await admin.createQueue(queue);
      await send(client, queue, range(20).map((number) => ({ body: number })));
      const receiver = client.createReceiver(queue);
      for (const number of range(20)) {
        const message = await one(receiver);
        assert.equal(message.body, number);
        await receiver.completeMessage(message);
      }
      await receiver.close();
      assert.equal((await admin.getQueueRuntimeProperties(queue)).totalMessageCount, 0);
    });

    it("carries a megabyte", async () => {
      const queue = name("large");
      await admin.createQueue(queue);
      const body = Buffer.alloc(1024 * 1024 - 1024, "0123456789");
      await send(client, queue, { body });
      const [message] = await drain(client, queue, 1);
      assert(body.equals(message.body));
    });

    it("keeps sessions", async () => {
      const queue = name("sessions");
      await admin.createQueue(queue, { requiresSession: true });
      await send(client, queue, { body: "a", sessionId: "a" }, { body: "b", sessionId: "b" });
      const receiver = await client.acceptSession(queue, "b");
      await receiver.setSessionState("state");
      const message = await one(receiver);
      assert.deepEqual(bodies([message]), ["b"]);
      await receiver.completeMessage(message);
      assert.equal(await receiver.getSessionState(), "state");
      await receiver.close();
    });

    it("turns away a wrong key", async () => {
      const wrong = daemon.connectionStringTls.replace("SAS_KEY_VALUE", "wrong");
      const stranger = new ServiceBusClient(wrong, { retryOptions: { maxRetries: 0 }, ...options });
      await assert.rejects(send(stranger, "plain-1", { body: 1 }), { code: "UnauthorizedAccess" });
      await stranger.close();
    });
  });
}

describe("rhea over TLS", { skip: !isTrusting }, () => {
  const daemon = isTrusting ? Daemon.attached() : undefined;
  const connect = (options) => {
    const ca = [fs.readFileSync(daemon.ca)];
    const container = rhea.create_container();
    const where = { host: "localhost", port: daemon.httpPort, transport: "tls", ca, reconnect: false };
    return container.connect({ ...where, ...IDENTITY, ...options });
  };

  it("sends and receives with SASL PLAIN", async () => {
    const connection = connect({});
    await once(connection, "connection_open");
    const sender = connection.open_sender("plain-2");
    await once(sender, "sendable");
    sender.send({ body: "x".repeat(900_000) });
    await once(sender, "accepted");
    const receiver = connection.open_receiver("plain-2");
    const [{ message }] = await once(receiver, "message");
    assert.equal(message.body.length, 900_000);
    connection.close();
    await once(connection, "connection_close");
  });

  it("is turned away with a wrong password", async () => {
    const connection = connect({ password: "wrong" });
    const [{ error }] = await once(connection, "connection_error").catch((caught) => [{ error: caught }]);
    assert.match(String(error?.condition ?? error), /unauthorized|auth/i);
  });
});
