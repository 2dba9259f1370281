// Options of an entity under their names in Service Bus; edited in place.

import { useState } from "preact/hooks";
import { patch } from "../api.js";
import { relative, time } from "../format.js";
import { brokerNowMs, useAction } from "../parts/hooks.js";
import { toast } from "../parts/toast.js";
import { Button, ErrorBox, Facts } from "../parts/ui.js";
import type { EntityDetail } from "../types.js";

const STATUSES = ["Active", "Disabled", "SendDisabled", "ReceiveDisabled"];
/** .NET's longest duration, which means unlimited. */
const UNLIMITED = "P10675199DT2H48M5.4775807S";
const DURATION = /^P(T|\d)/;

export function OptionsTab({ entity, changed }: { entity: EntityDetail; changed: () => void }) {
  const names = Object.keys(entity.options);
  const isReadOnly = (name: string) => entity.read_only.includes(name);
  return (
    <>
      <p class="hint">
        Durations are ISO 8601: PT30S, PT5M, PT1H, P14D. A changed DefaultMessageTimeToLive applies to messages sent afterwards.
      </p>
      <dl class="options">
        {names
          .filter((name) => !isReadOnly(name))
          .map((name) => (
            <Option key={name} path={entity.path} name={name} value={entity.options[name] ?? ""} changed={changed} />
          ))}
      </dl>
      <h2>Read-only</h2>
      <Facts
        facts={[
          ...names.filter(isReadOnly).map((name): [string, string] => [name, entity.options[name] || "–"]),
          ["Created", when(entity.created_at)],
          ["Updated", when(entity.updated_at)],
          ["Last used", when(entity.accessed_at)],
        ]}
      />
    </>
  );
}

function when(at: string | null | undefined): string {
  return at ? `${time(at)} (${relative(at, brokerNowMs())})` : "–";
}

function Option({ path, name, value, changed }: { path: string; name: string; value: string; changed: () => void }) {
  const [edited, setEdited] = useState<string | null>(null);
  const { busy, error, run, clear } = useAction();
  const shown = value === UNLIMITED ? "unlimited" : value || "none";
  const close = () => {
    setEdited(null);
    clear();
  };
  const save = (next: string) =>
    run(async () => {
      await patch("entity", { path }, { options: { [name]: next } });
      toast(`Set ${name} to ${next || "empty"}`);
      setEdited(null);
      changed();
    });
  return (
    <div class="option">
      <dt>
        <code>{name}</code>
      </dt>
      <dd>
        {edited === null ? (
          <button type="button" class="value" data-row aria-label={`${name}: ${shown}. Edit`} onClick={() => setEdited(value)}>
            {value ? shown : <span class="zero">{shown}</span>}
          </button>
        ) : (
          <form
            class="inline"
            onSubmit={(event) => {
              event.preventDefault();
              save(edited);
            }}
            onKeyDown={(event) => {
              if (event.key !== "Escape") return;
              event.stopPropagation();
              close();
            }}
          >
            <Editor name={name} original={value} value={edited} onChange={setEdited} />
            <Button type="submit" kind="primary" disabled={busy || edited === value}>
              Save
            </Button>
            <Button onClick={close}>Cancel</Button>
          </form>
        )}
        <ErrorBox error={error} what="Not changed." />
      </dd>
    </div>
  );
}

interface EditorProps {
  name: string;
  original: string;
  value: string;
  onChange: (value: string) => void;
}

function Editor({ name, original, value, onChange }: EditorProps) {
  const choices = name === "Status" ? STATUSES : /^(true|false)$/i.test(original) ? ["true", "false"] : null;
  if (choices) {
    return (
      <select aria-label={name} autofocus value={choices.find((choice) => choice.toLowerCase() === value.toLowerCase())} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  const isNumber = /^\d+$/.test(original);
  return (
    <input
      aria-label={name}
      autofocus
      type="text"
      inputMode={isNumber ? "numeric" : undefined}
      placeholder={DURATION.test(original) ? "PT1M" : undefined}
      value={value}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}
