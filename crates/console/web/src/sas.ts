// Shared access signatures, made in the page: browsers offer crypto.subtle only to https and localhost.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

/** A shared access key, and the entity it is for if not the namespace. */
export interface Credentials {
  keyName: string;
  key: string;
  entityPath?: string;
}

/** A signed token. Its resource is this origin, or one of its entities. */
export function sharedAccessSignature(credentials: Credentials, origin: string, expirySecs: number): string {
  const path = credentials.entityPath ?? "";
  const resource = encodeURIComponent(`${origin}/${path}`);
  const encoder = new TextEncoder();
  const digest = hmac(sha256, encoder.encode(credentials.key), encoder.encode(`${resource}\n${expirySecs}`));
  const signature = encodeURIComponent(btoa(String.fromCharCode(...digest)));
  return `SharedAccessSignature sr=${resource}&sig=${signature}&se=${expirySecs}&skn=${encodeURIComponent(credentials.keyName)}`;
}

/** Reads `Endpoint=…;SharedAccessKeyName=…;SharedAccessKey=…`. Throws an `Error` that names the missing part. */
export function parseConnectionString(text: string): Credentials {
  const parts = new Map<string, string>();
  for (const part of text.trim().split(";")) {
    const at = part.indexOf("=");
    if (at > 0) parts.set(part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim());
  }
  const keyName = parts.get("sharedaccesskeyname");
  const key = parts.get("sharedaccesskey");
  if (!keyName) throw new Error("The connection string has no SharedAccessKeyName.");
  if (!key) throw new Error("The connection string has no SharedAccessKey.");
  const entityPath = parts.get("entitypath");
  return { keyName, key, ...(entityPath ? { entityPath } : {}) };
}
