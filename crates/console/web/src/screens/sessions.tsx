// Sessions with messages, a state or a holder.

import { pages } from "../api.js";
import { clockTime, count, relative, size } from "../format.js";
import { useNowMs, usePoll } from "../parts/hooks.js";
import { Empty, ErrorBox, Loading, Pill, Table } from "../parts/ui.js";
import { entityHref } from "../router.js";
import type { SessionRow } from "../types.js";

const SESSIONS_MAX = 500;

export function SessionsTab({ path }: { path: string }) {
  const nowMs = useNowMs();
  const { data, error, reload } = usePoll((signal) => pages<SessionRow>("sessions", { path }, "sessions", SESSIONS_MAX, signal), [path], 2000);
  return (
    <>
      <ErrorBox error={error} what="The sessions can't be listed." onRetry={reload} />
      {!data && !error && <Loading what="sessions" />}
      {data?.rows.length === 0 && (
        <Empty title="There are no sessions.">
          <p>A session begins with the first message that has its session id, and ends when it has neither messages nor a state.</p>
        </Empty>
      )}
      {data && data.rows.length > 0 && (
        <Table
          label="Sessions"
          head={
            <>
              <th scope="col">Session</th>
              <th scope="col" class="right">Messages</th>
              <th scope="col">Held</th>
              <th scope="col" class="right">State</th>
            </>
          }
        >
          {data.rows.map((session) => (
            <tr key={session.id}>
              <th scope="row">
                <a data-row href={entityHref(path, "messages", { where: `sys.SessionId = '${session.id.replace(/'/g, "''")}'` })}>
                  {session.id || "(empty id)"}
                </a>
              </th>
              <td class="number right">{count(session.messages)}</td>
              <td class="number">
                {session.locked_until ? (
                  <>
                    <Pill tone="info">locked</Pill> until {clockTime(session.locked_until)} ({relative(session.locked_until, nowMs)})
                  </>
                ) : (
                  "–"
                )}
              </td>
              <td class="number right">{session.state_bytes > 0 ? size(session.state_bytes) : "–"}</td>
            </tr>
          ))}
        </Table>
      )}
      {data?.next && <p class="hint">The first {count(data.rows.length)} sessions.</p>}
    </>
  );
}
