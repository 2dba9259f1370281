// A client that is closed while it waits for a session. In a file of its own that is run early: the SDK gives up only after a minute.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Daemon, delay, one, send, withClient } from "./harness.mjs";

describe("accepting and closing", () => {
  let daemon;
  before(async () => (daemon = await new Daemon().start()));
  after(() => daemon.close());

  it("a client that goes while it waits gets nothing", () =>
    withClient(daemon, async (client) => {
      const queue = daemon.queue("session");
      const gone = daemon.client();
      // Connected first: a client that is closed while it connects continues and waits.
      await gone.acceptSession(daemon.queue("session"), "s");
      const waiting = assert.rejects(gone.acceptNextSession(queue));
      await delay(1_000);
      await gone.close();
      await send(client, queue, { body: 1, sessionId: "s" });
      const receiver = await client.acceptSession(queue, "s");
      assert.equal((await one(receiver)).body, 1);
      await waiting;
    }));
});
