// Dialog that configures and confirms an action on messages.

import { useState } from "preact/hooks";
import { count, utcOfField } from "../format.js";
import type { Job } from "../parts/job.js";
import { Button, Dialog, Field } from "../parts/ui.js";
import type { QueueName } from "../queues.js";

export interface ActRequest {
  action: "delete" | "resubmit" | "undefer" | "move" | "dead_letter";
  /** Path of the queue or sub-queue. */
  path: string;
  queue: QueueName;
  /** The filter of the list. */
  where: string;
  /** The state of the listed messages. */
  state: string;
  /** Sequence numbers; without them, all messages that match. */
  messages?: string[];
}

const WORDS: Record<ActRequest["action"], { title: string; done: string; button: string; text: string }> = {
  delete: { title: "Delete", done: "deleted", button: "Delete", text: "Deleted messages can't be recovered." },
  resubmit: {
    title: "Resubmit",
    done: "resubmitted",
    button: "Resubmit",
    text: "Each message is sent again to its queue, or to its subscription's topic, with the same body and properties, and is removed from the dead-letter queue in the same step. A topic copies it to every subscription with a matching rule.",
  },
  undefer: { title: "Undefer", done: "undeferred", button: "Undefer", text: "Deferred messages become active again and are delivered in their original order." },
  move: { title: "Move", done: "moved", button: "Move", text: "Each message is stored in the target and removed here in the same step." },
  dead_letter: { title: "Dead-letter", done: "dead-lettered", button: "Dead-letter", text: "The messages go to the dead-letter queue of this entity." },
};

const PER_STEP = 100;

interface Props {
  request: ActRequest;
  /** Number of messages in the list, if it is complete. */
  listed?: number;
  onClose: () => void;
  onStart: (job: Job) => void;
}

export function ActDialog({ request, listed, onClose, onStart }: Props) {
  const { action, path, messages } = request;
  const words = WORDS[action];
  const isPurge = action === "delete" && !messages;
  const [where, setWhere] = useState(request.where);
  const [before, setBefore] = useState("");
  const [state, setState] = useState(request.queue === "" ? request.state : "any");
  const hasState = !messages && request.queue === "" && (action === "delete" || action === "move");
  const [to, setTo] = useState("");
  const [keepId, setKeepId] = useState(true);
  const [why, setWhy] = useState({ reason: "", description: "" });
  const title = isPurge ? "Purge" : messages ? `${words.title} ${count(messages.length)} ${messages.length === 1 ? "message" : "messages"}` : `${words.title} all`;
  const submit = (event: Event) => {
    event.preventDefault();
    const common = { action, ...(to.trim() ? { to: to.trim() } : {}), ...(keepId ? {} : { keep_id: false }), ...(action === "dead_letter" ? Object.fromEntries(Object.entries(why).filter(([, text]) => text !== "")) : {}) };
    const scope = {
      ...(where.trim() ? { where: where.trim() } : {}),
      ...(before ? { before: utcOfField(before) } : {}),
      ...(action === "undefer" ? {} : { state }),
    };
    // Scheduled messages are enqueued later than now.
    const untilNow = !messages && !before && (request.queue !== "" || state === "active" || state === "deferred");
    if (!where.trim() && !before && !untilNow) Object.assign(scope, { where: "1=1" });
    const steps = messages
      ? chunks(messages).map((sequence_numbers) => ({ path, request: { ...common, sequence_numbers } }))
      : [{ path, request: { ...common, ...scope } }];
    onStart({ title, done: words.done, steps, untilNow, expected: messages?.length ?? (where === request.where && !before ? listed : undefined) });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          {messages ? `In ${path}. ` : `All messages in ${path} that match${action === "undefer" ? " and are deferred" : ""}. `}
          {words.text} Locked messages are skipped.
        </p>
        {!messages && (
          <>
            <Field label="SQL filter" hint="Leave empty for all messages">
              {(id) => <input id={id} class="code" spellcheck={false} value={where} onInput={(event) => setWhere(event.currentTarget.value)} />}
            </Field>
            {hasState && (
              <Field label="Message state">
                {(id) => (
                  <select id={id} value={state} onChange={(event) => setState(event.currentTarget.value)}>
                    <option value="active">Active</option>
                    <option value="deferred">Deferred</option>
                    <option value="scheduled">Scheduled</option>
                    <option value="any">Any</option>
                  </select>
                )}
              </Field>
            )}
            <Field label="Enqueued before (UTC)" hint="Leave empty for any time">
              {(id) => <input id={id} type="datetime-local" step={1} value={before} onInput={(event) => setBefore(event.currentTarget.value)} />}
            </Field>
          </>
        )}
        {(action === "move" || action === "resubmit") && (
          <>
            <Field label="To queue or topic" hint={action === "resubmit" ? "Leave empty for the original queue or topic" : undefined}>
              {(id) => <input id={id} required={action === "move"} value={to} onInput={(event) => setTo(event.currentTarget.value)} />}
            </Field>
            <label class="check">
              <input type="checkbox" checked={keepId} onChange={(event) => setKeepId(event.currentTarget.checked)} /> Keep the message id, unless the
              target detects duplicates
            </label>
          </>
        )}
        {action === "dead_letter" && (
          <>
            <Field label="Reason">{(id) => <input id={id} value={why.reason} onInput={(event) => setWhy({ ...why, reason: event.currentTarget.value })} />}</Field>
            <Field label="Description">
              {(id) => <input id={id} value={why.description} onInput={(event) => setWhy({ ...why, description: event.currentTarget.value })} />}
            </Field>
          </>
        )}
        <div class="actions">
          <Button type="submit" kind={action === "delete" ? "danger" : "primary"}>
            {isPurge ? "Purge" : words.button}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

function chunks(numbers: string[]): string[][] {
  return Array.from({ length: Math.ceil(numbers.length / PER_STEP) }, (_, n) => numbers.slice(n * PER_STEP, (n + 1) * PER_STEP));
}
