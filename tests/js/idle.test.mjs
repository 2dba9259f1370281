// With `amqp.link_idle_time_out` and `amqp.no_link_time_out` the broker ends unused links and connections, as Service Bus does after
// ten and five minutes (azure-sdk-for-js 22963, 38988); the SDK recovers.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Daemon, bodies, drain, entitiesText, until, withClient } from "./harness.mjs";

const [DETACHED, CLOSED] = ["amqp:link:detach-forced", "amqp:connection:forced"];
const config = '[amqp]\nlink_idle_time_out = "PT1S"\nno_link_time_out = "PT1S"\n' + entitiesText({ queues: { sent: {}, received: {} } });
const patient = { retryOptions: { maxRetries: 3, retryDelayInMs: 100 } };

let daemon;
before(async () => (daemon = await new Daemon({ config }).start()));
after(() => daemon.close());

async function metric(series) {
  const response = await fetch(`http://127.0.0.1:${daemon.httpPort}/metrics`);
  const found = (await response.text()).match(new RegExp(`^${series} (\\d+)`, "m"));
  return Number(found?.[1] ?? 0);
}

const count = (condition) => metric(`peeklock_operations_refused_total{error_type="${condition}"}`);

const ended = (condition, moreThan) => until(async () => (await count(condition)) > moreThan, condition);

it("a sender sends after its link and its connection were ended", () =>
  withClient(
    daemon,
    async (client) => {
      const sender = client.createSender("sent");
      for (const body of ["first", "second", "third"]) {
        const [detached, closed] = [await count(DETACHED), await count(CLOSED)];
        await sender.sendMessages({ body });
        await ended(DETACHED, detached);
        await ended(CLOSED, closed);
        // The SDK has seen the end of the stream: before, it takes that end for a failure of its next connection.
        await until(async () => (await metric('peeklock_connections{protocol="amqp"}')) === 0, "the end of the connection");
      }
      assert.deepEqual(bodies(await drain(client, "sent", 3)), ["first", "second", "third"]);
    },
    patient,
  ));

it("a subscribed receiver goes on after its link was detached", () =>
  withClient(
    daemon,
    async (client) => {
      const received = [];
      const receiver = client.createReceiver("received");
      const before = await count(DETACHED);
      receiver.subscribe({ processMessage: async ({ body }) => received.push(body), processError: async () => {} });
      await ended(DETACHED, before + 1);
      await client.createSender("received").sendMessages({ body: "awaited" });
      await until(async () => received.length > 0, "the message");
      assert.deepEqual(received, ["awaited"]);
    },
    patient,
  ));
