// Dead letters of all entities, grouped by reason.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError } from "../api.js";
import { count, relative } from "../format.js";
import { asApiError, brokerNowMs, useTitle } from "../parts/hooks.js";
import { JobDialog, type Job } from "../parts/job.js";
import { Button, Dialog, Empty, ErrorBox, Loading, Pill, Table } from "../parts/ui.js";
import { queuePath, sqlText } from "../queues.js";
import { entityHref } from "../router.js";
import type { DeadLetterGroup } from "../types.js";

interface Loaded {
  groups: DeadLetterGroup[];
  examined: number;
  isDone: boolean;
  error: ApiError | null;
}

const keyOf = (group: DeadLetterGroup) => JSON.stringify([group.path, group.queue, group.reason, group.description]);

/** Adds a page's groups to those of earlier pages, which may have the same ones. */
function merge(groups: DeadLetterGroup[], page: DeadLetterGroup[]): DeadLetterGroup[] {
  const merged = new Map(groups.map((group) => [keyOf(group), group]));
  for (const group of page) {
    const before = merged.get(keyOf(group));
    if (!before) {
      merged.set(keyOf(group), group);
      continue;
    }
    const times = [before.oldest_at, group.oldest_at, before.newest_at, group.newest_at].filter((at): at is string => Boolean(at)).sort();
    merged.set(keyOf(group), { ...before, count: before.count + group.count, oldest_at: times[0], newest_at: times.at(-1) });
  }
  return [...merged.values()];
}

function useGroups(): { loaded: Loaded; reload: () => void; stop: () => void } {
  const [loaded, setLoaded] = useState<Loaded>({ groups: [], examined: 0, isDone: false, error: null });
  const [round, setRound] = useState(0);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => {
    const own = new AbortController();
    abort.current = own;
    const run = async () => {
      let state: Loaded = { groups: [], examined: 0, isDone: false, error: null };
      let from: string | null = null;
      do {
        const page: { groups: DeadLetterGroup[]; examined: number; next: string | null } = await get("dead-letters", { from }, own.signal);
        from = page.next;
        state = { ...state, groups: merge(state.groups, page.groups), examined: state.examined + page.examined, isDone: from === null };
        setLoaded(state);
      } while (from !== null);
    };
    run().catch((reason: unknown) => setLoaded((before) => ({ ...before, isDone: true, error: own.signal.aborted ? null : asApiError(reason) })));
    return () => {
      own.abort();
    };
  }, [round]);
  return { loaded, reload: () => setRound((n) => n + 1), stop: () => abort.current?.abort() };
}

/** The filter that selects a group's messages. */
function whereOf({ reason, description }: DeadLetterGroup): string {
  const is = (name: string, value: string | null | undefined) => (value === null || value === undefined ? `${name} IS NULL` : `${name} = ${sqlText(value)}`);
  return `${is("DeadLetterReason", reason)} AND ${is("DeadLetterErrorDescription", description)}`;
}

const pathOf = (group: DeadLetterGroup) => queuePath(group.path, group.queue === "transfer" ? "transfer" : "dead");

export function DeadLettersScreen() {
  useTitle("Dead letters");
  const { loaded, reload, stop } = useGroups();
  const { groups, examined, isDone, error } = loaded;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<{ action: "resubmit" | "delete"; groups: DeadLetterGroup[] } | null>(null);
  const [job, setJob] = useState<Job | null>(null);
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const chosen = groups.filter((group) => selected.has(keyOf(group)));
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>Dead letters</h1>
        {total > 0 && <span class="kind number">{count(total)} messages</span>}
      </div>
      <div class="toolbar">
        <Button onClick={() => (setSelected(new Set()), reload())}>Refresh</Button>
        {groups.length > 0 && (
          <>
            <Button kind="primary" disabled={!isDone} onClick={() => setAsked({ action: "resubmit", groups: chosen.length > 0 ? chosen : groups })}>
              {chosen.length > 0 ? `Resubmit ${count(chosen.length)} selected…` : "Resubmit all…"}
            </Button>
            {chosen.length > 0 && (
              <Button kind="danger" onClick={() => setAsked({ action: "delete", groups: chosen })}>
                Delete {count(chosen.length)} selected…
              </Button>
            )}
          </>
        )}
        {!isDone && (
          <>
            <Loading what={`dead letters, ${count(examined)} examined`} />
            <Button onClick={stop}>Stop</Button>
          </>
        )}
      </div>
      <ErrorBox error={error} what="The dead letters can't be listed." onRetry={reload} />
      {isDone && !error && groups.length === 0 && (
        <Empty title="There are no dead letters.">
          <p>
            A message is dead-lettered when it was delivered MaxDeliveryCount times without being completed, when it expires (if
            DeadLetteringOnMessageExpiration is true), when its receiver dead-letters it, or when forwarding fails. Messages are listed here by reason;
            fix the cause, then resubmit them.
          </p>
        </Empty>
      )}
      {byReason(groups).map(([reason, of]) => (
        <ReasonTable
          key={reason}
          reason={reason}
          groups={of}
          selected={selected}
          onSelect={setSelected}
          onResubmit={(group) => setAsked({ action: "resubmit", groups: [group] })}
        />
      ))}
      {asked && (
        <ConfirmDialog
          action={asked.action}
          groups={asked.groups}
          onClose={() => setAsked(null)}
          onStart={(started) => {
            setAsked(null);
            setJob(started);
          }}
        />
      )}
      {job && (
        <JobDialog
          job={job}
          onClose={() => {
            setJob(null);
            setSelected(new Set());
            reload();
          }}
        />
      )}
    </>
  );
}

/** Groups of each reason, the reason with most messages first. */
function byReason(groups: DeadLetterGroup[]): [string, DeadLetterGroup[]][] {
  const reasons = new Map<string, DeadLetterGroup[]>();
  for (const group of groups) reasons.set(group.reason ?? "", [...(reasons.get(group.reason ?? "") ?? []), group]);
  const sum = (of: DeadLetterGroup[]) => of.reduce((total, group) => total + group.count, 0);
  return [...reasons].sort(([, one], [, other]) => sum(other) - sum(one));
}

interface ReasonProps {
  reason: string;
  groups: DeadLetterGroup[];
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  onResubmit: (group: DeadLetterGroup) => void;
}

function ReasonTable({ reason, groups, selected, onSelect, onResubmit }: ReasonProps) {
  const nowMs = brokerNowMs();
  const toggle = (keys: string[]) => {
    const next = new Set(selected);
    const isAll = keys.every((key) => next.has(key));
    for (const key of keys) isAll ? next.delete(key) : next.add(key);
    onSelect(next);
  };
  const keys = groups.map(keyOf);
  return (
    <section>
      <h2>
        <span class="clamped" title={reason}>{reason || "No reason"}</span> <span class="kind number">{count(groups.reduce((sum, group) => sum + group.count, 0))}</span>
      </h2>
      <Table
        label={`Dead letters with the reason ${reason || "(none)"}`}
        head={
          <>
            <th scope="col">
              <input type="checkbox" aria-label={`Select all with the reason ${reason || "(none)"}`} checked={keys.every((key) => selected.has(key))} onChange={() => toggle(keys)} />
            </th>
            <th scope="col">Entity</th>
            <th scope="col">Description</th>
            <th scope="col" class="right">Messages</th>
            <th scope="col">Oldest</th>
            <th scope="col">Newest</th>
            <th scope="col">
              <span class="hidden">Actions</span>
            </th>
          </>
        }
      >
        {groups.map((group) => {
          const key = keyOf(group);
          const query = { queue: group.queue === "transfer" ? "transfer" : "dead", where: whereOf(group) };
          return (
            <tr key={key}>
              <td>
                <input type="checkbox" aria-label={`Select ${group.path}, ${group.description ?? "no description"}`} checked={selected.has(key)} onChange={() => toggle([key])} />
              </td>
              <th scope="row">
                <a data-row href={entityHref(group.path, "messages", query)}>
                  {group.path}
                </a>{" "}
                {group.queue === "transfer" && <Pill tone="warn">transfer</Pill>}
              </th>
              <td class="wrap">
                <span class="clamped" title={group.description ?? undefined}>{group.description ?? "–"}</span>
              </td>
              <td class="number right">{count(group.count)}</td>
              <td class="number">{relative(group.oldest_at, nowMs)}</td>
              <td class="number">{relative(group.newest_at, nowMs)}</td>
              <td>
                <Button kind="plain" onClick={() => onResubmit(group)} aria-label={`Resubmit ${count(group.count)} of ${group.path}`}>
                  Resubmit…
                </Button>
              </td>
            </tr>
          );
        })}
      </Table>
    </section>
  );
}

interface ConfirmProps {
  action: "resubmit" | "delete";
  groups: DeadLetterGroup[];
  onClose: () => void;
  onStart: (job: Job) => void;
}

function ConfirmDialog({ action, groups, onClose, onStart }: ConfirmProps) {
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const isDelete = action === "delete";
  const title = `${isDelete ? "Delete" : "Resubmit"} ${count(total)} ${total === 1 ? "message" : "messages"}`;
  const start = () =>
    onStart({
      title,
      done: isDelete ? "deleted" : "resubmitted",
      expected: total,
      untilNow: true,
      steps: groups.map((group) => ({ path: pathOf(group), request: { action, where: whereOf(group), state: "any" } })),
    });
  return (
    <Dialog title={title} onClose={onClose}>
      <p>
        {isDelete
          ? "Deleted messages can't be recovered."
          : "Each message is sent again to its queue, or to its subscription's topic, with the same body and properties, and is removed from the dead-letter queue in the same step. A topic copies it to every subscription with a matching rule. If the cause is not fixed, the messages will be dead-lettered again."}
      </p>
      <ul>
        {groups.slice(0, 20).map((group) => (
          <li key={keyOf(group)}>
            <span class="number">{count(group.count)}</span> of {group.path}: {group.reason ?? "no reason"}
          </li>
        ))}
      </ul>
      {groups.length > 20 && <p>and {count(groups.length - 20)} more groups</p>}
      <div class="actions">
        <Button kind={isDelete ? "danger" : "primary"} onClick={start}>
          {isDelete ? "Delete" : "Resubmit"}
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  );
}
