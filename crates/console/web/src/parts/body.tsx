// A message's body as text, JSON, hex, or the whole message as AMQP.

import { useEffect, useMemo, useState } from "preact/hooks";
import { bytes as fetchBytes, type ApiError } from "../api.js";
import { decodeMessage, hexOf, show } from "../amqp.js";
import { size } from "../format.js";
import type { Body, Message } from "../types.js";
import { asApiError } from "./hooks.js";
import { ErrorBox, Loading, Segments } from "./ui.js";

const HEX_SHOWN_BYTES = 4096;

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** `text` with indentation, or null if it is not JSON. Numbers keep all their digits, since it is not parsed and written again. */
export function prettyJson(text: string): string | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g) ?? [];
  return tokens
    .map((token, n) => {
      const next = tokens[n + 1];
      if (token === "{" || token === "[") {
        const isEmpty = next === "}" || next === "]";
        depth++;
        return isEmpty ? token : token + line();
      }
      if (token === "}" || token === "]") {
        depth--;
        const isEmpty = tokens[n - 1] === "{" || tokens[n - 1] === "[";
        return isEmpty ? token : line() + token;
      }
      return token === "," ? token + line() : token === ":" ? ": " : token;
    })
    .join("");
}

/** Offsets, bytes and letters in 16 columns. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const hex = hexOf(row).replace(/../g, "$& ").padEnd(48);
    const letters = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex} ${letters}`);
  }
  return lines.join("\n");
}

type Form = "text" | "json" | "hex" | "amqp";

export function BodyView({ path, message }: { path: string; message: Message }) {
  const { body } = message;
  const json = useMemo(() => (body.text ? prettyJson(body.text) : null), [body.text]);
  const [form, setForm] = useState<Form>(json !== null ? "json" : typeof body.text === "string" ? "text" : "hex");
  return (
    <section>
      <div class="toolbar">
        <h3>Body</h3>
        <Segments
          label="Body format"
          selected={form}
          onSelect={(id) => setForm(id as Form)}
          choices={[
            { id: "text", label: "Text" },
            { id: "json", label: "JSON" },
            { id: "hex", label: "Hex" },
            { id: "amqp", label: "AMQP" },
          ]}
        />
        <span class="hint number">
          {size(body.bytes)}, {body.kind}
        </span>
      </div>
      {body.truncated && form !== "amqp" && <p class="hint">Only the beginning is shown. Download the message to get all of it.</p>}
      {form === "amqp" ? <Amqp path={path} message={message} /> : <pre tabIndex={0} class="body">{shownBody(body, json, form)}</pre>}
    </section>
  );
}

function shownBody(body: Body, json: string | null, form: Form): string {
  if (body.bytes === 0) return "(empty)";
  if (form === "text") return body.text ?? "(not UTF-8 text; see Hex)";
  if (form === "json") return json ?? (body.truncated ? "(truncated, so it can't be shown as JSON; see Text)" : "(not JSON; see Text or Hex)");
  const bytes = fromBase64(body.base64);
  return hexDump(bytes.subarray(0, HEX_SHOWN_BYTES)) + (bytes.length > HEX_SHOWN_BYTES ? "\n…" : "");
}

function Amqp({ path, message }: { path: string; message: Message }) {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    setText(null);
    fetchBytes("messages/raw", { path, sequence_number: message.sequence_number })
      .then((bytes) => setText(decodeMessage(bytes).map((section) => `${section.name}: ${show(section.value, "  ")}`).join("\n\n")))
      .catch((reason: unknown) => setError(asApiError(reason)));
  }, [path, message.sequence_number]);
  if (error) return <ErrorBox error={error} what="The encoding can't be shown." />;
  if (text === null) return <Loading what="the encoding" />;
  return <pre tabIndex={0} class="body">{text}</pre>;
}
