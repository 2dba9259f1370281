// A requester sends questions and gets the answers on a queue of its own, which is deleted when it is idle.
//
// `replyTo` names the queue for the answer, `correlationId` its question. Requesters that share a reply queue
// would use one with sessions instead and set `replyToSessionId` as well.

import { randomUUID } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

const CONNECTION =
  process.env.SERVICEBUS_CONNECTION_STRING ??
  "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;" +
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";
/** Where the broker serves HTTP, for time travel; the broker itself knows the same variable. */
const HTTP = process.env.PEEKLOCK_HTTP ?? "127.0.0.1:5300";
const QUESTIONS = "questions";
const ANSWERS = "answers";
const PRICES = { tea: 3, coffee: 4, cake: 5 };

/** Calls `use` with a client of its own and closes it. */
async function connected(use) {
  const client = new ServiceBusClient(CONNECTION);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** The next `count` messages, each completed when the caller comes for the one after it. */
async function* next(receiver, count) {
  for (; count > 0; count--) {
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 30_000 });
    if (!message) return;
    yield message;
    await receiver.completeMessage(message);
  }
}

/** The responder: it knows no requester, only what each question says about its answer. */
async function answerQuestions(client, count) {
  for await (const question of next(client.createReceiver(QUESTIONS), count)) {
    const answers = client.createSender(question.replyTo);
    await answers.sendMessages({ body: PRICES[question.body], correlationId: question.messageId });
    await answers.close();
  }
}

/** The requester: sends all questions, then takes the answers as they come. */
async function ask(client, items) {
  const asked = new Map(items.map((item) => [randomUUID(), item]));
  const questions = client.createSender(QUESTIONS);
  for (const [messageId, item] of asked) {
    await questions.sendMessages({ body: item, messageId, replyTo: ANSWERS });
    console.log(`how much is the ${item}?`);
  }
  for await (const answer of next(client.createReceiver(ANSWERS), items.length)) {
    console.log(`the ${asked.get(answer.correlationId)} is ${answer.body}`);
  }
}

async function exists(client, queue) {
  try {
    await client.createReceiver(queue).peekMessages(1);
  } catch (error) {
    if (error.code === "MessagingEntityNotFound") return false;
    throw error;
  }
  return true;
}

/** Moves the broker's clock forward. Everything due in that time has happened when this returns. */
async function advance(duration) {
  const body = JSON.stringify({ advance: duration });
  const answer = await fetch(`http://${HTTP}/development/clock`, { method: "POST", body });
  if (!answer.ok) throw new Error(await answer.text());
}

const items = Object.keys(PRICES);
const responder = connected((client) => answerQuestions(client, items.length));
await connected((client) => ask(client, items));
await responder;

const isThere = () => connected((client) => exists(client, ANSWERS));
console.log("the reply queue", (await isThere()) ? "is there" : "is gone");
await advance("PT6M");
console.log("six minutes later it", (await isThere()) ? "is still there" : "is gone");
