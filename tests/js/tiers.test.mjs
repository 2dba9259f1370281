// The tiers of Service Bus with the JS clients: refusals of the lower ones.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceBusClient } from "service-bus-preview";
import { Daemon, administrationClient, bodies, drain, peek, range, send, withClient } from "./harness.mjs";

const KILOBYTE = 1024;

async function withDaemon(tier, run) {
  const config = `[namespace]\nname = "shop"\ntier = "${tier}"\n[[queues]]\nname = "declared"\n`;
  const daemon = await new Daemon({ config }).start();
  try {
    await run(daemon, administrationClient(daemon));
  } finally {
    await daemon.close();
  }
}

describe("tiers", () => {
  for (const [tier, sku, units] of [
    ["premium", "Premium", 1],
    ["standard", "Standard", undefined],
    ["basic", "Basic", undefined],
  ]) {
    it(`${tier}: name, tier, sizes and refusals`, async () => {
      await withDaemon(tier, async (daemon, admin) => {
        const info = await admin.getNamespaceProperties();
        assert.deepEqual([info.name, info.messagingSku, info.messagingUnits], ["shop", sku, units]);
        const queue = await admin.createQueue("q");
        const sizes = [queue.maxSizeInMegabytes, queue.maxMessageSizeInKilobytes];
        assert.deepEqual(sizes, tier === "premium" ? [81920, 1024] : [1024, 256]);
        const above = {
          large: () => admin.createQueue("large", { maxMessageSizeInKilobytes: 2048 }),
          sessions: () => admin.createQueue("sessions", { requiresSession: true }),
          topic: () => admin.createTopic("topic"),
        };
        const refused = { premium: [], standard: ["large"], basic: ["large", "sessions", "topic"] }[tier];
        for (const [name, create] of Object.entries(above)) {
          if (refused.includes(name)) await assert.rejects(create(), new RegExp(`'shop' is using '${sku}' tier`));
          else await create();
        }
        await withClient(daemon, async (client) => {
          const body = Buffer.alloc(257 * KILOBYTE);
          const sending = client.createSender("declared").sendMessages({ body });
          if (tier === "premium") await sending;
          else await assert.rejects(sending, { name: "ServiceBusError", code: "MessageSizeExceeded" });
          await send(client, "declared", { body: "fits" });
          const expected = tier === "premium" ? 2 : 1;
          assert.equal(bodies(await drain(client, "declared", expected)).at(-1), "fits");
        });
      });
    });

    it(`${tier}: one request deletes at most as many messages as the tier allows`, async () => {
      await withDaemon(tier, async (daemon) => {
        const most = tier === "premium" ? 4_000 : 500;
        const client = new ServiceBusClient(daemon.connectionString, { retryOptions: { maxRetries: 0 } });
        try {
          await send(client, "declared", range(3).map((body) => ({ body })));
          const receiver = client.createReceiver("declared");
          const tooMany = receiver.deleteMessages({ maxMessageCount: most + 1 });
          await assert.rejects(tooMany, new RegExp(`requested ${most + 1}. Message count should be between 1 and ${most}`));
          assert.equal((await peek(client, "declared")).length, 3);
          assert.equal(await receiver.deleteMessages({ maxMessageCount: most }), 3);
        } finally {
          await client.close();
        }
      });
    });

    it(`${tier}: a purge goes on until everything is deleted`, async () => {
      await withDaemon(tier, async (daemon) => {
        const client = new ServiceBusClient(daemon.connectionString, { retryOptions: { maxRetries: 0 } });
        try {
          const sender = client.createSender("declared");
          for (const _ of range(2)) await sender.sendMessages(range(600).map((body) => ({ body })));
          assert.equal(await client.createReceiver("declared").purgeMessages(), 1_200);
          assert.deepEqual(await peek(client, "declared"), []);
        } finally {
          await client.close();
        }
      });
    });
  }
});
