// Offers that expire go to the dead-letter queue. A triage step there sends one of them again.

import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";

const CONNECTION =
  process.env.SERVICEBUS_CONNECTION_STRING ??
  "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;" +
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";
const QUEUE = "offers";
const OFFERS = [
  { to: "Ada", percent: 5 },
  { to: "Bob", percent: 20 },
  { to: "Cleo", percent: 10 },
];

async function sendOffers(client) {
  const sender = client.createSender(QUEUE);
  for (const offer of OFFERS) {
    await sender.sendMessages({ body: offer, contentType: "application/json", timeToLive: 1_000 });
  }
  await sender.close();
  console.log(`sent ${OFFERS.length} offers, each good for one second`);
}

/** One message after the other, until none has come for two seconds. */
async function* messagesOf(receiver) {
  for (;;) {
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 2_000 });
    if (!message) return;
    yield message;
  }
}

async function takeOffers(client) {
  const receiver = client.createReceiver(QUEUE);
  let count = 0;
  for await (const message of messagesOf(receiver)) {
    console.log(`${message.body.to} takes ${message.body.percent} percent`);
    await receiver.completeMessage(message);
    count++;
  }
  await receiver.close();
  console.log(`offers taken: ${count}`);
}

/** Looks at every dead letter, sends the best offer again and lets go of the rest. */
async function triage(client) {
  const deadLetters = client.createReceiver(QUEUE, { subQueueType: "deadLetter" });
  const sender = client.createSender(QUEUE);
  for await (const message of messagesOf(deadLetters)) {
    const { body, contentType, deadLetterReason } = message;
    const again = deadLetterReason === "TTLExpiredException" && body.percent >= 20;
    // A new message with the old body. The old time-to-live would begin again as well, so this one has none.
    if (again) await sender.sendMessages({ body, contentType });
    // Last, so that a crash in between leaves the offer twice rather than not at all.
    await deadLetters.completeMessage(message);
    console.log(`dead: ${body.to}, ${deadLetterReason}: ${again ? "sent again" : "let go"}`);
  }
  await sender.close();
  await deadLetters.close();
}

const client = new ServiceBusClient(CONNECTION);
try {
  await sendOffers(client);
  await sleep(2_000);
  // Messages expire when a receiver arrives: the first receiver after their time gets none.
  await takeOffers(client);
  await triage(client);
  await takeOffers(client);
} finally {
  await client.close();
}
