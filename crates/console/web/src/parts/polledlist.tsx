// A list that is polled: its error, its loading, its empty state or its rows.

import type { ComponentChildren } from "preact";
import { count } from "../format.js";
import type { Polled } from "./hooks.js";
import { Button, ErrorBox, Loading } from "./ui.js";

interface Props<T> {
  /** Plural of what is listed, such as "receivers". */
  what: string;
  polled: Polled<unknown>;
  /** Missing until the first load has succeeded. */
  rows: T[] | undefined;
  /** Shown if there are no rows. */
  empty: ComponentChildren;
  children: (rows: T[]) => ComponentChildren;
}

export function PolledList<T>({ what, polled: { error, reload }, rows, empty, children }: Props<T>) {
  return (
    <>
      <ErrorBox error={error} what={`The ${what} can't be listed.`} onRetry={reload} />
      {!rows && !error && <Loading what={what} />}
      {rows && (rows.length === 0 ? empty : children(rows))}
    </>
  );
}

/** Below the first `rows` rows of a longer list: loads more, until there are as many as a screen refreshes. */
export function MoreRows({ rows, isAtMost, more }: { rows: number; isAtMost: boolean; more: () => void }) {
  return (
    <p>
      <Button onClick={more} disabled={isAtMost}>
        Show more
      </Button>{" "}
      <span class="hint">{isAtMost ? "Search to find more." : `${count(rows)} so far`}</span>
    </p>
  );
}
