// Bad input: each mistake is reported by the SDK's own error with its code, and has no other effect.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import Long from "long";
import { DEAD_LETTER, Daemon, bodies, drain, nothing, numbers, one, peek, send, take, until, withClient } from "./harness.mjs";

const HOUR_MS = 3_600_000;
const TOO_LONG = "x".repeat(129);
const SETTLEMENTS = ["completeMessage", "abandonMessage", "deferMessage", "deadLetterMessage"];
const LARGEST = Long.MAX_VALUE;
const number = (n) => Long.fromNumber(n);
const noRenewal = { maxAutoLockRenewalDurationInMs: 0 };
/** No retries: they would hide faults of the broker, and slow down expected errors. */
const impatient = { retryOptions: { maxRetries: 0, retryDelayInMs: 1_000, timeoutInMs: 10_000 } };

/** The SDK's error for a refusal by the broker, by its code and text. */
const refused = (promise, code, text = /./) => assert.rejects(promise, { name: "ServiceBusError", code, message: text });
/** A refusal by the SDK itself, without a request to the broker. */
const refusedBySdk = (promise, text, name = "Error") => assert.rejects(promise, { name, message: text });

const receive = (client, ...source) => client.createReceiver(...source).receiveMessages(1, { maxWaitTimeInMs: 1_000 });
const soon = () => new Date(Date.now() + HOUR_MS);
const states = async (client, source) => (await peek(client, source)).map((m) => m.state);

describe("bad input", { concurrency: 8 }, () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)), impatient);
  const withTopic = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.topic(kind)), impatient);

  it("a receiver without a session where one is required", withQueue(async (client, queue) => {
    const topic = daemon.topic("topic_sessions");
    const text = /not possible for an entity that requires sessions/;
    await refused(receive(client, queue), "GeneralError", text);
    await refused(receive(client, topic, "session"), "GeneralError", text);
    const reported = [];
    const subscription = client.createReceiver(queue).subscribe({
      processMessage: async () => {},
      processError: async ({ error }) => reported.push(error),
    });
    const error = await until(() => reported[0], "the report");
    await subscription.close();
    await refused(Promise.reject(error), "GeneralError", text);
    // The dead-letter queue has no sessions.
    assert(await nothing(client.createReceiver(queue, DEAD_LETTER)));
  }, "session"));

  it("a session receiver where there are none", withQueue(async (client, queue) => {
    const topic = daemon.topic("topic_sessions");
    for (const source of [[queue], [topic, "plain"]]) {
      await refused(client.acceptNextSession(...source), "GeneralError", /does not require sessions/);
      // The SDK reports this for every refused session with a name.
      await refused(client.acceptSession(...source, "s"), "SessionCannotBeLocked");
    }
    // The client continues.
    await send(client, queue, { body: "fine" });
    assert.deepEqual(bodies(await drain(client, queue, 1)), ["fine"]);
  }));

  it("receiving from a topic", withTopic(async (client, topic) => {
    const text = /can't be received from a topic/;
    await refused(receive(client, topic), "GeneralError", text);
    assert.deepEqual(await client.createReceiver(topic).peekMessages(1), [], "nothing is scheduled");
    await refused(client.createReceiver(topic).receiveDeferredMessages(number(1)), "GeneralError", text);
    await refused(client.acceptNextSession(topic), "GeneralError", text);
    await send(client, topic, { body: "m" });
    assert.equal((await peek(client, [topic, "one"])).length, 1);
  }));

  it("sending to a subscription or a dead-letter queue", withTopic(async (client, topic) => {
    const subscription = client.createSender(`${topic}/Subscriptions/one`);
    const text = /can't be sent to a subscription/;
    await refused(subscription.sendMessages({ body: 1 }), "GeneralError", text);
    await refused(subscription.scheduleMessages({ body: 1 }, soon()), "GeneralError", text);
    const queue = daemon.queue();
    await refused(send(client, `${queue}/$DeadLetterQueue`, { body: 1 }), "GeneralError", /dead-letter queue directly/);
    assert.deepEqual(await peek(client, [topic, "one"]), []);
    assert.deepEqual(await peek(client, queue, DEAD_LETTER), []);
  }));

  it("missing entities", withTopic(async (client, topic) => {
    const unknown = "MessagingEntityNotFound";
    for (const source of [[topic, "nowhere"], ["nowhere", "one"], [daemon.queue(), "one"], ["nowhere"]]) {
      for (const options of [{}, DEAD_LETTER]) {
        await refused(receive(client, ...source, options), unknown);
        await refused(peek(client, source, options), unknown);
      }
      await refused(client.createReceiver(...source).receiveDeferredMessages(number(1)), unknown);
      await refused(client.acceptNextSession(...source), unknown);
    }
    for (const target of ["nowhere", `${topic}/Subscriptions/nowhere`]) {
      await refused(send(client, target, { body: 1 }), unknown);
      await refused(client.createSender(target).scheduleMessages({ body: 1 }, soon()), unknown);
      await refused(client.createSender(target).cancelScheduledMessages(number(1)), unknown);
    }
  }));

  it("rules that exist, that don't, and of entities without rules", withTopic(async (client, topic) => {
    const manager = client.createRuleManager(topic, "one");
    const filter = { subject: "x" };
    await manager.createRule("r", filter);
    for (const name of ["r", "R", "$Default"]) await refused(manager.createRule(name, filter), "MessagingEntityAlreadyExists");
    await refused(manager.deleteRule("nowhere"), "MessagingEntityNotFound");
    await refused(manager.createRule("n".repeat(51), filter), "GeneralError", /longer than 50/);
    for (const source of [[topic, "nowhere"], [daemon.queue(), "one"]]) {
      const nowhere = client.createRuleManager(...source);
      await refused(nowhere.createRule("r", filter), "MessagingEntityNotFound");
      await refused(nowhere.deleteRule("r"), "MessagingEntityNotFound");
    }
    await manager.deleteRule("R");
    await refused(manager.deleteRule("r"), "MessagingEntityNotFound");
  }));

  it("session ids that are too long", withQueue(async (client, queue) => {
    const text = /cannot be greater than 128/;
    const sender = client.createSender(queue);
    const long = { body: "long", sessionId: TOO_LONG };
    for (const messages of [long, [{ body: "fine", sessionId: "s" }, long]]) await refusedBySdk(sender.sendMessages(messages), text);
    await refusedBySdk(sender.scheduleMessages(long, soon()), text);
    await refused(client.acceptSession(queue, TOO_LONG), "SessionCannotBeLocked");
    // 128 characters are allowed, regardless of their bytes.
    const longest = "ä".repeat(128);
    await sender.sendMessages({ body: "fits", sessionId: longest });
    assert.equal((await one(await client.acceptSession(queue, longest))).body, "fits");
  }, "session"));

  it("a message without a session id where one is required", withQueue(async (client, queue) => {
    const text = /SessionId was not set/;
    const sender = client.createSender(queue);
    const named = { body: "named", sessionId: "s" };
    const homeless = { body: "homeless" };
    for (const messages of [homeless, [named, homeless]]) {
      await refused(sender.sendMessages(messages), "GeneralError", text);
      await refused(sender.scheduleMessages(messages, soon()), "GeneralError", text);
    }
    // The empty id is valid, although this SDK can't accept it; and the sender continues.
    await sender.sendMessages([{ body: "empty", sessionId: "" }, named]);
    assert.deepEqual((await peek(client, queue)).map((m) => [m.body, m.sessionId]), [["empty", ""], ["named", "s"]]);
    await refused(client.acceptSession(queue, ""), "SessionCannotBeLocked");
  }, "session"));

  it("settling twice", withQueue(async (client, queue) => {
    // The SDK itself refuses for messages of a link; the broker refuses for those received by number.
    await send(client, queue, { body: 1 }, { body: 2 });
    const receiver = client.createReceiver(queue, noRenewal);
    const [first, second] = await take(receiver, 2);
    await receiver.completeMessage(first);
    for (const settle of SETTLEMENTS) await refusedBySdk(receiver[settle](first), /already settled/);
    await refused(receiver.renewMessageLock(first), "MessageLockLost");
    await receiver.deferMessage(second);
    const [found] = await receiver.receiveDeferredMessages(second.sequenceNumber);
    await receiver.completeMessage(found);
    for (const settle of SETTLEMENTS) await refused(receiver[settle](found), "MessageLockLost");
    await refused(receiver.renewMessageLock(found), "MessageLockLost");
  }));

  it("a token of another queue", withQueue(async (client, queue) => {
    const [elsewhere, topic] = [daemon.queue(), daemon.topic()];
    for (const target of [queue, elsewhere, topic]) await send(client, target, { body: "m" });
    const receiver = client.createReceiver(queue, noRenewal);
    const message = await one(receiver);
    // Another client: on the same connection the SDK would find the link that delivered the message.
    await withClient(daemon, async (other) => {
      for (const source of [[elsewhere], [topic, "one"]]) {
        const foreign = other.createReceiver(...source, noRenewal);
        for (const settle of SETTLEMENTS) await refused(foreign[settle](message), "MessageLockLost");
        await refused(foreign.renewMessageLock(message), "MessageLockLost");
      }
    }, impatient);
    // No message was affected, here or there.
    await receiver.completeMessage(message);
    assert.deepEqual(await peek(client, queue), []);
    for (const source of [elsewhere, [topic, "one"]]) assert.deepEqual(await states(client, source), ["active"]);
  }));

  it("a token that never was", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m" });
    const receiver = client.createReceiver(queue, noRenewal);
    const { sequenceNumber, ...rest } = await one(receiver);
    await receiver.deferMessage({ sequenceNumber, ...rest });
    const [message] = await receiver.receiveDeferredMessages(sequenceNumber);
    const { lockToken } = message;
    message.lockToken = randomUUID();
    for (const settle of SETTLEMENTS) await refused(receiver[settle](message), "MessageLockLost");
    await refused(receiver.renewMessageLock(message), "MessageLockLost");
    message.lockToken = "nonsense";
    await refusedBySdk(receiver.completeMessage(message), /UUID/, "TypeError");
    message.lockToken = lockToken;
    await receiver.completeMessage(message);
    assert.deepEqual(await peek(client, queue), []);
  }));

  it("the lock of a message of a session", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m", sessionId: "s" });
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const message = await one(receiver);
    await refusedBySdk(receiver.renewMessageLock(message), /invalid operation when working with sessions/);
    await receiver.completeMessage(message);
  }, "session"));

  it("a token of a session that was given back", withQueue(async (client, queue) => {
    await send(client, queue, { body: 1, sessionId: "s" }, { body: 2, sessionId: "s" });
    const receiver = await client.acceptSession(queue, "s", noRenewal);
    const message = await one(receiver);
    await receiver.close();
    const following = await client.acceptSession(queue, "s", noRenewal);
    for (const settle of SETTLEMENTS) await refused(following[settle](message), "SessionLockLost");
    assert.deepEqual(bodies(await take(following, 2)), [1, 2]);
  }, "session"));

  it("deferred numbers that don't exist", withQueue(async (client, queue) => {
    const topic = daemon.topic();
    for (const [target, ...source] of [[queue, queue], [topic, topic, "one"]]) {
      await send(client, target, { body: "deferred" }, { body: "active" });
      const receiver = client.createReceiver(...source, noRenewal);
      const { sequenceNumber: deferred, ...rest } = await one(receiver);
      await receiver.deferMessage({ sequenceNumber: deferred, ...rest });
      const [active, never] = [number(2), number(4711)];
      for (const asked of [active, never, number(0), LARGEST, [deferred, active], [deferred, never]]) {
        await refused(receiver.receiveDeferredMessages(asked), "MessageNotFound");
      }
      await refused(receiver.receiveDeferredMessages([deferred, deferred]), "GeneralError", /twice/);
      const [found] = await receiver.receiveDeferredMessages(deferred);
      await refused(receiver.receiveDeferredMessages(deferred), "MessageNotFound");
      await receiver.completeMessage(found);
      await refused(receiver.receiveDeferredMessages(deferred), "MessageNotFound");
    }
  }));

  it("deferred numbers of another session, or without one", withQueue(async (client, queue) => {
    await send(client, queue, { body: "here", sessionId: "a" });
    const receiver = await client.acceptSession(queue, "a", noRenewal);
    const { sequenceNumber, ...rest } = await one(receiver);
    await receiver.deferMessage({ sequenceNumber, ...rest });
    const foreign = await client.acceptSession(queue, "b", noRenewal);
    await refused(foreign.receiveDeferredMessages(sequenceNumber), "MessageNotFound");
    await refused(client.createReceiver(queue).receiveDeferredMessages(sequenceNumber), "SessionLockLost");
    assert.deepEqual(bodies(await receiver.receiveDeferredMessages(sequenceNumber)), ["here"]);
  }, "session"));

  it("mistakes harm no neighbour", withQueue(async (client, queue) => {
    const [sender, receiver] = [client.createSender(queue), client.createReceiver(queue)];
    assert(await nothing(receiver));
    await refused(receive(client, "nowhere"), "MessagingEntityNotFound");
    await refused(receive(client, daemon.topic()), "GeneralError");
    await refused(sender.cancelScheduledMessages(number(4711)), "MessageNotFound");
    await refused(receiver.receiveDeferredMessages(number(4711)), "MessageNotFound");
    await sender.sendMessages({ body: "fine" });
    const message = await one(receiver);
    assert.equal(message.body, "fine");
    await receiver.completeMessage(message);
  }));
});

// One after the other, because each moves the clock for all.
describe("bad input as time passes", () => {
  let daemon;
  before(async () => {
    daemon = await new Daemon({ timeTravel: true }).start();
    // Far from the SDK's own clock, by which it would send no request.
    await daemon.advance("P1D");
  });
  after(() => daemon.close());
  const withQueue = (test, kind) => () => withClient(daemon, (client) => test(client, daemon.queue(kind)), impatient);

  it("renewing and settling with a lost lock", withQueue(async (client, queue) => {
    const topic = daemon.topic();
    for (const [target, ...source] of [[queue, queue], [topic, topic, "one"]]) {
      await send(client, target, { body: "m" });
      const receiver = client.createReceiver(...source, noRenewal);
      for (const settle of SETTLEMENTS) {
        const message = await one(receiver);
        await daemon.advance("PT2M");
        await refused(receiver.renewMessageLock(message), "MessageLockLost");
        await refused(receiver[settle](message), "MessageLockLost");
      }
      assert.deepEqual(await states(client, source), ["active"]);
    }
  }));

  it("renewing and settling with a lost session lock", withQueue(async (client, queue) => {
    await send(client, queue, { body: "m", sessionId: "s" });
    for (const settle of SETTLEMENTS) {
      const receiver = await client.acceptSession(queue, "s", noRenewal);
      const message = await one(receiver);
      await daemon.advance("PT2M");
      await refused(receiver[settle](message), "SessionLockLost");
      await refused(receiver.renewSessionLock(), "SessionLockLost");
    }
    assert.deepEqual(await states(client, queue), ["active"]);
  }, "session"));

  it("cancelling a message that is not scheduled", withQueue(async (client, queue) => {
    const sender = client.createSender(queue);
    await sender.sendMessages({ body: "active" });
    const due = new Date(+(await daemon.now()) + HOUR_MS);
    const [activated] = await sender.scheduleMessages({ body: "due" }, due);
    const [pending] = await sender.scheduleMessages({ body: "later" }, new Date(+due + HOUR_MS));
    await daemon.advanceTo(due);
    const [active, never] = [number(1), number(4711)];
    for (const asked of [activated, active, never, number(0), LARGEST, [pending, activated], [pending, never]]) {
      await refused(sender.cancelScheduledMessages(asked), "MessageNotFound");
    }
    assert.deepEqual(bodies(await peek(client, queue)), ["active", "later", "due"]);
    assert.deepEqual(numbers(await peek(client, queue)), [1, 3, 4]);
    await sender.cancelScheduledMessages(pending);
    await refused(sender.cancelScheduledMessages(pending), "MessageNotFound");
  }));
});
