// Tests which rules of a topic match a message, and which changes their actions make. Nothing is sent.

import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api.js";
import { count, subscriptionOf } from "../format.js";
import { DraftFields, draftOf, messageOf } from "../parts/draft.js";
import { useAction } from "../parts/hooks.js";
import { Button, Empty, ErrorBox, Pill, Table } from "../parts/ui.js";
import type { Rule, RuleResult } from "../types.js";

/** More results are not shown. */
const RESULTS_MAX = 2000;

export function TesterTab({ topic }: { topic: string }) {
  return (
    <>
      <h2>Which subscriptions would receive this message?</h2>
      <Tester topic={topic} />
    </>
  );
}

interface Props {
  topic: string;
  /** Show only results of this subscription. */
  subscription?: string;
  /** An unsaved rule, tested in place of the topic's rules. */
  rule?: () => { name: string; filter: unknown; action?: Rule["action"] };
}

export function Tester({ topic, subscription, rule }: Props) {
  const [draft, setDraft] = useState(() => draftOf(undefined));
  const [results, setResults] = useState<RuleResult[] | null>(null);
  const { busy, error, run } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      setResults(null);
      const body = { topic, message: messageOf(draft), ...(rule ? { rule: rule() } : {}) };
      const found: RuleResult[] = [];
      let from: string | null | undefined;
      do {
        const page: { results: RuleResult[]; next?: string | null } = await post("rules/test", {}, { ...body, ...(from ? { from } : {}) });
        found.push(...page.results);
        from = page.next;
      } while (from && found.length < RESULTS_MAX);
      const isShown = (result: RuleResult) => !subscription || subscriptionOf(result.subscription ?? "")?.name === subscription;
      setResults(found.filter(isShown));
    });
  };
  return (
    <form class="panel" onSubmit={submit} aria-label="Test message">
      <DraftFields draft={draft} onChange={setDraft} />
      <div class="actions">
        <Button type="submit" kind="primary" disabled={busy}>
          Test
        </Button>
        <span class="hint">The message is not sent.</span>
      </div>
      <ErrorBox error={error} what="Not tested." />
      {results && <Results results={results} />}
    </form>
  );
}

function Results({ results }: { results: RuleResult[] }) {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [results]);
  const hasSubscriptions = results.some(({ subscription }) => subscription);
  const matching = results.filter(({ matches }) => matches).length;
  if (results.length === 0) {
    return (
      <Empty title="There are no rules to test.">
        <p>A subscription without rules receives no messages.</p>
      </Empty>
    );
  }
  return (
    <>
      <p role="status">
        {count(matching)} of {count(results.length)} rules match.
      </p>
      <Table
        label="Results"
        head={
          <>
            {hasSubscriptions && <th scope="col">Subscription</th>}
            <th scope="col">Rule</th>
            <th scope="col">Result</th>
            <th scope="col">Changes by the action</th>
          </>
        }
      >
        {results.map((result) => (
          <tr key={`${result.subscription}/${result.rule}`}>
            {hasSubscriptions && <th scope="row">{subscriptionOf(result.subscription ?? "")?.name ?? "–"}</th>}
            <td>{result.rule}</td>
            <td>
              {result.error ? <Pill tone="bad">fails</Pill> : result.matches ? <Pill tone="good">matches</Pill> : <Pill>no match</Pill>}
              {result.error && <p class="wrap">{result.error}</p>}
            </td>
            <td class="wrap">{result.changed ? <Changed changed={result.changed} /> : "–"}</td>
          </tr>
        ))}
      </Table>
      <div ref={end} />
    </>
  );
}

function Changed({ changed }: { changed: Record<string, unknown> }) {
  const lines = Object.entries(changed).flatMap(([name, value]) =>
    name === "properties" && value !== null && typeof value === "object" ? Object.entries(value).map(([property, to]): [string, unknown] => [property, to]) : [[name, value] as [string, unknown]],
  );
  return (
    <ul class="plain">
      {lines.map(([name, value]) => (
        <li key={name}>
          <code>
            {name} = {shown(value)}
          </code>
        </li>
      ))}
    </ul>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "removed";
  const inner = typeof value === "object" && "value" in value ? (value as { value: unknown }).value : value;
  return JSON.stringify(inner);
}
