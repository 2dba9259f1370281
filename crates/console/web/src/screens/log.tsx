// The log and the audit log, live.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError } from "../api.js";
import { clockTime, count } from "../format.js";
import { asApiError, useTitle } from "../parts/hooks.js";
import { Button, Empty, ErrorBox, Pill, Table, TabLinks } from "../parts/ui.js";
import type { LogLine } from "../types.js";

const INTERVAL_MS = 1500;
const LINES_MAX = 2000;
const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

function useLines(kind: string, isPaused: boolean): { lines: LogLine[]; error: ApiError | null; isLoaded: boolean } {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [isLoaded, setLoaded] = useState(false);
  const after = useRef<string | null>(null);
  useEffect(() => {
    if (isPaused) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async () => {
      try {
        for (;;) {
          const page: { lines: LogLine[]; next: string | null } = await get("log", { kind, after: after.current }, abort.signal);
          const last = page.lines.at(-1);
          if (last) after.current = String(last.id);
          if (page.lines.length > 0) setLines((before) => [...before, ...page.lines].slice(-LINES_MAX));
          setError(null);
          setLoaded(true);
          if (!page.next || page.lines.length === 0) break;
        }
      } catch (reason) {
        if (abort.signal.aborted) return;
        setError(asApiError(reason));
      }
      if (!abort.signal.aborted) timer = setTimeout(() => void poll(), INTERVAL_MS);
    };
    void poll();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [kind, isPaused]);
  return { lines, error, isLoaded };
}

export function LogScreen({ kind }: { kind: "log" | "audit" }) {
  useTitle(kind === "audit" ? "Audit" : "Log");
  const [isPaused, setPaused] = useState(false);
  const [search, setSearch] = useState("");
  const [level, setLevel] = useState("TRACE");
  const { lines, error, isLoaded } = useLines(kind, isPaused);
  const text = search.trim().toLowerCase();
  const shown = lines
    .filter((line) => LEVELS.indexOf(line.level.toUpperCase()) <= LEVELS.indexOf(level))
    .filter((line) => text === "" || JSON.stringify(line).toLowerCase().includes(text))
    .reverse();
  return (
    <>
      <h1 tabIndex={-1}>{kind === "audit" ? "Audit" : "Log"}</h1>
      <TabLinks
        label="Kind of log"
        selected={kind}
        choices={[
          { id: "log", label: "Log" },
          { id: "audit", label: "Audit" },
        ]}
        href={(id) => (id === "audit" ? "#/log/audit" : "#/log")}
      />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input type="search" data-search aria-label="Search lines" placeholder="Search lines" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        {kind === "log" && (
          <select aria-label="Minimum level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="TRACE">All levels</option>
            <option value="INFO">Info and above</option>
            <option value="WARN">Warnings and errors</option>
            <option value="ERROR">Errors</option>
          </select>
        )}
        <Button aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Resume" : "Pause"}
        </Button>
        <span class="hint number">{isPaused ? "Paused" : `${count(lines.length)} lines, newest first`}</span>
      </form>
      <ErrorBox error={error} what="The log can't be read." />
      {isLoaded && shown.length === 0 && <NoLines kind={kind} isFiltered={lines.length > 0} />}
      {shown.length > 0 && <Lines kind={kind} lines={shown} />}
    </>
  );
}

function NoLines({ kind, isFiltered }: { kind: string; isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No lines match." />;
  return kind === "audit" ? (
    <Empty title="No administrative changes since the broker started.">
      <p>Creations, changes and deletions of entities and rules are listed here, each with its principal and address.</p>
    </Empty>
  ) : (
    <Empty title="The log is empty." />
  );
}

function tone(level: string) {
  return /^error/i.test(level) ? "bad" : /^warn/i.test(level) ? "warn" : "none";
}

function Lines({ kind, lines }: { kind: string; lines: LogLine[] }) {
  return (
    <Table
      label={kind === "audit" ? "Audit" : "Log"}
      class="log"
      head={
        <>
          <th scope="col">Time (UTC)</th>
          {kind === "log" && <th scope="col">Level</th>}
          <th scope="col">Message</th>
          <th scope="col">Details</th>
        </>
      }
    >
      {lines.map((line) => (
        <tr key={line.id}>
          <td class="number" title={line.at}>
            {clockTime(line.at)}
          </td>
          {kind === "log" && (
            <td>
              <Pill tone={tone(line.level)}>{line.level.toUpperCase()}</Pill>
            </td>
          )}
          <td class="wrap">{line.message}</td>
          <td class="wrap details">
            {Object.entries(line.fields ?? {}).map(([name, value]) => (
              <span key={name}>
                <span class="kind">{name}</span> {typeof value === "string" ? value : JSON.stringify(value)}
              </span>
            ))}
          </td>
        </tr>
      ))}
    </Table>
  );
}
