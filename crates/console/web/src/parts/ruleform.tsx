// The filter and action of a rule, as text and as a form.

import type { Filter, Rule, TypedValue } from "../types.js";
import { PropertiesEditor, propertiesOf, rowsOf, type PropertyRow } from "./properties.js";
import { Field, Segments } from "./ui.js";

/** Fields of a message that a correlation filter may name. */
const FIELDS = [
  ["subject", "Subject"],
  ["correlation_id", "Correlation id"],
  ["message_id", "Message id"],
  ["session_id", "Session id"],
  ["to", "To"],
  ["reply_to", "Reply to"],
  ["reply_to_session_id", "Reply to session id"],
  ["content_type", "Content type"],
] as const;

export interface RuleDraft {
  name: string;
  kind: Filter["kind"];
  expression: string;
  fields: Record<string, string>;
  properties: PropertyRow[];
  parameters?: Record<string, TypedValue>;
  action: string;
  actionParameters?: Record<string, TypedValue>;
}

export function actionText(action: Rule["action"]): string {
  return typeof action === "string" ? action : (action?.expression ?? "");
}

export function filterText(filter: Filter): string {
  if (filter.kind === "true") return "every message";
  if (filter.kind === "false") return "no message";
  if (filter.kind === "sql" || filter.kind === "selector") return filter.expression ?? "";
  const fields = FIELDS.filter(([name]) => typeof filter[name] === "string").map(([name, label]) => `${label} = ${String(filter[name])}`);
  const properties = Object.entries(filter.properties ?? {}).map(([name, value]) => `${name} = ${valueText(value)}`);
  return [...fields, ...properties].join(" and ") || "every message";
}

function valueText(value: unknown): string {
  const inner = value !== null && typeof value === "object" && "value" in value ? (value as TypedValue).value : value;
  return typeof inner === "string" ? inner : JSON.stringify(inner);
}

export function draftOfRule(rule: Rule | undefined): RuleDraft {
  const filter = rule?.filter ?? { kind: "sql", expression: "" };
  return {
    name: rule?.name ?? "",
    kind: filter.kind,
    expression: filter.expression ?? "",
    fields: Object.fromEntries(FIELDS.map(([name]) => [name, typeof filter[name] === "string" ? filter[name] : ""])),
    properties: filter.kind === "correlation" ? rowsOf(filter.properties as Record<string, TypedValue>) : [],
    parameters: filter.parameters,
    action: actionText(rule?.action),
    actionParameters: typeof rule?.action === "object" ? rule.action?.parameters : undefined,
  };
}

export function ruleOf(draft: RuleDraft): { filter: Filter; action?: Rule["action"] } {
  const filter: Filter = { kind: draft.kind };
  if (draft.kind === "sql") {
    filter.expression = draft.expression;
    if (draft.parameters) filter.parameters = draft.parameters;
  }
  if (draft.kind === "correlation") {
    for (const [name, value] of Object.entries(draft.fields)) if (value !== "") filter[name] = value;
    filter.properties = propertiesOf(draft.properties);
  }
  return { filter, ...(draft.action.trim() ? { action: { expression: draft.action, parameters: draft.actionParameters ?? {} } } : {}) };
}

export function RuleFields({ draft, onChange }: { draft: RuleDraft; onChange: (draft: RuleDraft) => void }) {
  return (
    <>
      <Segments
        label="Kind of filter"
        selected={draft.kind}
        onSelect={(kind) => onChange({ ...draft, kind: kind as Filter["kind"] })}
        choices={[
          { id: "sql", label: "SQL" },
          { id: "correlation", label: "Correlation" },
          { id: "true", label: "Every message" },
          { id: "false", label: "None" },
        ]}
      />
      {draft.kind === "sql" && (
        <Field label="Condition" hint="sys.Label = 'order' AND amount > 5">
          {(id) => <textarea id={id} class="code" rows={3} required spellcheck={false} value={draft.expression} onInput={(event) => onChange({ ...draft, expression: event.currentTarget.value })} />}
        </Field>
      )}
      {draft.kind === "correlation" && (
        <>
          <p class="hint">A message matches if all these values are equal. Empty fields are ignored.</p>
          <div class="grid">
            {FIELDS.map(([name, label]) => (
              <Field key={name} label={label}>
                {(id) => <input id={id} value={draft.fields[name] ?? ""} onInput={(event) => onChange({ ...draft, fields: { ...draft.fields, [name]: event.currentTarget.value } })} />}
              </Field>
            ))}
          </div>
          <PropertiesEditor rows={draft.properties} onChange={(properties) => onChange({ ...draft, properties })} />
        </>
      )}
      <Field label="Action (optional)" hint="SET priority = 'high'; REMOVE note">
        {(id) => <textarea id={id} class="code" rows={2} spellcheck={false} value={draft.action} onInput={(event) => onChange({ ...draft, action: event.currentTarget.value })} />}
      </Field>
    </>
  );
}
