// Long work on messages: one bounded request after another, with progress, until it is done or stopped.

import { useEffect, useRef, useState } from "preact/hooks";
import { post, session, type ApiError } from "../api.js";
import { count } from "../format.js";
import type { Acted } from "../types.js";
import { asApiError } from "./hooks.js";
import { Button, Dialog, ErrorBox } from "./ui.js";

const PER_REQUEST = 500;

export interface Job {
  title: string;
  /** Past participle of the action, such as "resubmitted". */
  done: string;
  /** Steps, each at one entity. */
  steps: { path: string; request: Record<string, unknown> }[];
  /** Whether messages enqueued after the start are left out, so that the job ends although others arrive or fail again. */
  untilNow?: boolean;
  /** How many messages there are about, if known. */
  expected?: number;
}

interface Progress {
  done: number;
  examined: number;
  skipped: Acted["skipped"];
  skippedCount: number;
  state: "running" | "stopped" | "finished" | "failed";
  error: ApiError | null;
}

const START: Progress = { done: 0, examined: 0, skipped: [], skippedCount: 0, state: "running", error: null };
const SKIPPED_SHOWN = 20;

async function runJob(job: Job, isStopped: () => boolean, report: (change: (before: Progress) => Progress) => void): Promise<void> {
  // The broker's time: this machine's may differ, and time travel moves it.
  const bound = job.untilNow ? { before: (await session()).now } : {};
  for (const { path, request } of job.steps) {
    let from: string | null | undefined;
    do {
      if (isStopped()) return report((before) => ({ ...before, state: "stopped" }));
      const acted: Acted = await post("messages/act", { path }, { limit: PER_REQUEST, ...bound, ...request, ...(from ? { from } : {}) });
      from = acted.next;
      report((before) => ({
        ...before,
        done: before.done + acted.done,
        examined: before.examined + acted.examined,
        skipped: [...before.skipped, ...acted.skipped].slice(0, SKIPPED_SHOWN),
        skippedCount: before.skippedCount + acted.skipped.length,
      }));
    } while (from);
  }
  report((before) => ({ ...before, state: "finished" }));
}

export function JobDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [progress, setProgress] = useState(START);
  const stopped = useRef(false);
  useEffect(() => {
    runJob(job, () => stopped.current, setProgress).catch((reason: unknown) =>
      setProgress((before) => ({ ...before, state: "failed", error: asApiError(reason) })),
    );
    return () => {
      stopped.current = true;
    };
  }, []);
  const isRunning = progress.state === "running";
  const stop = () => {
    stopped.current = true;
  };
  return (
    <Dialog title={job.title} onClose={isRunning ? stop : onClose}>
      <progress aria-label={job.title} max={job.expected || 1} value={isRunning ? (job.expected ? Math.min(progress.done, job.expected) : undefined) : job.expected || 1} />
      <p role="status" class="job-status">
        {count(progress.done)} {job.done}
        {progress.skippedCount > 0 && `, ${count(progress.skippedCount)} skipped`}
        {progress.examined > progress.done && `, ${count(progress.examined)} examined`}
        {progress.state === "stopped" && ". Stopped; messages already processed are not restored."}
        {progress.state === "finished" && ". Finished."}
        {progress.state === "failed" && ". Not finished."}
      </p>
      <ErrorBox error={progress.error} what="The operation ended early." />
      {progress.skipped.length > 0 && (
        <details open={!isRunning}>
          <summary>Skipped messages</summary>
          <ul>
            {progress.skipped.map(({ sequence_number, reason }) => (
              <li key={sequence_number}>
                <span class="number">{sequence_number}</span>: {reason}
              </li>
            ))}
          </ul>
        </details>
      )}
      <div class="actions">
        {isRunning ? (
          <Button kind="danger" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        )}
      </div>
    </Dialog>
  );
}
