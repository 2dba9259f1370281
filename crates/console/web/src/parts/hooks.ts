// Hooks that several screens use.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api.js";

export interface Polled<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => void;
}

/**
 * Loads at once, whenever a dependency changes, and every `intervalMs` while the page is visible (0: never again).
 * A failed load keeps the data of the last good one; the next attempts wait longer.
 */
export function usePoll<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: unknown[], intervalMs: number): Polled<T> {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const seen = useRef<unknown[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    // Data loaded for other dependencies must not be shown for these.
    if (dependencies.some((value, n) => value !== seen.current[n])) setData(null);
    seen.current = dependencies;
    const next = () => {
      if (intervalMs > 0 && !abort.signal.aborted) timer = setTimeout(run, intervalMs * Math.min(2 ** failures, 8));
    };
    const run = () => {
      if (document.hidden) return next();
      load(abort.signal).then(
        (loaded) => {
          if (abort.signal.aborted) return;
          failures = 0;
          setData(loaded);
          setError(null);
          next();
        },
        (reason: unknown) => {
          if (abort.signal.aborted) return;
          failures++;
          setError(asApiError(reason));
          next();
        },
      );
    };
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...dependencies, round, intervalMs]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { data, error, reload };
}

export function asApiError(reason: unknown): ApiError {
  if (reason instanceof ApiError) return reason;
  return new ApiError(-1, "page", reason instanceof Error ? reason.message : String(reason));
}

/** A value that changes `delayMs` after the last change of `value`. */
export function useDebounced<T>(value: T, delayMs = 250): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delayMs);
    return () => clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Peeklock`;
  }, [title]);
}

/** Runs an action and keeps whether it is under way and how it failed. */
export function useAction(): { busy: boolean; error: ApiError | null; run: (action: () => Promise<void>) => void; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const run = useCallback((action: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    Promise.resolve()
      .then(action)
      .catch((reason: unknown) => setError(asApiError(reason)))
      .finally(() => setBusy(false));
  }, []);
  return { busy, error, run, clear: useCallback(() => setError(null), []) };
}

let offsetMs = 0;

/** Adjusts the displayed clock to a time that the broker sent. */
export function noteBrokerTime(text: string | undefined): void {
  const parsed = Date.parse(text ?? "");
  if (!Number.isNaN(parsed)) offsetMs = parsed - Date.now();
}

/** The broker's time, time travel included, in milliseconds since 1970. */
export function brokerNowMs(): number {
  return Date.now() + offsetMs;
}

/** The broker's time, renewed every second. */
export function useNowMs(): number {
  const [now, setNow] = useState(brokerNowMs);
  useEffect(() => {
    const timer = setInterval(() => setNow(brokerNowMs()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
