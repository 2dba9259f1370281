// One tree of queues, topics and their subscriptions, with counts and rates.

import { useEffect, useState } from "preact/hooks";
import { pages } from "../api.js";
import { count, rate, size, subscriptionOf } from "../format.js";
import { useDebounced, usePoll, useTitle } from "../parts/hooks.js";
import { MoreRows } from "../parts/polledlist.js";
import { currentRate, levels, record, recordLevel } from "../parts/rates.js";
import { Button, Empty, ErrorBox, Loading, Pill, Spark, StatusPill, Table } from "../parts/ui.js";
import { entityHref } from "../router.js";
import { STATES, type CountName, type Entity } from "../types.js";
import { CreateDialog } from "./create.js";

const INTERVAL_MS = 3000;
const PAGE = 100;
/** At most this many rows are refreshed automatically; the search finds the rest. */
const ROWS_MAX = 1000;

export function EntitiesScreen({ search: initial }: { search: string }) {
  useTitle("Entities");
  const [text, setText] = useState(initial);
  const [kind, setKind] = useState("");
  const [rows, setRows] = useState(PAGE);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [isCreating, setCreating] = useState(false);
  const search = useDebounced(text.trim());
  useEffect(() => setRows(PAGE), [search, kind]);
  const { data, error, reload } = usePoll(
    async (signal) => {
      const page = await pages<Entity>("entities", { search, kind, top: PAGE }, "entities", rows, signal);
      for (const entity of page.rows) {
        record(entity.path, entity.totals);
        recordLevel(entity.path, entity.counts.active);
      }
      return page;
    },
    [search, kind, rows],
    INTERVAL_MS,
  );
  const toggle = (topic: string) => {
    const next = new Set(closed);
    if (!next.delete(topic)) next.add(topic);
    setClosed(next);
  };
  const columns: Columns = {
    states: statesOf(data?.rows ?? []),
    hasRates: data?.rows.some(({ totals }) => totals) ?? false,
    hasReceivers: data?.rows.some(({ receivers }) => receivers !== undefined) ?? false,
  };
  const isFiltered = search !== "" || kind !== "";
  const topicsShown = new Set(data?.rows.filter((entity) => entity.kind === "topic").map(({ path }) => path));
  const shown = data?.rows.filter((entity) => isFiltered || !closed.has(topicOf(entity)));
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>Entities</h1>
        <Button kind="primary" onClick={() => setCreating(true)}>
          Create…
        </Button>
      </div>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input type="search" data-search aria-label="Search by name" placeholder="Search by name" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <select aria-label="Kind" value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="">All kinds</option>
          <option value="queue">Queues</option>
          <option value="topic">Topics</option>
          <option value="subscription">Subscriptions</option>
        </select>
      </form>
      <ErrorBox error={error} what="The entities can't be listed." onRetry={reload} />
      {!data && !error && <Loading what="entities" />}
      {shown?.length === 0 && (isFiltered ? <NoneFound clear={() => (setText(""), setKind(""))} /> : <NoneYet create={() => setCreating(true)} />)}
      {shown && shown.length > 0 && (
        <Table class="entities" label="Entities" head={<Head columns={columns} />}>
          {shown.map((entity) => (
            <Row
              key={entity.path}
              entity={entity}
              columns={columns}
              isIndented={topicsShown.has(topicOf(entity))}
              isOpen={isFiltered || !closed.has(entity.path)}
              toggle={isFiltered ? undefined : toggle}
            />
          ))}
        </Table>
      )}
      {data?.next && <MoreRows rows={data.rows.length} isAtMost={rows >= ROWS_MAX} more={() => setRows(rows + PAGE)} />}
      {isCreating && <CreateDialog onClose={() => setCreating(false)} onCreated={reload} />}
    </>
  );
}

/** Which optional columns are shown: those with a value in some row. */
interface Columns {
  states: readonly CountName[];
  hasRates: boolean;
  hasReceivers: boolean;
}

function statesOf(rows: Entity[]): readonly CountName[] {
  return STATES.filter((state) => rows.some(({ counts }) => (state === "quarantined" ? counts[state] : counts[state] !== undefined)));
}

function topicOf(entity: Entity): string {
  return entity.kind === "subscription" ? (entity.topic ?? subscriptionOf(entity.path)?.topic ?? "") : "";
}

const NoneFound = ({ clear }: { clear: () => void }) => (
  <Empty title="No entity matches.">
    <p>The search matches any part of the name and ignores case.</p>
    <Button onClick={clear}>Clear the search</Button>
  </Empty>
);

const NoneYet = ({ create }: { create: () => void }) => (
  <Empty title="There are no queues or topics yet.">
    <p>A queue delivers each message to one receiver. A topic copies each message to every subscription with a matching rule.</p>
    <Button kind="primary" onClick={create}>
      Create the first one…
    </Button>
  </Empty>
);

const HEADINGS: Record<(typeof STATES)[number], string> = {
  active: "Active",
  locked: "Locked",
  deferred: "Deferred",
  scheduled: "Scheduled",
  dead_lettered: "Dead",
  transfer_dead_lettered: "Transfer",
  quarantined: "Damaged",
};

function Head({ columns: { states, hasRates, hasReceivers } }: { columns: Columns }) {
  return (
    <>
      <th scope="col">Name</th>
      <th scope="col">Status</th>
      {states.map((state) => (
        <th scope="col" class="right" key={state}>
          {HEADINGS[state]}
        </th>
      ))}
      {hasRates && (
        <>
          <th scope="col" class="right">
            In /s
          </th>
          <th scope="col" class="right">
            Out /s
          </th>
        </>
      )}
      <th scope="col">Active, recent</th>
      <th scope="col" class="right">
        Size
      </th>
      {hasReceivers && (
        <th scope="col" class="right">
          Receivers
        </th>
      )}
    </>
  );
}

interface RowProps {
  entity: Entity;
  columns: Columns;
  isIndented: boolean;
  isOpen: boolean;
  toggle?: (topic: string) => void;
}

function Row({ entity, columns: { states, hasRates, hasReceivers }, isIndented, isOpen, toggle }: RowProps) {
  const { path, kind, counts } = entity;
  const name = isIndented ? (subscriptionOf(path)?.name ?? path) : path;
  return (
    <tr>
      <th scope="row" class={isIndented ? "indented" : ""}>
        {kind === "topic" && toggle && (
          <button type="button" class="twist" aria-expanded={isOpen} aria-label={`Subscriptions of ${path}`} onClick={() => toggle(path)}>
            {isOpen ? "▾" : "▸"}
          </button>
        )}
        <a href={entityHref(path)} data-row>
          {name}
        </a>{" "}
        <span class="kind">{kind}</span>
        {entity.requires_session && <Pill>sessions</Pill>}
        {entity.forward_to && <span class="kind">→ {entity.forward_to}</span>}
      </th>
      <td>
        <StatusPill status={entity.status} />
      </td>
      {states.map((state) => (
        <td key={state} class={`number right ${state.includes("dead") && counts[state] ? "alarming" : ""}`}>
          <CountLink path={path} state={state} value={counts[state]} />
        </td>
      ))}
      {hasRates && (
        <>
          <td class="number right">{rate(currentRate(path, "accepted"))}</td>
          <td class="number right">{rate(currentRate(path, "delivered"))}</td>
        </>
      )}
      <td>
        <Spark values={levels(path)} />
      </td>
      <td class="number right">{size(entity.size_bytes)}</td>
      {hasReceivers && <td class="number right">{count(entity.receivers)}</td>}
    </tr>
  );
}

/** A count that leads to its messages. */
function CountLink({ path, state, value }: { path: string; state: (typeof STATES)[number]; value: number | undefined }) {
  if (!value) return <span class="zero">{count(value)}</span>;
  const query: Record<string, string> =
    state === "dead_lettered" ? { queue: "dead" } : state === "transfer_dead_lettered" ? { queue: "transfer" } : state === "deferred" || state === "scheduled" ? { state } : {};
  return <a href={entityHref(path, "messages", query)}>{count(value)}</a>;
}
