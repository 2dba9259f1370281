// Counts, rates, memory and storage of the namespace.

import { useRef } from "preact/hooks";
import { get } from "../api.js";
import { NONE, clockTime, count, named, rate, size, span, title } from "../format.js";
import { noteBrokerTime, usePoll, useTitle } from "../parts/hooks.js";
import { currentRate, levels, rates, record, recordLevel } from "../parts/rates.js";
import { Empty, ErrorBox, Facts, Loading, Pill, Spark, Table } from "../parts/ui.js";
import { STATES, STATE_NAMES, type CountName, type LogLine, type Overview, type Session, type StateMemory as State, type Totals } from "../types.js";

const INTERVAL_MS = 2000;
const NAMESPACE = "";
const PROBLEMS_SHOWN = 5;

const LEVELS: { state: CountName; tone: "in" | "out" }[] = [
  { state: "active", tone: "in" },
  { state: "scheduled", tone: "in" },
  { state: "dead_lettered", tone: "out" },
];
const RATES: { total: keyof Totals; label: string; tone: "in" | "out" }[] = [
  { total: "accepted", label: "Sent", tone: "in" },
  { total: "delivered", label: "Delivered", tone: "out" },
  { total: "completed", label: "Completed", tone: "out" },
  { total: "dead_lettered", label: "Dead-lettered", tone: "in" },
];

export function OverviewScreen({ session }: { session: Session }) {
  useTitle("Overview");
  const { data, error, reload } = usePoll(
    async (signal) => {
      const overview = await get<Overview>("overview", {}, signal);
      noteBrokerTime(overview.now);
      record(NAMESPACE, overview.totals);
      for (const { state } of LEVELS) recordLevel(state, overview.messages[state]);
      return overview;
    },
    [],
    INTERVAL_MS,
  );
  return (
    <>
      <h1 tabIndex={-1}>Overview</h1>
      <ErrorBox error={error} what="The overview can't be read." onRetry={reload} />
      {!data && !error && <Loading what="the overview" />}
      {data && <Contents overview={data} session={session} />}
    </>
  );
}

function Contents({ overview, session }: { overview: Overview; session: Session }) {
  const { entities, messages, totals } = overview;
  const dead = (messages.dead_lettered ?? 0) + (messages.transfer_dead_lettered ?? 0);
  const isEmpty = entities.queues + entities.topics === 0;
  return (
    <>
      <Damage damage={overview.damage} />
      {isEmpty && (
        <Empty title="There are no queues or topics yet.">
          <p>
            Create one under <a href="#/entities">Entities</a>, declare it in the configuration file, or use an administration client.
          </p>
        </Empty>
      )}
      <section aria-labelledby="trends" class="tiles">
        <h2 id="trends" class="hidden">
          Recent counts
        </h2>
        {LEVELS.map(({ state, tone }) => (
          <div class="tile" key={state}>
            <p class="tile-name">{STATE_NAMES[state]} messages</p>
            <p class="tile-value number">{count(messages[state])}</p>
            <Spark values={levels(state)} tone={tone} />
          </div>
        ))}
      </section>
      {totals && (
        <section aria-labelledby="rates" class="tiles">
          <h2 id="rates" class="hidden">
            Rates
          </h2>
          {RATES.map(({ total, label, tone }) => (
            <div class="tile" key={total}>
              <p class="tile-name">{label}</p>
              <p class="tile-value number">
                {rate(currentRate(NAMESPACE, total))}
                <span class="unit"> /s</span>
              </p>
              <Spark values={rates(NAMESPACE, total)} tone={tone} />
              <p class="hint number">{count(totals[total])} since start</p>
            </div>
          ))}
        </section>
      )}
      <div class="columns">
        <section class="panel" aria-labelledby="states">
          <h2 id="states">Messages</h2>
          <Facts facts={[...STATES.filter((state) => messages[state] !== undefined && (messages[state] > 0 || state !== "quarantined")).map((state): [string, preact.ComponentChildren] => [STATE_NAMES[state], <span class="number">{count(messages[state])}</span>]), ["Oldest available", <span class="number">{typeof overview.oldest_message_age_ms === "number" ? span(overview.oldest_message_age_ms) : NONE}</span>], ["Size", <span class="number">{size(overview.size_bytes)}</span>]]} />
          {dead > 0 && (
            <p>
              <a href="#/dead-letters">Find out why {count(dead)} {dead === 1 ? "message is" : "messages are"} dead-lettered</a>
            </p>
          )}
        </section>
        <section class="panel" aria-labelledby="holds">
          <h2 id="holds">Namespace</h2>
          <Facts
            facts={[
              ["Queues", <a href="#/entities" class="number">{count(entities.queues)}</a>],
              ["Topics", <a href="#/entities" class="number">{count(entities.topics)}</a>],
              ["Subscriptions", <a href="#/entities" class="number">{count(entities.subscriptions)}</a>],
              ["AMQP connections", <a href="#/connections" class="number">{count(overview.connections)}</a>],
              ["Uptime", <span class="number">{span(overview.uptime_ms)}</span>],
              ["Version", overview.version],
              ["Tier", session.tier],
            ]}
          />
        </section>
        <Memory memory={overview.memory} />
        <Storage storage={overview.storage} />
      </div>
      <Problems />
    </>
  );
}

function isDamaged(damage: unknown): boolean {
  if (!damage) return false;
  if (Array.isArray(damage)) return damage.length > 0;
  if (typeof damage === "object") return Object.values(damage).some(isDamaged);
  return damage !== "none";
}

function Damage({ damage }: { damage: unknown }) {
  if (!isDamaged(damage)) return null;
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>Stored data is damaged.</strong> Other messages and entities are not affected. Stop the broker and run{" "}
        <code>peeklock store salvage</code>.
      </p>
      <pre>{typeof damage === "string" ? damage : JSON.stringify(damage, null, 1)}</pre>
    </div>
  );
}

function Memory({ memory }: { memory: Overview["memory"] }) {
  if (!memory) return null;
  const used = Object.entries(memory.used ?? {});
  const total = used.reduce((sum, [, value]) => sum + value, 0);
  return (
    <section class="panel" aria-labelledby="memory">
      <h2 id="memory">Memory used by clients</h2>
      {memory.limit_bytes ? (
        <>
          <meter aria-labelledby="memory" min={0} max={memory.limit_bytes} high={memory.limit_bytes * 0.8} value={total} />
          <p class="hint number">
            {size(total)} of {size(memory.limit_bytes)}
          </p>
        </>
      ) : (
        <p class="hint number">{size(total)}, no limit</p>
      )}
      <Facts facts={used.map(([owner, value]) => [title(owner), <span class="number">{size(value)}</span>])} />
      {memory.state && <StateMemory state={memory.state} />}
    </section>
  );
}

function StateMemory({ state }: { state: State }) {
  return (
    <>
      <h3 id="state-memory">Memory used by stored messages</h3>
      <meter aria-labelledby="state-memory" min={0} max={state.limit_bytes} high={state.limit_bytes * 0.8} value={state.used_bytes} />
      <p class="hint number">
        {size(state.used_bytes)} of {size(state.limit_bytes)}
      </p>
      {state.pressure === "full" && <p>Sends are refused until messages are received or deleted, or the limit is raised.</p>}
    </>
  );
}

function Storage({ storage }: { storage: Overview["storage"] }) {
  if (!storage) return null;
  const { pressure, ...rest } = storage;
  const isCalm = pressure === undefined || pressure === null || /^(none|low|normal|ok|false|0)$/i.test(String(pressure));
  return (
    <section class="panel" aria-labelledby="storage">
      <h2 id="storage">Storage</h2>
      {pressure !== undefined && (
        <p>
          Pressure: <Pill tone={isCalm ? "good" : "bad"}>{named("pressure", pressure)}</Pill>
        </p>
      )}
      {!isCalm && <p>Sends may be refused. Free disk space, or receive or delete messages.</p>}
      <Facts facts={Object.entries(rest).map(([name, value]) => [title(name), <span class="number">{named(name, value)}</span>])} />
    </section>
  );
}

function Problems() {
  const seen = useRef<{ after: string | null; problems: LogLine[] }>({ after: null, problems: [] });
  const { data } = usePoll(
    async (signal) => {
      let next: string | null = null;
      do {
        const page: { lines: LogLine[]; next: string | null } = await get("log", { kind: "log", after: seen.current.after }, signal);
        const problems = [...seen.current.problems, ...page.lines.filter(({ level }) => /^(warn|error)/i.test(level))];
        seen.current = { after: String(page.lines.at(-1)?.id ?? seen.current.after ?? ""), problems: problems.slice(-PROBLEMS_SHOWN) };
        next = page.next;
      } while (next !== null);
      return [...seen.current.problems].reverse();
    },
    [],
    10_000,
  );
  if (!data || data.length === 0) return null;
  return (
    <section>
      <h2>Latest warnings and errors</h2>
      <Table
        label="Latest warnings and errors"
        head={
          <>
            <th scope="col">Time (UTC)</th>
            <th scope="col">Level</th>
            <th scope="col">Message</th>
          </>
        }
      >
        {data.map((line) => (
          <tr key={line.id}>
            <td class="number">{clockTime(line.at)}</td>
            <td>
              <Pill tone={/^error/i.test(line.level) ? "bad" : "warn"}>{line.level}</Pill>
            </td>
            <td class="wrap">{line.message}</td>
          </tr>
        ))}
      </Table>
      <p>
        <a href="#/log">Full log</a>
      </p>
    </section>
  );
}
