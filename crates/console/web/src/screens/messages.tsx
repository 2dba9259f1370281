// Messages of a queue or subscription in every state, with a filter.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError } from "../api.js";
import { count, size, time } from "../format.js";
import { asApiError } from "../parts/hooks.js";
import { JobDialog, type Job } from "../parts/job.js";
import { Button, Empty, ErrorBox, Loading, Pill, Segments, Table } from "../parts/ui.js";
import { preview, queueName, queuePath, sendTarget, type QueueName } from "../queues.js";
import { entityHref, navigate } from "../router.js";
import type { EntityDetail, Message } from "../types.js";
import { ActDialog, type ActRequest } from "./act.js";
import { ComposeDialog } from "./compose.js";
import { MessageDialog } from "./message.js";

const PER_PAGE = 50;
/** A search that finds too little pauses after this many requests of at most 1,000 messages. */
const REQUESTS_MAX = 25;

interface Page {
  messages: Message[];
  examined: number;
  /** Messages for which the filter could not be evaluated. */
  failed?: number;
  next: string | null;
}

interface Listing {
  rows: Message[];
  examined: number;
  failed: number;
  next: string | null;
  isLoading: boolean;
  error: ApiError | null;
}

const NOTHING: Listing = { rows: [], examined: 0, failed: 0, next: null, isLoading: true, error: null };

function useMessages(query: Record<string, string>): { listing: Listing; more: () => void; reload: () => void; stop: () => void } {
  const [listing, setListing] = useState(NOTHING);
  const abort = useRef<AbortController | null>(null);
  const load = async (before: Listing, from: string | null) => {
    abort.current?.abort();
    const own = new AbortController();
    abort.current = own;
    let state: Listing = { ...before, isLoading: true, error: null };
    const show = (change: Partial<Listing>) => {
      state = { ...state, ...change };
      setListing(state);
    };
    show({});
    let next = from;
    const wanted = state.rows.length + PER_PAGE;
    try {
      for (let requests = 0; requests < REQUESTS_MAX; requests++) {
        const page: Page = await get("messages", { ...query, ...(next ? { from: next } : {}), top: PER_PAGE }, own.signal);
        next = page.next;
        show({ rows: [...state.rows, ...page.messages], examined: state.examined + page.examined, failed: state.failed + (page.failed ?? 0), next });
        if (next === null || state.rows.length >= wanted) break;
      }
      show({ isLoading: false });
    } catch (reason) {
      if (own.signal.aborted) {
        if (abort.current === own) show({ isLoading: false });
      } else show({ isLoading: false, error: asApiError(reason) });
    }
  };
  const reload = () => void load(NOTHING, null);
  useEffect(() => {
    reload();
    return () => {
      const own = abort.current;
      abort.current = null;
      own?.abort();
    };
  }, []);
  return { listing, more: () => void load(listing, listing.next), reload, stop: () => abort.current?.abort() };
}

/** Query of the route: `queue`, `state`, `from`, `where`. The component is mounted again when it changes. */
export function MessagesTab({ entity, query, changed }: { entity: EntityDetail; query: URLSearchParams; changed: () => void }) {
  const queue = queueName(query.get("queue"));
  const path = queuePath(entity.path, queue);
  const where = query.get("where") ?? "";
  const state = query.get("state") ?? "any";
  const first = query.get("from") ?? "";
  const { listing, more, reload, stop } = useMessages({ path, state, where, from: first });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<Message | null>(null);
  const [composing, setComposing] = useState<{ message?: Message } | null>(null);
  const [acting, setActing] = useState<ActRequest | null>(null);
  const [job, setJob] = useState<Job | null>(null);
  const go = (change: Record<string, string>) => navigate(entityHref(entity.path, "messages", { queue, state: state === "any" ? "" : state, where, from: first, ...change }));
  const acted = state !== "any" ? state : entity.kind === "topic" && queue === "" ? "scheduled" : "active";
  const act = (action: ActRequest["action"], messages?: string[]) => setActing({ action, path, queue, where, state: acted, messages });
  const refresh = () => {
    setSelected(new Set());
    reload();
    changed();
  };
  return (
    <>
      <Queues entity={entity} queue={queue} onSelect={(next) => navigate(entityHref(entity.path, "messages", { queue: next }))} />
      <Filters queue={queue} isTopic={entity.kind === "topic"} state={state} where={where} from={first} onApply={go} />
      <div class="toolbar">
        <Button kind="primary" onClick={() => setComposing({})}>
          Send…
        </Button>
        <Button onClick={refresh}>Refresh</Button>
        {queue !== "" && <Button onClick={() => act("resubmit")}>Resubmit all…</Button>}
        <Button onClick={() => act("move")}>Move all…</Button>
        <Button onClick={() => act("delete")}>Purge…</Button>
        {selected.size > 0 && <Selection queue={queue} count={selected.size} act={(action) => act(action, [...selected])} clear={() => setSelected(new Set())} />}
      </div>
      <ErrorBox error={listing.error} what="The messages can't be listed." onRetry={reload} />
      {listing.rows.length > 0 && (
        <MessageTable rows={listing.rows} isDead={queue !== ""} selected={selected} onSelect={setSelected} onOpen={setOpened} />
      )}
      <Rest listing={listing} isFiltered={where !== "" || state !== "any"} queue={queue} more={more} stop={stop} />
      {opened && (
        <MessageDialog
          entity={entity}
          queue={queue}
          message={opened}
          onClose={() => setOpened(null)}
          onAct={(action) => act(action, [opened.sequence_number])}
          onEdit={(message) => setComposing({ message })}
        />
      )}
      {composing && (
        <ComposeDialog target={sendTarget(entity)} message={composing.message} requiresSession={entity.requires_session ?? false} onClose={() => setComposing(null)} onSent={refresh} />
      )}
      {acting && (
        <ActDialog
          request={acting}
          listed={listing.next === null ? listing.rows.length : undefined}
          onClose={() => setActing(null)}
          onStart={(started) => {
            setActing(null);
            setOpened(null);
            setJob(started);
          }}
        />
      )}
      {job && (
        <JobDialog
          job={job}
          onClose={() => {
            setJob(null);
            refresh();
          }}
        />
      )}
    </>
  );
}

function Queues({ entity, queue, onSelect }: { entity: EntityDetail; queue: QueueName; onSelect: (queue: QueueName) => void }) {
  const { counts } = entity;
  // Without the right Manage, the counts are unknown.
  const label = (name: string, number: number | undefined) => (number === undefined ? name : `${name} ${count(number)}`);
  const own = counts.active === undefined ? undefined : counts.active + (counts.scheduled ?? 0);
  const isTopic = entity.kind === "topic";
  const choices = [{ id: "", label: label(isTopic ? "Scheduled" : "Messages", own) }];
  if (!isTopic) choices.push({ id: "dead", label: label("Dead letters", counts.dead_lettered) });
  if (counts.transfer_dead_lettered || queue === "transfer") choices.push({ id: "transfer", label: `Transfer dead letters ${count(counts.transfer_dead_lettered)}` });
  // A topic mostly has its scheduled messages only.
  if (choices.length === 1) return null;
  return <Segments label="Queue" selected={queue} onSelect={(id) => onSelect(queueName(id))} choices={choices} />;
}

interface FiltersProps {
  queue: QueueName;
  isTopic: boolean;
  state: string;
  where: string;
  from: string;
  onApply: (change: Record<string, string>) => void;
}

function Filters({ queue, isTopic, state, where, from, onApply }: FiltersProps) {
  const [sql, setSql] = useState(where);
  const [first, setFirst] = useState(from);
  const submit = (event: Event) => {
    event.preventDefault();
    onApply({ where: sql.trim(), from: first.trim() });
  };
  return (
    <form class="filters" role="search" onSubmit={submit}>
      {queue === "" && !isTopic && (
        <select aria-label="State" value={state} onChange={(event) => onApply({ state: event.currentTarget.value === "any" ? "" : event.currentTarget.value })}>
          <option value="any">Any state</option>
          <option value="active">Active</option>
          <option value="deferred">Deferred</option>
          <option value="scheduled">Scheduled</option>
        </select>
      )}
      <input
        class="grow code"
        type="search"
        data-search
        aria-label="SQL filter"
        placeholder="SQL filter: sys.Label = 'order' AND amount > 5"
        spellcheck={false}
        value={sql}
        onInput={(event) => setSql(event.currentTarget.value)}
      />
      <input class="narrow" aria-label="From sequence number" placeholder="From number" inputMode="numeric" value={first} onInput={(event) => setFirst(event.currentTarget.value)} />
      <Button type="submit">Filter</Button>
    </form>
  );
}

interface SelectionProps {
  queue: QueueName;
  count: number;
  act: (action: ActRequest["action"]) => void;
  clear: () => void;
}

function Selection({ queue, count: selected, act, clear }: SelectionProps) {
  return (
    <span class="selection" role="group" aria-label="Selected messages">
      <strong class="number">{count(selected)} selected:</strong>
      {queue === "" ? (
        <>
          <Button onClick={() => act("undefer")}>Undefer…</Button>
          <Button onClick={() => act("dead_letter")}>Dead-letter…</Button>
        </>
      ) : (
        <Button onClick={() => act("resubmit")}>Resubmit…</Button>
      )}
      <Button onClick={() => act("move")}>Move…</Button>
      <Button kind="danger" onClick={() => act("delete")}>
        Delete…
      </Button>
      <Button kind="plain" onClick={clear}>
        Clear
      </Button>
    </span>
  );
}

interface TableProps {
  rows: Message[];
  isDead: boolean;
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  onOpen: (message: Message) => void;
}

function MessageTable({ rows, isDead, selected, onSelect, onOpen }: TableProps) {
  const toggle = (number: string) => {
    const next = new Set(selected);
    if (!next.delete(number)) next.add(number);
    onSelect(next);
  };
  const isAll = rows.every(({ sequence_number }) => selected.has(sequence_number));
  return (
    <Table
      label="Messages"
      class="messages"
      head={
        <>
          <th scope="col">
            <input type="checkbox" aria-label="Select all shown" checked={isAll} onChange={() => onSelect(isAll ? new Set() : new Set(rows.map((row) => row.sequence_number)))} />
          </th>
          <th scope="col" class="right">
            Number
          </th>
          <th scope="col">{isDead ? "Reason" : "State"}</th>
          <th scope="col">Enqueued (UTC)</th>
          <th scope="col">Message id</th>
          <th scope="col">Subject</th>
          <th scope="col">Body</th>
          <th scope="col" class="right">
            Deliveries
          </th>
          <th scope="col" class="right">
            Size
          </th>
        </>
      }
    >
      {rows.map((message) => {
        const number = message.sequence_number;
        return (
          <tr key={number} onDblClick={() => onOpen(message)}>
            <td>
              <input type="checkbox" aria-label={`Select message ${number}`} checked={selected.has(number)} onChange={() => toggle(number)} />
            </td>
            <th scope="row" class="number right">
              <button type="button" class="link" data-row aria-label={`Open message ${number}`} onClick={() => onOpen(message)}>
                {number}
              </button>
            </th>
            <td class="cut">{isDead ? (message.dead_letter?.reason ?? "–") : <StateOf message={message} />}</td>
            <td class="number">{time(message.enqueued_at)}</td>
            <td class="cut">{message.message_id ?? "–"}</td>
            <td class="cut">{message.subject ?? "–"}</td>
            <td class="cut preview">{preview(message)}</td>
            <td class="number right">{count(message.delivery_count)}</td>
            <td class="number right">{size(message.size_bytes)}</td>
          </tr>
        );
      })}
    </Table>
  );
}

export function StateOf({ message }: { message: Message }) {
  const tone = message.state === "active" ? "none" : "info";
  return (
    <>
      <Pill tone={tone}>{message.state}</Pill>
      {message.locked_until && (
        <>
          {" "}
          <Pill tone="warn">locked</Pill>
        </>
      )}
    </>
  );
}

interface RestProps {
  listing: Listing;
  isFiltered: boolean;
  queue: QueueName;
  more: () => void;
  stop: () => void;
}

function Rest({ listing, isFiltered, queue, more, stop }: RestProps) {
  const { rows, examined, next, isLoading, error } = listing;
  if (error) return null;
  if (isLoading) {
    return (
      <p class="toolbar">
        <Loading what={examined > 0 ? `messages, ${count(examined)} examined` : "messages"} />
        {examined > 0 && <Button onClick={stop}>Stop</Button>}
      </p>
    );
  }
  if (next !== null) {
    return (
      <p class="toolbar">
        <Button onClick={more}>{rows.length === 0 ? "Search further" : "Show more"}</Button>
        <span class="hint">
          {rows.length === 0 ? `No match in the first ${count(examined)} messages.` : `${count(rows.length)} shown${isFiltered ? `, ${count(examined)} examined` : ""}.`}
        </span>
      </p>
    );
  }
  const failed = listing.failed > 0 && ` The filter could not be evaluated for ${count(listing.failed)} messages.`;
  if (rows.length > 0) {
    return (
      <p class="hint">
        {count(rows.length)} {rows.length === 1 ? "message" : "messages"}.{failed}
      </p>
    );
  }
  if (isFiltered) {
    return (
      <Empty title="No messages match.">
        <p>
          Names without a prefix are application properties; <code>sys.</code> marks system properties, such as <code>sys.Label</code> or{" "}
          <code>sys.MessageId</code>. A comparison with a missing property is never true, not even with &lt;&gt;.{failed}
        </p>
      </Empty>
    );
  }
  return queue === "" ? (
    <Empty title="There are no messages here.">
      <p>Messages are listed here until they are completed: active, locked, deferred or scheduled.</p>
    </Empty>
  ) : (
    <Empty title="There are no dead letters here.">
      <p>A message is dead-lettered when it exceeds MaxDeliveryCount, expires (if DeadLetteringOnMessageExpiration is true), or is dead-lettered by its receiver.</p>
    </Empty>
  );
}
