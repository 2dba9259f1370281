// Reads the AMQP 1.0 encoding of a message, for display only. Source: OASIS AMQP 1.0 part 1, section 1.6.

export interface Section {
  name: string;
  value: unknown;
}

const SECTIONS: Record<number, string> = {
  0x70: "header",
  0x71: "delivery-annotations",
  0x72: "message-annotations",
  0x73: "properties",
  0x74: "application-properties",
  0x75: "data",
  0x76: "amqp-sequence",
  0x77: "amqp-value",
  0x78: "footer",
};
const HEADER = ["durable", "priority", "ttl", "first-acquirer", "delivery-count"];
const PROPERTIES = [
  ...["message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding"],
  ...["absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"],
];
const DEPTH_MAX = 32;
const BINARY_SHOWN_BYTES = 1024;

class Reader {
  at = 0;
  readonly view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  take(length: number): number {
    const start = this.at;
    if (length > this.bytes.length - start) throw new Error(`the encoding ends early, at byte ${start}`);
    this.at += length;
    return start;
  }

  u8 = () => this.view.getUint8(this.take(1));
  u32 = () => this.view.getUint32(this.take(4));
  raw = (length: number) => {
    const start = this.take(length);
    return this.bytes.subarray(start, start + length);
  };
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
export const hexOf = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const uuid = (bytes: Uint8Array) => hexOf(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
const binary = (bytes: Uint8Array) =>
  bytes.length > BINARY_SHOWN_BYTES ? `0x${hexOf(bytes.subarray(0, BINARY_SHOWN_BYTES))}… (${bytes.length} bytes)` : `0x${hexOf(bytes)}`;

/** Constructors without parts, by their code. */
const PRIMITIVES: Record<number, (reader: Reader) => unknown> = {
  0x40: () => null,
  0x41: () => true,
  0x42: () => false,
  0x43: () => 0,
  0x44: () => 0,
  0x45: () => [],
  0x50: (r) => r.u8(),
  0x51: (r) => r.view.getInt8(r.take(1)),
  0x52: (r) => r.u8(),
  0x53: (r) => r.u8(),
  0x54: (r) => r.view.getInt8(r.take(1)),
  0x55: (r) => r.view.getInt8(r.take(1)),
  0x56: (r) => r.u8() !== 0,
  0x60: (r) => r.view.getUint16(r.take(2)),
  0x61: (r) => r.view.getInt16(r.take(2)),
  0x70: (r) => r.u32(),
  0x71: (r) => r.view.getInt32(r.take(4)),
  0x72: (r) => r.view.getFloat32(r.take(4)),
  0x73: (r) => String.fromCodePoint(Math.min(r.u32(), 0x10ffff)),
  0x74: (r) => `decimal32 ${binary(r.raw(4))}`,
  0x80: (r) => r.view.getBigUint64(r.take(8)),
  0x81: (r) => r.view.getBigInt64(r.take(8)),
  0x82: (r) => r.view.getFloat64(r.take(8)),
  0x83: (r) => timestamp(r.view.getBigInt64(r.take(8))),
  0x84: (r) => `decimal64 ${binary(r.raw(8))}`,
  0x94: (r) => `decimal128 ${binary(r.raw(16))}`,
  0x98: (r) => uuid(r.raw(16)),
  0xa0: (r) => binary(r.raw(r.u8())),
  0xa1: (r) => text(r.raw(r.u8())),
  0xa3: (r) => text(r.raw(r.u8())),
  0xb0: (r) => binary(r.raw(r.u32())),
  0xb1: (r) => text(r.raw(r.u32())),
  0xb3: (r) => text(r.raw(r.u32())),
};

function timestamp(ms: bigint): string {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

function value(reader: Reader, depth: number): unknown {
  return constructed(reader, reader.u8(), depth);
}

function constructed(reader: Reader, code: number, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new Error("the encoding is nested too deeply");
  if (code === 0x00) {
    const descriptor = value(reader, depth + 1);
    return { descriptor, value: value(reader, depth + 1) };
  }
  const primitive = PRIMITIVES[code];
  if (primitive) return primitive(reader);
  const isSmall = code < 0xd0 || code === 0xe0;
  if (![0xc0, 0xd0, 0xc1, 0xd1, 0xe0, 0xf0].includes(code)) throw new Error(`unknown type 0x${code.toString(16)} at byte ${reader.at - 1}`);
  // The size in bytes, which the count makes superfluous.
  isSmall ? reader.u8() : reader.u32();
  const length = isSmall ? reader.u8() : reader.u32();
  if (length > reader.bytes.length) throw new Error("a list is longer than the message");
  const element = code === 0xe0 || code === 0xf0 ? reader.u8() : null;
  const items = Array.from({ length }, () => (element === null ? value(reader, depth + 1) : constructed(reader, element, depth + 1)));
  return code === 0xc1 || code === 0xd1 ? pairs(items) : items;
}

function pairs(items: unknown[]): Map<string, unknown> {
  const map = new Map<string, unknown>();
  for (let n = 0; n + 1 < items.length; n += 2) map.set(String(items[n]), items[n + 1]);
  return map;
}

function withNames(list: unknown, names: string[]): unknown {
  if (!Array.isArray(list)) return list;
  return new Map(list.map((item, n): [string, unknown] => [names[n] ?? String(n), item]).filter(([, item]) => item !== null));
}

/** The sections of a message. Throws an `Error` with the place if the bytes are not AMQP. */
export function decodeMessage(bytes: Uint8Array): Section[] {
  const reader = new Reader(bytes);
  const sections: Section[] = [];
  while (reader.at < bytes.length) {
    const start = reader.at;
    if (reader.u8() !== 0) throw new Error(`no section begins at byte ${start}`);
    const code = Number(value(reader, 0));
    const contents = value(reader, 0);
    const names = code === 0x70 ? HEADER : code === 0x73 ? PROPERTIES : null;
    sections.push({ name: SECTIONS[code] ?? `0x${code.toString(16)}`, value: names ? withNames(contents, names) : contents });
  }
  return sections;
}

/** One value per line, indented. */
export function show(shown: unknown, indent = ""): string {
  if (shown instanceof Map) return [...shown].map(([name, item]) => `\n${indent}${name}: ${show(item, `${indent}  `)}`).join("") || "{}";
  if (Array.isArray(shown)) return shown.map((item, n) => `\n${indent}${n}: ${show(item, `${indent}  `)}`).join("") || "[]";
  if (shown !== null && typeof shown === "object") {
    const { descriptor, value: inner } = shown as { descriptor: unknown; value: unknown };
    return `(${show(descriptor, indent)}) ${show(inner, indent)}`;
  }
  return typeof shown === "string" ? JSON.stringify(shown) : String(shown);
}
