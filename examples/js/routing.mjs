// Routing of shipments: the rules of a topic's subscriptions select messages, and set properties on the copies.
//
// The sender only knows the topic. `peeklock.toml` has the rules: filters and actions in SQL.

import { ServiceBusClient } from "@azure/service-bus";

const CONNECTION =
  process.env.SERVICEBUS_CONNECTION_STRING ??
  "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;" +
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";
const TOPIC = "shipments";
const SUBSCRIPTIONS = ["audit", "customs", "dispatch"];
const SHIPMENTS = {
  book: { country: "DE", weight: 1, express: false },
  piano: { country: "DE", weight: 300, express: false },
  cheese: { country: "FR", weight: 2, express: true },
  statue: { country: "IT", weight: 80, express: true },
};

/** Rules look at properties, never into a body. */
async function sendShipments(client) {
  const sender = client.createSender(TOPIC);
  for (const [body, applicationProperties] of Object.entries(SHIPMENTS)) {
    await sender.sendMessages({ body, applicationProperties });
  }
  await sender.close();
  console.log("sent", Object.keys(SHIPMENTS).join(", "));
}

/** Receives what is there, and ends when nothing has come for two seconds. */
async function receiveCopies(client, subscription) {
  const receiver = client.createReceiver(TOPIC, subscription);
  for (;;) {
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 2_000 });
    if (!message) break;
    console.log(`${subscription}: ${message.body}${remarks(message)}`);
    await receiver.completeMessage(message);
  }
  await receiver.close();
}

/** The properties that a rule's action set on this copy; the broker adds the name of the rule. */
function remarks({ subject, applicationProperties: { RuleName, cost } }) {
  return RuleName ? `, ${subject} by rule ${RuleName}: costs ${cost}` : "";
}

const client = new ServiceBusClient(CONNECTION);
try {
  await sendShipments(client);
  for (const subscription of SUBSCRIPTIONS) await receiveCopies(client, subscription);
} finally {
  await client.close();
}
