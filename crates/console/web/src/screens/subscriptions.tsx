// Subscriptions of a topic.

import { useEffect, useState } from "preact/hooks";
import { pages } from "../api.js";
import { count, rate, subscriptionOf } from "../format.js";
import { useDebounced, usePoll } from "../parts/hooks.js";
import { currentRate, record } from "../parts/rates.js";
import { MoreRows, PolledList } from "../parts/polledlist.js";
import { Button, Empty, StatusPill, Table } from "../parts/ui.js";
import { entityHref } from "../router.js";
import type { Entity } from "../types.js";
import { CreateDialog } from "./create.js";

const PAGE = 100;
/** At most this many rows are refreshed automatically; the search finds the rest. */
const ROWS_MAX = 1000;

export function SubscriptionsTab({ topic }: { topic: string }) {
  const [isCreating, setCreating] = useState(false);
  const [text, setText] = useState("");
  const [rowsMax, setRowsMax] = useState(PAGE);
  const search = useDebounced(text.trim());
  useEffect(() => setRowsMax(PAGE), [topic, search]);
  const polled = usePoll(
    async (signal) => {
      const page = await pages<Entity>("entities", { topic, search, top: PAGE }, "entities", rowsMax, signal);
      for (const row of page.rows) record(row.path, row.totals);
      return page;
    },
    [topic, search, rowsMax],
    3000,
  );
  const empty = search ? (
    <Empty title="No subscription matches." />
  ) : (
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
        <input type="search" data-search aria-label="Search by name" placeholder="Search by name" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <PolledList what="subscriptions" polled={polled} rows={polled.data?.rows} empty={empty}>
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
      {polled.data?.next && <MoreRows rows={polled.data.rows.length} isAtMost={rowsMax >= ROWS_MAX} more={() => setRowsMax(rowsMax + PAGE)} />}
      {isCreating && <CreateDialog topic={topic} onClose={() => setCreating(false)} onCreated={polled.reload} />}
    </>
  );
}
