// Receivers and locks of an entity.

import { useState } from "preact/hooks";
import { get, pages } from "../api.js";
import { clockTime, count, relative } from "../format.js";
import { useNowMs, usePoll } from "../parts/hooks.js";
import { PolledList } from "../parts/polledlist.js";
import { Empty, Segments, Table } from "../parts/ui.js";
import { entityHref } from "../router.js";
import type { EntityDetail, Lock, Receiver } from "../types.js";

const INTERVAL_MS = 2000;
const LOCKS_MAX = 500;

export function HoldersTab({ entity }: { entity: EntityDetail }) {
  const [queue, setQueue] = useState("");
  const path = entity.path + queue;
  return (
    <>
      <Segments
        label="Queue"
        selected={queue}
        onSelect={setQueue}
        choices={[
          { id: "", label: "Messages" },
          { id: "/$deadletterqueue", label: "Dead letters" },
        ]}
      />
      <Receivers path={path} />
      <Locks entity={entity.path} path={path} />
    </>
  );
}

function Receivers({ path }: { path: string }) {
  const polled = usePoll((signal) => get<{ receivers: Receiver[] }>("receivers", { path }, signal), [path], INTERVAL_MS);
  const empty = (
    <Empty title="There are no receivers.">
      <p>Receivers are listed while their links are open. Without a receiver, messages stay in the queue.</p>
    </Empty>
  );
  return (
    <section>
      <h2>Receivers</h2>
      <PolledList what="receivers" polled={polled} rows={polled.data?.receivers} empty={empty}>
        {(receivers) => (
          <Table
            label="Receivers"
            head={
              <>
                <th scope="col">Receiver</th>
                <th scope="col">Mode</th>
                <th scope="col">Session</th>
                <th scope="col">Selector</th>
                <th scope="col" class="right">Credit</th>
              </>
            }
          >
            {receivers.map((receiver) => (
              <tr key={receiver.id}>
                <th scope="row">
                  <ReceiverLink id={receiver.id} />
                </th>
                <td>{receiver.mode.replace(/_/g, " ")}</td>
                <td>{receiver.session ?? "–"}</td>
                <td>{receiver.selector ? "yes" : "–"}</td>
                <td class="number right">{count(receiver.credit)}</td>
              </tr>
            ))}
          </Table>
        )}
      </PolledList>
    </section>
  );
}

/** Link to the connection of a receiver. */
function ReceiverLink({ id }: { id: string }) {
  return (
    <a href={`#/connections?search=${id}`} title="The connection of this receiver">
      {id}
    </a>
  );
}

function Locks({ entity, path }: { entity: string; path: string }) {
  const nowMs = useNowMs();
  const polled = usePoll((signal) => pages<Lock>("locks", { path }, "locks", LOCKS_MAX, signal), [path], INTERVAL_MS);
  const { data } = polled;
  const hasReceivers = data?.rows.some(({ receiver }) => receiver);
  const empty = (
    <Empty title="No message is locked.">
      <p>In peek-lock mode, a message is locked until its receiver settles it or the lock expires (LockDuration).</p>
    </Empty>
  );
  return (
    <section>
      <h2>Locks</h2>
      <PolledList what="locks" polled={polled} rows={data?.rows} empty={empty}>
        {(locks) => (
          <Table
            label="Locks"
            head={
              <>
                <th scope="col" class="right">Message</th>
                <th scope="col">Locked until</th>
                {hasReceivers && <th scope="col">Receiver</th>}
                <th scope="col">Session</th>
                <th scope="col">Token</th>
              </>
            }
          >
            {locks.map((lock) => (
              <tr key={lock.lock_token}>
                <th scope="row" class="number right">
                  <a data-row href={entityHref(entity, "messages", { from: lock.sequence_number, ...(path === entity ? {} : { queue: "dead" }) })}>
                    {lock.sequence_number}
                  </a>
                </th>
                <td class="number">
                  {clockTime(lock.locked_until)} ({relative(lock.locked_until, nowMs)})
                </td>
                {hasReceivers && <td>{lock.receiver ? <ReceiverLink id={lock.receiver} /> : "–"}</td>}
                <td>{lock.session ?? "–"}</td>
                <td class="code">{lock.lock_token}</td>
              </tr>
            ))}
          </Table>
        )}
      </PolledList>
      {data?.next && <p class="hint">Only the first {count(data.rows.length)} locks are shown.</p>}
    </section>
  );
}
