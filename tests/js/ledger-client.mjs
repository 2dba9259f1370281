// A client with the SDK's own settings that sends to a queue and receives from it, and writes its observations to standard output, one
// JSON object per line: see tests/python/unmodified.py. It stops sending when its standard input ends, and exits when nothing happens any more.
//
//   node ledger-client.mjs CONNECTION_STRING QUEUE [OPTIONS]
//
// OPTIONS, in JSON: `retryOptions` instead of the SDK's own, `workMs` from the receipt of a message to its settlement.

import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";

const SEND_PAUSE_MS = 50;
/** Longer than a pause of the service, and than a lock that a broker lost. */
const IDLE_MS = 20_000;
const [connectionString, queue, options = "{}"] = process.argv.slice(2);
const { retryOptions, workMs } = JSON.parse(options);

const now = () => Date.now() / 1_000;
function tell(kind, record) {
  lastTold = Date.now();
  console.log(JSON.stringify({ kind, ...record }));
}
const textOf = (error) => `${error.name} ${error.code ?? ""}: ${error.message}`;
/** The SDK ends its retries with an AggregateError without a text, which contains the error of each attempt. */
const textsOf = (error) => (error.errors ?? [error]).map(textOf);
const tellError = (who, error) => tell("error", { who, text: textsOf(error).join("; ") });

let isSending = true;
let lastTold = Date.now();
process.stdin.resume();
once(process.stdin, "end").then(() => (isSending = false));

const client = new ServiceBusClient(connectionString, retryOptions ? { retryOptions } : {});
const accepted = new Set();
const settled = new Set();

async function sendAll() {
  const sender = client.createSender(queue);
  while (isSending) {
    const id = randomUUID();
    const began = now();
    const error = await sender.sendMessages({ body: id, messageId: id }).catch((error) => error);
    if (error) tellError("send", error);
    else accepted.add(id);
    tell("send", { id, began, ended: now(), confirmed: !error });
    await delay(SEND_PAUSE_MS);
  }
}

const receiver = client.createReceiver(queue, { receiveMode: "peekLock" });
receiver.subscribe(
  {
    async processMessage(message) {
      const { messageId: id, deliveryCount: count, lockToken: token } = message;
      const delivery = { id, token, count, number: message.sequenceNumber.toNumber(), at: now() };
      delivery.locked_until = message.lockedUntilUtc.getTime() / 1_000;
      if (workMs) await delay(workMs);
      const began = now();
      const error = await receiver.completeMessage(message).catch((error) => error);
      if (error) tellError("complete", error);
      tell("settlement", { ...delivery, began, ended: now(), confirmed: !error, errors: error ? textsOf(error) : [] });
      if (!error) settled.add(id);
    },
    // The SDK continues by itself.
    processError: async ({ error }) => tellError("subscribe", error),
  },
  { autoCompleteMessages: false, maxConcurrentCalls: 4 },
);

await sendAll();
const isDone = () => [...accepted].every((id) => settled.has(id)) || Date.now() - lastTold > IDLE_MS;
while (!isDone()) await delay(50);
await receiver.close();
await client.close();
