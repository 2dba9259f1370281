// Sends a message, new or like one that exists.

import { useState } from "preact/hooks";
import { post } from "../api.js";
import { count, utcOfField } from "../format.js";
import { DraftFields, draftOf, messageOf } from "../parts/draft.js";
import { useAction } from "../parts/hooks.js";
import { toast } from "../parts/toast.js";
import { Button, Dialog, ErrorBox, Field } from "../parts/ui.js";
import type { Message } from "../types.js";

interface Props {
  target: string;
  message?: Message;
  requiresSession: boolean;
  onClose: () => void;
  onSent: () => void;
}

export function ComposeDialog({ target, message, requiresSession, onClose, onSent }: Props) {
  const [to, setTo] = useState(target);
  const [draft, setDraft] = useState(() => draftOf(message));
  const [lifeSecs, setLifeSecs] = useState("");
  const [scheduledFor, setScheduledFor] = useState("");
  const [repeat, setRepeat] = useState("1");
  const { busy, error, run } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const sent = {
        ...messageOf(draft),
        ...(lifeSecs ? { time_to_live_ms: Math.round(Number(lifeSecs) * 1000) } : {}),
        ...(scheduledFor ? { scheduled_for: utcOfField(scheduledFor) } : {}),
      };
      const times = Number(repeat);
      await post("messages", { path: to.trim() }, { messages: [sent], ...(times > 1 ? { repeat: times } : {}) });
      toast(`Sent ${count(times)} ${times === 1 ? "message" : "messages"} to ${to}`);
      onSent();
      onClose();
    });
  };
  return (
    <Dialog wide title={message ? "Edit and send again" : "Send a message"} onClose={onClose}>
      <form onSubmit={submit}>
        {message?.body.truncated && (
          <div class="notice warn">
            <p>Only the beginning of the body is shown, and only that part would be sent. Move and Resubmit keep the whole body.</p>
          </div>
        )}
        {message && message.body.kind !== "data" && (
          <div class="notice warn">
            <p>The body is an AMQP {message.body.kind}. It would be sent as bytes, the text below. Move and Resubmit keep its type.</p>
          </div>
        )}
        <Field label="To queue or topic">{(id) => <input id={id} required value={to} onInput={(event) => setTo(event.currentTarget.value)} />}</Field>
        <DraftFields draft={draft} onChange={setDraft} requiresSession={requiresSession} />
        <div class="grid">
          <Field label="Time to live in seconds" hint="Leave empty for the entity's default">
            {(id) => <input id={id} type="number" min={0.001} step="any" value={lifeSecs} onInput={(event) => setLifeSecs(event.currentTarget.value)} />}
          </Field>
          <Field label="Scheduled for (UTC)" hint="Leave empty to send now">
            {(id) => <input id={id} type="datetime-local" step={1} value={scheduledFor} onInput={(event) => setScheduledFor(event.currentTarget.value)} />}
          </Field>
          <Field label="Number of messages">
            {(id) => <input id={id} type="number" min={1} max={1000} required value={repeat} onInput={(event) => setRepeat(event.currentTarget.value)} />}
          </Field>
        </div>
        <ErrorBox error={error} what="Not sent." />
        <div class="actions">
          <Button type="submit" kind="primary" disabled={busy}>
            {busy ? "Sending…" : "Send"}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
