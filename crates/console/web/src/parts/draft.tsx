// A message that is being written: for sending, and for trying rules.

import { PropertiesEditor, propertiesOf, rowsOf, type PropertyRow } from "./properties.js";
import { Field } from "./ui.js";
import type { Message } from "../types.js";

export const TEXT_FIELDS = [
  ["message_id", "Message id"],
  ["subject", "Subject"],
  ["session_id", "Session id"],
  ["correlation_id", "Correlation id"],
  ["content_type", "Content type"],
  ["to", "To"],
  ["reply_to", "Reply to"],
  ["reply_to_session_id", "Reply to session id"],
  ["partition_key", "Partition key"],
] as const;
type TextField = (typeof TEXT_FIELDS)[number][0];

export interface Draft {
  form: "text" | "json" | "base64";
  body: string;
  fields: Partial<Record<TextField, string>>;
  properties: PropertyRow[];
}

const DEAD_LETTER_PROPERTIES = ["DeadLetterReason", "DeadLetterErrorDescription"];

/** An empty draft, or one with everything of a message but why it was dead-lettered. */
export function draftOf(message: Message | undefined): Draft {
  if (!message) return { form: "text", body: "", fields: {}, properties: [] };
  const { body } = message;
  const isText = typeof body.text === "string";
  const fields = Object.fromEntries(TEXT_FIELDS.map(([name]) => [name, message[name] ?? ""]));
  return {
    form: isText ? "text" : "base64",
    body: isText ? (body.text as string) : body.base64,
    fields,
    properties: rowsOf(message.properties).filter(({ name }) => !DEAD_LETTER_PROPERTIES.includes(name)),
  };
}

/** The draft as a message of the API. Throws an `Error` that names the invalid field. */
export function messageOf(draft: Draft): Record<string, unknown> {
  const fields = Object.entries(draft.fields).filter(([, value]) => value !== "");
  const kind = draft.form === "json" ? { content_type: "application/json" } : {};
  return { body: bodyOf(draft), ...kind, ...Object.fromEntries(fields), properties: propertiesOf(draft.properties) };
}

function bodyOf({ form, body }: Draft): Record<string, unknown> {
  if (form === "text") return { text: body };
  if (form === "json") {
    try {
      JSON.parse(body);
    } catch (error) {
      throw new Error(`The body is not valid JSON: ${(error as Error).message}`);
    }
    // The original text: parsing and formatting would lose digits of long numbers.
    return { text: body };
  }
  const base64 = body.replace(/\s+/g, "");
  try {
    atob(base64);
  } catch {
    throw new Error("The body is not valid Base64.");
  }
  return { base64 };
}

export function DraftFields({ draft, onChange, requiresSession = false }: { draft: Draft; onChange: (draft: Draft) => void; requiresSession?: boolean }) {
  const field = ([name, label]: (typeof TEXT_FIELDS)[number]) => (
    <Field key={name} label={label} hint={name === "session_id" && requiresSession ? "Required by this entity" : undefined}>
      {(id) => (
        <input
          id={id}
          required={name === "session_id" && requiresSession}
          value={draft.fields[name] ?? ""}
          onInput={(event) => onChange({ ...draft, fields: { ...draft.fields, [name]: event.currentTarget.value } })}
        />
      )}
    </Field>
  );
  const hasRest = TEXT_FIELDS.slice(3).some(([name]) => draft.fields[name]);
  return (
    <>
      <div class="field">
        <div class="toolbar">
          <label for="draft-body">Body</label>
          <select aria-label="Body format" value={draft.form} onChange={(event) => onChange({ ...draft, form: event.currentTarget.value as Draft["form"] })}>
            <option value="text">Text</option>
            <option value="json">JSON</option>
            <option value="base64">Base64</option>
          </select>
        </div>
        <textarea id="draft-body" class="code" rows={6} spellcheck={false} value={draft.body} onInput={(event) => onChange({ ...draft, body: event.currentTarget.value })} />
      </div>
      <div class="grid">{TEXT_FIELDS.slice(0, 3).map(field)}</div>
      <PropertiesEditor rows={draft.properties} onChange={(properties) => onChange({ ...draft, properties })} />
      <details open={hasRest}>
        <summary>More fields</summary>
        <div class="grid">{TEXT_FIELDS.slice(3).map(field)}</div>
      </details>
    </>
  );
}
