// Limits on the rate of messages: refused with the text of Service Bus, and the SDK's retry succeeds.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Daemon, bodies, drain, range, send, withClient } from "./harness.mjs";

const config = `
[[throttling.entities]]
name = "slow"
messages_per_second = 1

[[queues]]
name = "slow"

[[queues]]
name = "neighbour"
`;
const batch = (count) => range(count).map((number) => ({ body: String(number) }));

describe("limits on rates", () => {
  let daemon;
  before(async () => (daemon = await new Daemon({ config }).start()));
  after(() => daemon.close());

  it("are kept by the SDK's retry", async () => {
    const patient = { retryOptions: { maxRetries: 20, retryDelayInMs: 500, timeoutInMs: 10_000 } };
    await withClient(
      daemon,
      async (client) => {
        const sender = client.createSender("slow");
        await sender.sendMessages(batch(4));
        await sender.sendMessages({ body: "patient" });
        assert.equal(bodies(await drain(client, "slow", 5)).at(-1), "patient");
      },
      patient,
    );
  });

  it("answer as Service Bus does, and leave a neighbour alone", async () => {
    const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };
    await withClient(
      daemon,
      async (client) => {
        const sender = client.createSender("slow");
        const busy = { name: "ServiceBusError", code: "ServiceBusy", message: /being throttled\. Error code : 50009/ };
        await assert.rejects(async () => {
          for (;;) await sender.sendMessages(batch(50));
        }, busy);
        await send(client, "neighbour", ...batch(20));
        assert.equal((await drain(client, "neighbour", 20)).length, 20);
      },
      impatient,
    );
  });
});
