// Application properties with their types, one row each.

import type { TypedValue } from "../types.js";
import { Button } from "./ui.js";

export interface PropertyRow {
  name: string;
  type: string;
  value: string;
}

/** Types that can be written here; others of a message that is sent again are kept. */
const TYPES = ["string", "int", "long", "double", "boolean", "dateTime", "duration", "guid"];

export function rowsOf(properties: Record<string, TypedValue> | undefined): PropertyRow[] {
  return Object.entries(properties ?? {}).map(([name, { type, value }]) => ({ name, type, value: typeof value === "string" ? value : JSON.stringify(value) }));
}

/** Values of all types are strings, so that no number loses digits. */
export function propertiesOf(rows: PropertyRow[]): Record<string, TypedValue> {
  return Object.fromEntries(rows.filter(({ name }) => name.trim() !== "").map((row) => [row.name.trim(), { type: row.type, value: row.type === "null" ? null : row.value }]));
}

export function PropertiesEditor({ rows, onChange, label = "Application properties" }: { rows: PropertyRow[]; onChange: (rows: PropertyRow[]) => void; label?: string }) {
  const set = (at: number, change: Partial<PropertyRow>) => onChange(rows.map((row, n) => (n === at ? { ...row, ...change } : row)));
  return (
    <fieldset>
      <legend>{label}</legend>
      {rows.map((row, n) => (
        <div class="property" key={n}>
          <input aria-label="Name of the property" placeholder="Name" value={row.name} onInput={(event) => set(n, { name: event.currentTarget.value })} />
          <select aria-label={`Type of ${row.name || "the property"}`} value={row.type} onChange={(event) => set(n, { type: event.currentTarget.value })}>
            {(TYPES.includes(row.type) ? TYPES : [...TYPES, row.type]).map((type) => (
              <option key={type}>{type}</option>
            ))}
          </select>
          <input aria-label={`Value of ${row.name || "the property"}`} placeholder="Value" value={row.value} onInput={(event) => set(n, { value: event.currentTarget.value })} />
          <Button kind="plain" aria-label={`Remove ${row.name || "the property"}`} onClick={() => onChange(rows.filter((_, at) => at !== n))}>
            ✕
          </Button>
        </div>
      ))}
      <Button onClick={() => onChange([...rows, { name: "", type: "string", value: "" }])}>Add a property</Button>
    </fieldset>
  );
}
