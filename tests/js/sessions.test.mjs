// Sessions: accepting them, their lock, order, state and end.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, bodies, delay, nothing, numbers, one, peek, range, send, take, until, withClient } from "./harness.mjs";

const MINUTE_MS = 60_000;
const noRenewal = { maxAutoLockRenewalDurationInMs: 0 };
/** No retries: they would hide faults of the broker, and slow down expected errors. */
const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 2_000 } };
const message = (body, sessionId = "s", more = {}) => ({ body, sessionId, ...more });
const failsWith = (code) => ({ name: "ServiceBusError", code });

describe("sessions", { concurrency: 12 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue =
    (test, { kind = "session", options } = {}) =>
    () =>
      withClient(daemon, (client) => test(client, daemon.queue(kind)), options);

  it("a named session gives its messages only, and in order", withQueue(async (client, queue) => {
    await send(client, queue, ...range(10).map((n) => message(n, "ab"[n % 2])));
    const receiver = await client.acceptSession(queue, "b");
    assert.equal(receiver.sessionId, "b");
    const messages = await take(receiver, 5);
    assert.deepEqual(bodies(messages), [1, 3, 5, 7, 9]);
    assert.deepEqual(new Set(messages.map((m) => m.sessionId)), new Set(["b"]));
    assert.deepEqual(new Set(messages.map((m) => m.partitionKey)), new Set(["b"]));
    assert(await nothing(receiver));
    for (const received of messages) await receiver.completeMessage(received);
    assert.deepEqual(bodies(await peek(client, queue)), [0, 2, 4, 6, 8]);
  }));

  it("a session without messages is accepted and gets later ones", withQueue(async (client, queue) => {
    const receiver = await client.acceptSession(queue, "new");
    assert(await nothing(receiver));
    await send(client, queue, message("late", "new"));
    assert.equal((await one(receiver)).body, "late");
  }));

  it("the lock's end is known from the start and moves when renewed", withQueue(async (client, queue) => {
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const first = receiver.sessionLockedUntilUtc;
    assert(Math.abs(first - Date.now() - MINUTE_MS) < 10_000, `${first}`);
    await delay(20);
    const renewed = await receiver.renewSessionLock();
    assert(renewed > first);
    assert.deepEqual(receiver.sessionLockedUntilUtc, renewed);
  }));

  it("the next available sessions are shared out", withQueue(async (client, queue) => {
    await send(client, queue, ...range(3).map((n) => message(n, `s${n}`)));
    const receivers = await Promise.all(range(3).map(() => client.acceptNextSession(queue)));
    assert.deepEqual(receivers.map((r) => r.sessionId).sort(), ["s0", "s1", "s2"]);
    for (const receiver of receivers) assert.equal(`s${(await one(receiver)).body}`, receiver.sessionId);
  }));

  it("waiting for a session ends with a later send", withQueue(async (client, queue) => {
    const waiting = client.acceptNextSession(queue);
    await delay(200);
    await send(client, queue, message("wanted", "w"));
    const receiver = await waiting;
    assert.equal(receiver.sessionId, "w");
    assert.equal((await one(receiver)).body, "wanted");
  }));

  it("no session in time", withQueue(async (client, queue) => {
    await assert.rejects(client.acceptNextSession(queue), failsWith("ServiceTimeout"));
    // A receiver that stopped waiting gets nothing.
    await send(client, queue, message(1));
    assert.equal((await one(await client.acceptSession(queue, "s"))).body, 1);
  }, { options: impatient }));

  it("a held session cannot be accepted", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const holder = await client.acceptSession(queue, "s");
    await assert.rejects(client.acceptSession(queue, "s"), failsWith("SessionCannotBeLocked"));
    await withClient(daemon, (other) => assert.rejects(other.acceptSession(queue, "s"), failsWith("SessionCannotBeLocked")));
    assert.equal((await one(holder)).body, 1);
    await holder.close();
    assert.equal((await one(await client.acceptSession(queue, "s"))).body, 1);
  }));

  it("one client holds many sessions at once", withQueue(async (client, queue) => {
    const receivers = await Promise.all(range(20).map((n) => client.acceptSession(queue, `s${n}`)));
    await Promise.all(receivers.map((receiver, n) => receiver.setSessionState(`state ${n}`)));
    const states = await Promise.all(receivers.map((receiver) => receiver.getSessionState()));
    assert.deepEqual(states, range(20).map((n) => `state ${n}`));
    await Promise.all(receivers.map((receiver) => receiver.renewSessionLock()));
  }));

  it("an abandoned message comes next", withQueue(async (client, queue) => {
    await send(client, queue, ...range(3).map((n) => message(n)));
    const receiver = await client.acceptSession(queue, "s");
    await receiver.abandonMessage(await one(receiver));
    const again = await take(receiver, 3);
    assert.deepEqual(again.map((m) => [m.body, m.deliveryCount]), [[0, 1], [1, 0], [2, 0]]);
  }));

  it("closing the receiver gives back uncounted", withQueue(async (client, queue) => {
    await send(client, queue, ...range(3).map((n) => message(n)));
    const receiver = await client.acceptSession(queue, "s");
    await take(receiver, 2);
    await receiver.close();
    const again = await take(await client.acceptSession(queue, "s"), 3);
    assert.deepEqual(again.map((m) => [m.body, m.deliveryCount]), [[0, 0], [1, 0], [2, 0]]);
  }));

  it("a subscription completes in order", withQueue(async (client, queue) => {
    await send(client, queue, ...range(20).map((n) => message(n)));
    const receiver = await client.acceptSession(queue, "s");
    const seen = [];
    const subscription = receiver.subscribe({
      processMessage: async ({ body }) => seen.push(body),
      processError: async ({ error }) => assert.fail(error),
    });
    await until(() => seen.length === 20, "all messages");
    await until(async () => (await peek(client, queue)).length === 0, "an empty queue");
    await subscription.close();
    assert.deepEqual(seen, range(20));
  }));

  it("receive-and-delete", withQueue(async (client, queue) => {
    await send(client, queue, message(1), message(2));
    const receiver = await client.acceptSession(queue, "s", { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await take(receiver, 2)), [1, 2]);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("a state of every kind comes back, and goes", withQueue(async (client, queue) => {
    const receiver = await client.acceptSession(queue, "s");
    assert(!(await receiver.getSessionState()), "none yet");
    for (const state of ["text", { deep: [1, null, "x"] }, 42]) {
      await receiver.setSessionState(state);
      assert.deepEqual(await receiver.getSessionState(), state);
    }
    await receiver.close();
    const following = await client.acceptSession(queue, "s");
    assert.equal(await following.getSessionState(), 42);
    await following.setSessionState(null);
    assert(!(await following.getSessionState()));
  }));

  it("deferred messages belong to their session", withQueue(async (client, queue) => {
    await send(client, queue, ...range(3).map((n) => message(n)));
    const receiver = await client.acceptSession(queue, "s");
    const messages = await take(receiver, 3);
    for (const received of messages) await receiver.deferMessage(received);
    const deferredNumbers = messages.map((m) => m.sequenceNumber);
    const stranger = await client.acceptSession(queue, "other");
    await assert.rejects(stranger.receiveDeferredMessages(deferredNumbers), failsWith("MessageNotFound"));
    const deferred = await receiver.receiveDeferredMessages(deferredNumbers);
    assert.deepEqual(bodies(deferred), [0, 1, 2]);
    await receiver.completeMessage(deferred[0]);
    await receiver.abandonMessage(deferred[1], { tried: true });
    await receiver.deadLetterMessage(deferred[2], { deadLetterReason: "why" });
    const [left] = await peek(client, queue);
    assert.deepEqual([left.body, left.state, left.deliveryCount], [1, "deferred", 2]);
    assert.deepEqual(left.applicationProperties, { tried: true });
  }));

  it("deferred messages are for holders of sessions only", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const holder = await client.acceptSession(queue, "s");
    await holder.deferMessage(await one(holder));
    const plain = client.createReceiver(queue);
    await assert.rejects(plain.receiveDeferredMessages([Long.fromNumber(1)]), failsWith("SessionLockLost"));
  }));

  it("browsing one session and all", withQueue(async (client, queue) => {
    await send(client, queue, message(1, "a"), message(2, "b"), message(3, "a"));
    const receiver = await client.acceptSession(queue, "a");
    assert.deepEqual(bodies(await receiver.peekMessages(10)), [1, 3]);
    assert.deepEqual(bodies(await peek(client, queue)), [1, 2, 3]);
  }));

  it("dead letters are sessionless", withQueue(async (client, queue) => {
    await send(client, queue, message(1, "a"), message(2, "b"));
    for (const id of "ab") {
      const receiver = await client.acceptSession(queue, id);
      await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: id });
    }
    const dead = client.createReceiver(queue, DEAD_LETTER);
    const messages = await take(dead, 2);
    assert.deepEqual(messages.map((m) => [m.sessionId, m.deadLetterReason]).sort(), [["a", "a"], ["b", "b"]]);
    await dead.renewMessageLock(messages[0]);
    for (const received of messages) await dead.completeMessage(received);
  }));

  it("a deferred dead letter of a session is settled", withQueue(async (client, queue) => {
    await send(client, queue, message(1, "a"));
    const receiver = await client.acceptSession(queue, "a");
    await receiver.deadLetterMessage(await one(receiver));
    await receiver.close();
    const dead = client.createReceiver(queue, DEAD_LETTER);
    const { sequenceNumber, ...rest } = await one(dead);
    await dead.deferMessage({ sequenceNumber, ...rest });
    const [deferred] = await dead.receiveDeferredMessages(sequenceNumber);
    assert.equal(deferred.sessionId, "a");
    await dead.completeMessage(deferred);
    assert.equal((await peek(client, queue, DEAD_LETTER)).length, 0);
  }));

  it("ids that differ in case are one session, and messages keep their spelling", withQueue(async (client, queue) => {
    await send(client, queue, message(1, "SessionId"), message(2, "sessionId"), message(3, "other"), message(4, "SESSIONID"));
    const receiver = await client.acceptSession(queue, "sessionId");
    assert.equal(receiver.sessionId, "sessionId", "as it was asked for");
    await assert.rejects(client.acceptSession(queue, "SessionID"), failsWith("SessionCannotBeLocked"));
    const messages = await take(receiver, 3);
    assert.deepEqual(messages.map((m) => [m.body, m.sessionId]), [[1, "SessionId"], [2, "sessionId"], [4, "SESSIONID"]]);
    await receiver.setSessionState("known");
    await receiver.deferMessage(messages[2]);
    for (const received of messages.slice(0, 2)) await receiver.completeMessage(received);
    await receiver.close();
    const next = await client.acceptSession(queue, "SESSIONID");
    assert.equal(await next.getSessionState(), "known");
    await next.renewSessionLock();
    await next.completeMessage((await next.receiveDeferredMessages(messages[2].sequenceNumber))[0]);
    assert.deepEqual(bodies(await next.peekMessages(9)), []);
    assert.deepEqual(bodies(await peek(client, queue)), [3]);
  }, { options: impatient }));

  it("the next available session has the spelling of its first message", withQueue(async (client, queue) => {
    await send(client, queue, message(1, "Cart"), message(2, "CART"));
    const receiver = await client.acceptNextSession(queue);
    assert.equal(receiver.sessionId, "Cart");
    assert.deepEqual((await take(receiver, 2)).map((m) => m.sessionId), ["Cart", "CART"]);
    await assert.rejects(client.acceptNextSession(queue), failsWith("ServiceTimeout"));
  }, { options: impatient }));

  it("a receiver without a session is refused", withQueue(async (client, queue) => {
    await assert.rejects(client.createReceiver(queue).receiveMessages(1, { maxWaitTimeInMs: 1_000 }), /entity that requires sessions/);
  }));

  it("a message needs a session id", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    await assert.rejects(sender.sendMessages({ body: "homeless" }), /SessionId was not set/);
    await sender.sendMessages(message("fine"));
    assert.deepEqual(bodies(await peek(client, queue)), ["fine"]);
  }));

  it("the lock of a session is renewed while its client lives", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const receiver = await client.acceptSession(queue, "s");
    const first = receiver.sessionLockedUntilUtc;
    const received = await one(receiver);
    await until(() => receiver.sessionLockedUntilUtc > first && Date.now() > first, "a renewal");
    await receiver.completeMessage(received);
    assert.equal((await peek(client, queue)).length, 0);
  }, { kind: "session_brief_lock" }));

  it("sessions of a subscription, beside one without", async () => {
    const topic = daemon.topic("topic_sessions");
    await withClient(daemon, async (client) => {
      await send(client, topic, message(1, "a"), message(2, "b"));
      const receiver = await client.acceptSession(topic, "session", "b");
      const received = await one(receiver);
      assert.deepEqual([received.body, received.sessionId], [2, "b"]);
      await receiver.setSessionState("x");
      assert.equal(await receiver.getSessionState(), "x");
      const following = await client.acceptNextSession(topic, "session");
      assert.equal(following.sessionId, "a");
      const plain = client.createReceiver(topic, "plain");
      assert.deepEqual(bodies(await take(plain, 2)), [1, 2]);
    });
  });
});

// One after the other, because each moves the clock for all.
describe("sessions as time passes", () => {
  let daemon;
  before(async () => {
    daemon = await new Daemon({ timeTravel: true }).start();
    // Far from the SDK's own clock, by which it renews.
    await daemon.advance("P1D");
  });
  after(() => daemon.close());
  const withQueue = (test) => () => withClient(daemon, (client) => test(client, daemon.queue("session")), impatient);

  it("a lost lock fails its operations, counts, and frees the session", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const received = await one(receiver);
    await daemon.advance("PT2M");
    await assert.rejects(receiver.completeMessage(received), failsWith("SessionLockLost"));
    await assert.rejects(receiver.renewSessionLock(), failsWith("SessionLockLost"));
    await assert.rejects(receiver.getSessionState(), failsWith("SessionLockLost"));
    await assert.rejects(receiver.setSessionState("x"), failsWith("SessionLockLost"));
    const following = await client.acceptSession(queue, "s", noRenewal);
    const again = await one(following);
    assert.deepEqual([again.body, again.deliveryCount], [1, 1]);
  }));

  it("a subscription hears of a lost lock", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const [received, errors] = [[], []];
    const handlers = {
      processMessage: async (one) => received.push(one),
      processError: async ({ error }) => errors.push(error.code),
    };
    receiver.subscribe(handlers, { ...noRenewal, autoCompleteMessages: false });
    await until(() => received.length === 1, "the message");
    await daemon.advance("PT2M");
    await until(() => errors.includes("SessionLockLost"), "the error");
  }));

  it("a renewed session outlives its first lock", withQueue(async (client, queue) => {
    await send(client, queue, message(1));
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const received = await one(receiver);
    for (let times = 0; times < 3; times++) {
      await daemon.advance("PT40S");
      await receiver.renewSessionLock();
    }
    await receiver.completeMessage(received);
    assert.equal((await peek(client, queue)).length, 0);
  }));

  it("scheduled messages come to their session, in the order of their time", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    const now = await daemon.now();
    await sender.scheduleMessages(message("second"), new Date(+now + 2 * 3_600_000));
    await sender.scheduleMessages(message("first"), new Date(+now + 3_600_000));
    await daemon.advance("PT3H");
    const messages = await take(await client.acceptNextSession(queue, noRenewal), 2);
    assert.deepEqual(bodies(messages), ["first", "second"]);
    assert.deepEqual(numbers(messages), [3, 4]);
  }));
});
