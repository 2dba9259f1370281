// Three workers share the accounts of a bank. Each account is a session: one worker at a time, bookings in order.
//
// A worker accepts the next account with a booking, processes two bookings and releases it, so that no account
// waits long for another. The balance is in the session's state, where the next worker finds it.

import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";
import Long from "long";

const CONNECTION =
  process.env.SERVICEBUS_CONNECTION_STRING ??
  "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;" +
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";
const QUEUE = "bookings";
const ACCOUNTS = ["Ada", "Bob", "Cleo", "Dan"];
const BOOKINGS = [100, -30, 5000, "close"];
const WORKERS = [1, 2, 3];
const BOOKINGS_PER_TURN = 2;
/** How long a worker waits for an account before it goes home. */
const PATIENCE_MS = 5_000;

const signed = (amount) => (amount < 0 ? `${amount}` : `+${amount}`);

/** One booking of each account after the other, as they would come in: accounts mixed, each in its order. */
async function sendBookings(client) {
  const sender = client.createSender(QUEUE);
  for (const body of BOOKINGS) {
    for (const sessionId of ACCOUNTS) await sender.sendMessages({ body, sessionId });
  }
  await sender.close();
}

/**
 * Work that may take longer than the account's lock lasts, and therefore renews it on the way. For the first five
 * minutes the SDK would do so by itself; see `maxAutoLockRenewalDurationInMs`.
 */
async function lookClosely(session) {
  for (let part = 0; part < 3; part++) {
    await sleep(100);
    await session.renewSessionLock();
  }
}

async function takeTurn(worker, session) {
  const say = (text) => console.log(`worker ${worker}, ${session.sessionId}: ${text}`);
  let { balance, last } = (await session.getSessionState()) ?? { balance: 0, last: "0" };
  say(`has ${balance}`);
  for (let turn = 0; turn < BOOKINGS_PER_TURN; turn++) {
    const [message] = await session.receiveMessages(1, { maxWaitTimeInMs: PATIENCE_MS });
    if (!message) return;
    const booking = message.body;
    if (booking === "close") {
      say(`closed with ${balance}`);
      await session.setSessionState(null);
      // A booking that is in the balance is delivered again if a worker stopped before it completed the message.
    } else if (message.sequenceNumber.greaterThan(Long.fromString(last))) {
      if (booking >= 1_000) {
        const heldUntil = session.sessionLockedUntilUtc;
        await lookClosely(session);
        const renewed = session.sessionLockedUntilUtc > heldUntil;
        say(`${signed(booking)} is much, looked closely` + (renewed ? ", renewed the lock" : ""));
      }
      balance += booking;
      last = message.sequenceNumber.toString();
      say(`${signed(booking)} makes ${balance}`);
      await session.setSessionState({ balance, last });
    }
    await session.completeMessage(message);
  }
}

async function work(worker, client) {
  for (;;) {
    let session;
    try {
      session = await client.acceptNextSession(QUEUE);
    } catch (error) {
      if (error.code === "ServiceTimeout") return;
      throw error;
    }
    await takeTurn(worker, session);
    await session.close();
  }
}

// No retries: when no account has a booking, the worker ends instead of trying again.
const client = new ServiceBusClient(CONNECTION, { retryOptions: { timeoutInMs: PATIENCE_MS, maxRetries: 0 } });
try {
  await sendBookings(client);
  await Promise.all(WORKERS.map((number) => work(number, client)));
  console.log("nothing left to do");
} finally {
  await client.close();
}
