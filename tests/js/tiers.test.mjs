// The tiers of Service Bus through the JS clients: what the lower ones refuse.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Daemon, administrationClient, bodies, drain, send, withClient } from "./harness.mjs";

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
        assert.deepEqual(sizes, tier === "premium" ? [81920, 1024] : [1024, undefined]);
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
  }
});
