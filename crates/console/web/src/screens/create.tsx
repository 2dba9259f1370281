// Creation of a queue, topic or subscription.

import { useState } from "preact/hooks";
import { post } from "../api.js";
import { useAction } from "../parts/hooks.js";
import { toast } from "../parts/toast.js";
import { Button, Dialog, ErrorBox, Field, Segments } from "../parts/ui.js";
import { entityHref, navigate } from "../router.js";
import type { Kind } from "../types.js";

export function CreateDialog({ topic = "", onClose, onCreated }: { topic?: string; onClose: () => void; onCreated: () => void }) {
  const [kind, setKind] = useState<Kind>(topic ? "subscription" : "queue");
  const [parent, setParent] = useState(topic);
  const [name, setName] = useState("");
  const [withSessions, setWithSessions] = useState(false);
  const [withDuplicates, setWithDuplicates] = useState(false);
  const { busy, error, run } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    const path = kind === "subscription" ? `${parent.trim()}/Subscriptions/${name.trim()}` : name.trim();
    const options: Record<string, string> = {};
    if (withSessions && kind !== "topic") options.RequiresSession = "true";
    if (withDuplicates && kind !== "subscription") options.RequiresDuplicateDetection = "true";
    run(async () => {
      await post("entities", {}, { path, kind, options });
      toast(`Created ${path}`);
      onCreated();
      onClose();
      navigate(entityHref(path, kind === "topic" ? "subscriptions" : "options"));
    });
  };
  return (
    <Dialog title="Create" onClose={onClose}>
      <form onSubmit={submit}>
        <Segments
          label="Kind"
          selected={kind}
          onSelect={(id) => setKind(id as Kind)}
          choices={[
            { id: "queue", label: "Queue" },
            { id: "topic", label: "Topic" },
            { id: "subscription", label: "Subscription" },
          ]}
        />
        {kind === "subscription" && (
          <Field label="Topic">{(id) => <input id={id} required value={parent} onInput={(event) => setParent(event.currentTarget.value)} />}</Field>
        )}
        <Field label="Name" hint="Letters, digits, . - _ and, except for subscriptions, /">
          {(id) => <input id={id} required autofocus value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        {kind !== "topic" && (
          <label class="check">
            <input type="checkbox" checked={withSessions} onChange={(event) => setWithSessions(event.currentTarget.checked)} /> Requires sessions
          </label>
        )}
        {kind !== "subscription" && (
          <label class="check">
            <input type="checkbox" checked={withDuplicates} onChange={(event) => setWithDuplicates(event.currentTarget.checked)} /> Detects duplicates
          </label>
        )}
        <p class="hint">{kind === "queue" ? "These settings" : "This setting"} can't be changed later. Other options are on the entity's page.</p>
        <ErrorBox error={error} what="Not created." />
        <div class="actions">
          <Button type="submit" kind="primary" disabled={busy}>
            Create
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
