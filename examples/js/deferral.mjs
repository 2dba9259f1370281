// The steps of an order arrive in the wrong order. A step that arrives too early is deferred and received in its turn.
//
// A deferred message stays in the queue, but can be received only by its sequence number. The session's state stores
// the numbers, so that another worker could continue where this one stopped.

import { ServiceBusClient } from "@azure/service-bus";
import Long from "long";

const CONNECTION =
  process.env.SERVICEBUS_CONNECTION_STRING ??
  "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;" +
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";
const QUEUE = "orders";
const ORDER = "order-7";
const STEPS = ["placed", "paid", "packed", "shipped"];
const ARRIVALS = ["packed", "placed", "shipped", "paid"];

/** How far an order is, kept in its session's state: steps done, and the numbers of deferred steps. */
class Order {
  static async load(receiver) {
    const order = new Order();
    return Object.assign(order, { done: 0, deferred: {} }, await receiver.getSessionState(), { receiver });
  }

  async save() {
    await this.receiver.setSessionState({ done: this.done, deferred: this.deferred });
  }

  get isComplete() {
    return this.done === STEPS.length;
  }

  async handle(message) {
    if (STEPS.indexOf(message.subject) > this.done) return this.defer(message);
    await this.process(message);
    await this.catchUp();
  }

  /** Fetches what was deferred, as long as it is its turn. */
  async catchUp() {
    const isDue = (step) => STEPS.indexOf(step) <= this.done;
    for (let step; (step = Object.keys(this.deferred).find(isDue)); ) {
      const number = this.deferred[step];
      try {
        const [early] = await this.receiver.receiveDeferredMessages(Long.fromString(number));
        await this.process(early, `, fetched by number ${number}`);
      } catch (error) {
        // A worker stopped just before it deferred this message, or just after it completed it.
        if (error.code !== "MessageNotFound") throw error;
      }
      delete this.deferred[step];
      await this.save();
    }
  }

  async defer(message) {
    // The number first: a deferred message whose number is lost can't be received. As a string, because it has 64 bits.
    this.deferred[message.subject] = message.sequenceNumber.toString();
    await this.save();
    await this.receiver.deferMessage(message);
    console.log(`${message.subject}: too early, deferred as number ${message.sequenceNumber}`);
  }

  async process(message, how = "") {
    // A step that is done already comes again if a worker stopped between `save` and `completeMessage`.
    if (STEPS.indexOf(message.subject) === this.done) {
      console.log(`${message.subject}: done${how}`);
      this.done++;
      await this.save();
    }
    await this.receiver.completeMessage(message);
  }
}

const client = new ServiceBusClient(CONNECTION);
try {
  const sender = client.createSender(QUEUE);
  await sender.sendMessages(ARRIVALS.map((step) => ({ body: "", subject: step, sessionId: ORDER })));
  console.log(`${ORDER} arrives as ${ARRIVALS.join(", ")}`);

  const receiver = await client.acceptSession(QUEUE, ORDER);
  const order = await Order.load(receiver);
  await order.catchUp();
  while (!order.isComplete) {
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 10_000 });
    if (!message) break;
    await order.handle(message);
  }
  console.log(order.isComplete ? `${ORDER} is complete` : `${ORDER} waits for ${STEPS[order.done]}`);
  if (order.isComplete) await receiver.setSessionState(null);
} finally {
  await client.close();
}
