// Subscriptions of a topic.

import { useState } from "preact/hooks";
import { pages } from "../api.js";
import { count, rate, subscriptionOf } from "../format.js";
import { usePoll } from "../parts/hooks.js";
import { currentRate, record } from "../parts/rates.js";
import { PolledList } from "../parts/polledlist.js";
import { Button, Empty, StatusPill, Table } from "../parts/ui.js";
import { entityHref } from "../router.js";
import type { Entity } from "../types.js";
import { CreateDialog } from "./create.js";

const SUBSCRIPTIONS_MAX = 2000;

export function SubscriptionsTab({ topic }: { topic: string }) {
  const [isCreating, setCreating] = useState(false);
  const polled = usePoll(
    async (signal) => {
      const page = await pages<Entity>("entities", { search: `${topic}/Subscriptions/`, kind: "subscription" }, "entities", SUBSCRIPTIONS_MAX, signal);
      const rows = page.rows.filter((row) => subscriptionOf(row.path)?.topic.toLowerCase() === topic.toLowerCase());
      for (const row of rows) record(row.path, row.totals);
      return rows;
    },
    [topic],
    3000,
  );
  const empty = (
    <Empty title="This topic has no subscriptions.">
      <p>Messages sent to the topic are accepted and discarded. A subscription receives a copy of each message that matches one of its rules.</p>
    </Empty>
  );
  return (
    <>
      <div class="toolbar">
        <Button kind="primary" onClick={() => setCreating(true)}>
          Create a subscription…
        </Button>
      </div>
      <PolledList what="subscriptions" polled={polled} rows={polled.data ?? undefined} empty={empty}>
        {(subscriptions) => (
          <Table
            label="Subscriptions"
            head={
              <>
                <th scope="col">Subscription</th>
                <th scope="col">Status</th>
                <th scope="col" class="right">Active</th>
                <th scope="col" class="right">Locked</th>
                <th scope="col" class="right">Dead</th>
                <th scope="col" class="right">Out /s</th>
                <th scope="col">Forwards to</th>
              </>
            }
          >
            {subscriptions.map((row) => (
              <tr key={row.path}>
                <th scope="row">
                  <a data-row href={entityHref(row.path)}>
                    {subscriptionOf(row.path)?.name}
                  </a>
                </th>
                <td>
                  <StatusPill status={row.status} />
                </td>
                <td class="number right">{count(row.counts.active)}</td>
                <td class="number right">{count(row.counts.locked)}</td>
                <td class={`number right ${row.counts.dead_lettered ? "alarming" : ""}`}>{count(row.counts.dead_lettered)}</td>
                <td class="number right">{rate(currentRate(row.path, "delivered"))}</td>
                <td>{row.forward_to ?? "–"}</td>
              </tr>
            ))}
          </Table>
        )}
      </PolledList>
      {isCreating && <CreateDialog topic={topic} onClose={() => setCreating(false)} onCreated={polled.reload} />}
    </>
  );
}
