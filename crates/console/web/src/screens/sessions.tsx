// Sessions that have messages, a state or a lock.

import { useMemo, useState } from "preact/hooks";
import { get, pages } from "../api.js";
import { clockTime, count, relative, size } from "../format.js";
import { fromBase64, hexDump, prettyJson } from "../parts/body.js";
import { useNowMs, usePoll } from "../parts/hooks.js";
import { PolledList } from "../parts/polledlist.js";
import { Button, Dialog, Empty, ErrorBox, Loading, Pill, Segments, Table } from "../parts/ui.js";
import { sqlText } from "../queues.js";
import { entityHref } from "../router.js";
import type { SessionRow, SessionState } from "../types.js";

const SESSIONS_MAX = 500;

export function SessionsTab({ path }: { path: string }) {
  const nowMs = useNowMs();
  const [shown, setShown] = useState<string | null>(null);
  const polled = usePoll((signal) => pages<SessionRow>("sessions", { path }, "sessions", SESSIONS_MAX, signal), [path], 2000);
  const { data } = polled;
  const empty = (
    <Empty title="There are no sessions.">
      <p>A session starts with the first message that has its session id, and exists while it has messages or a state.</p>
    </Empty>
  );
  return (
    <>
      <PolledList what="sessions" polled={polled} rows={data?.rows} empty={empty}>
        {(sessions) => (
          <Table
            label="Sessions"
            head={
              <>
                <th scope="col">Session</th>
                <th scope="col" class="right">Messages</th>
                <th scope="col">Lock</th>
                <th scope="col" class="right">State</th>
              </>
            }
          >
            {sessions.map((session) => (
              <tr key={session.id}>
                <th scope="row">
                  <a data-row href={entityHref(path, "messages", { where: `sys.SessionId = ${sqlText(session.id)}` })}>
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
                <td class="number right">
                  {session.state_bytes > 0 ? (
                    <Button aria-label={`${size(session.state_bytes)}: state of session ${session.id || "(empty id)"}`} onClick={() => setShown(session.id)}>
                      {size(session.state_bytes)}
                    </Button>
                  ) : (
                    "–"
                  )}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </PolledList>
      {data?.next && <p class="hint">Only the first {count(data.rows.length)} sessions are shown.</p>}
      {shown !== null && <StateDialog path={path} id={shown} onClose={() => setShown(null)} />}
    </>
  );
}

const SHOWN_BYTES = 65536;

/** The state that receivers stored with a session: opaque bytes, often JSON. */
function StateDialog({ path, id, onClose }: { path: string; id: string; onClose: () => void }) {
  const { data, error, reload } = usePoll((signal) => get<{ state: SessionState | null }>("session-state", { path, id }, signal), [path, id], 0);
  const state = data?.state;
  const json = useMemo(() => (state?.text ? prettyJson(state.text) : null), [state?.text]);
  const [chosen, setChosen] = useState<string | null>(null);
  const form = chosen ?? (json !== null ? "json" : typeof state?.text === "string" ? "text" : "hex");
  const text = () => {
    if (form === "text") return state?.text ?? "(not UTF-8 text; see Hex)";
    if (form === "json") return json ?? "(not JSON; see Text or Hex)";
    const bytes = fromBase64(state?.base64 ?? "");
    return hexDump(bytes.subarray(0, SHOWN_BYTES)) + (bytes.length > SHOWN_BYTES ? "\n…" : "");
  };
  return (
    <Dialog title={`State of session ${id || "(empty id)"}`} onClose={onClose} wide>
      <ErrorBox error={error} what="The state can't be read." onRetry={reload} />
      {!data && !error && <Loading what="the state" />}
      {data && !state && <p>The session no longer has a state.</p>}
      {state && (
        <>
          <div class="toolbar">
            <Segments
              label="State format"
              selected={form}
              onSelect={setChosen}
              choices={[
                { id: "text", label: "Text" },
                { id: "json", label: "JSON" },
                { id: "hex", label: "Hex" },
              ]}
            />
            <span class="hint number">{size(state.bytes)}</span>
          </div>
          <pre tabIndex={0} class="body">
            {text()}
          </pre>
        </>
      )}
    </Dialog>
  );
}
