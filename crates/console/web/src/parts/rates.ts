// Rates from successive totals. The broker counts; the page remembers the last minutes.

import type { Totals } from "../types.js";

const SAMPLES_MAX = 61;

interface Sample {
  atMs: number;
  totals: Totals;
}

const history = new Map<string, Sample[]>();

/** Remembers the totals of an entity, or of the namespace under the empty name. */
export function record(name: string, totals: Totals | undefined): void {
  if (!totals) return;
  const samples = history.get(name) ?? [];
  const last = samples.at(-1);
  const atMs = performance.now();
  if (last && atMs - last.atMs < 900) return;
  // Totals begin at 0 when the broker starts.
  if (last && (totals.accepted ?? 0) < (last.totals.accepted ?? 0)) samples.length = 0;
  samples.push({ atMs, totals });
  if (samples.length > SAMPLES_MAX) samples.shift();
  history.set(name, samples);
}

const levelHistory = new Map<string, { atMs: number; level: number }[]>();

/** Remembers a gauge, such as an entity's number of active messages, under a name. */
export function recordLevel(name: string, level: number | undefined): void {
  if (level === undefined) return;
  const samples = levelHistory.get(name) ?? [];
  const last = samples.at(-1);
  const atMs = performance.now();
  if (last && atMs - last.atMs < 900) return;
  samples.push({ atMs, level });
  if (samples.length > SAMPLES_MAX) samples.shift();
  levelHistory.set(name, samples);
}

export function levels(name: string): number[] {
  return (levelHistory.get(name) ?? []).map(({ level }) => level);
}

/** Rates per second between successive samples, the latest last. */
export function rates(name: string, total: keyof Totals): number[] {
  const samples = history.get(name) ?? [];
  return samples.slice(1).map((sample, n) => {
    const before = samples[n] as Sample;
    const change = (sample.totals[total] ?? 0) - (before.totals[total] ?? 0);
    return Math.max(0, change / ((sample.atMs - before.atMs) / 1000));
  });
}

/** The rate over the last three samples; undefined before there are two samples. */
export function currentRate(name: string, total: keyof Totals): number | undefined {
  const samples = (history.get(name) ?? []).slice(-4);
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last || first === last) return undefined;
  const change = (last.totals[total] ?? 0) - (first.totals[total] ?? 0);
  return Math.max(0, change / ((last.atMs - first.atMs) / 1000));
}
