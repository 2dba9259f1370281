// The client of the management API: authorization, errors, pages.

import { sharedAccessSignature, type Credentials } from "./sas.js";
import type { Session } from "./types.js";

const BASE = "/$api/v1/";
const TOKEN_LIFE_SECS = 3600;
/** A token is renewed when its remaining life is shorter. */
const RENEWAL_SECS = 600;
const STORED = "peeklock-key";

/** A refused request. `status` is 0 if the broker did not answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** Advice for the operator; empty if there is none. */
  get advice(): string {
    if (this.status === 0) return "Check that the broker is running and reachable at this address.";
    if (this.status === 401) return "Sign in again with a valid key.";
    if (this.status === 403) return "Sign in with a key that has the required right: Manage for the namespace, or Listen, Send or Manage for the entity.";
    if (this.status === 404) return "It may have been deleted. Reload the list.";
    if (this.status === 409) return "It was changed or created at the same time. Reload and try again.";
    if (this.status === 413) return "Send a smaller message, or raise MaxMessageSizeInKilobytes.";
    if (this.status === 421) return "Open the console at one of this broker's host names, or add this name to network.allowed_hosts.";
    if (this.status === 429 || this.status === 503) return "The broker is busy or starting. Try again in a few seconds.";
    if (this.status === 507) return "Delete or receive messages, or raise the limit.";
    return "";
  }
}

let credentials: Credentials | null = null;
let token: { text: string; expirySecs: number } | null = null;
/** The broker's clock minus this machine's, from the Date header of the last answer. */
let clockSkewMs = 0;
let refused: (error: ApiError) => void = () => {};

/** Calls `listener` when the broker no longer accepts the token. */
export function onRefused(listener: (error: ApiError) => void): void {
  refused = listener;
}

/** Uses these credentials from now on; `keep` stores them until the tab is closed. */
export function setCredentials(next: Credentials | null, keep: boolean): void {
  credentials = next;
  token = null;
  if (next && keep) sessionStorage.setItem(STORED, JSON.stringify(next));
  else sessionStorage.removeItem(STORED);
}

/** Credentials that an earlier load of the page has stored in this tab. */
export function restoreCredentials(): boolean {
  const text = sessionStorage.getItem(STORED);
  if (!text) return false;
  try {
    credentials = JSON.parse(text) as Credentials;
  } catch {
    sessionStorage.removeItem(STORED);
  }
  return credentials !== null;
}

export function entityOfCredentials(): string | undefined {
  return credentials?.entityPath;
}

export function isSignedIn(): boolean {
  return credentials !== null;
}

/** The broker's time now, in milliseconds, without time travel. */
function nowMs(): number {
  return Date.now() + clockSkewMs;
}

function authorization(): Record<string, string> {
  if (!credentials) return {};
  const nowSecs = Math.floor(nowMs() / 1000);
  if (!token || token.expirySecs - nowSecs < RENEWAL_SECS) {
    const expirySecs = nowSecs + TOKEN_LIFE_SECS;
    token = { text: sharedAccessSignature(credentials, location.origin, expirySecs), expirySecs };
  }
  return { Authorization: token.text };
}

export type Query = Record<string, string | number | boolean | null | undefined>;

function address(path: string, query: Query): string {
  const parameters = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return BASE + path + (parameters.length ? `?${parameters.join("&")}` : "");
}

async function fetchOnce(method: string, url: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...authorization() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
      signal,
    });
    const date = Date.parse(response.headers.get("Date") ?? "");
    if (!Number.isNaN(date)) {
      const skewMs = date - Date.now();
      // Seconds don't matter; with a clock that is minutes wrong, tokens are expired or refused.
      if (Math.abs(skewMs - clockSkewMs) > 60_000) {
        clockSkewMs = skewMs;
        token = null;
      }
    }
    return response;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The broker does not answer.");
  }
}

async function answer(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const url = address(path, query);
  let response = await fetchOnce(method, url, body, signal);
  // The first answer contains the broker's time, which is needed for a valid token.
  if (response.status === 401 && credentials && token === null) response = await fetchOnce(method, url, body, signal);
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.status !== 401 || path === "session") throw error;
  // Status 401 means an invalid token as well as a missing right.
  const session = await fetchOnce("GET", address("session", { path: credentials?.entityPath }), undefined, signal);
  if (session.ok) throw new ApiError(403, error.code, error.message);
  refused(error);
  throw error;
}

/** The identity and its rights; for a key of one entity, the rights to that entity. */
export const session = (): Promise<Session> => get("session", { path: credentials?.entityPath });

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    return new ApiError(response.status, error.code, error.message);
  } catch {
    return new ApiError(response.status, "", text.length > 0 && text.length < 300 && !text.startsWith("<") ? text : `The broker answered with status ${response.status}.`);
  }
}

async function json<T>(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await answer(method, path, query, body, signal);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> => json("GET", path, query, undefined, signal);
export const post = <T>(path: string, query: Query, body: unknown): Promise<T> => json("POST", path, query, body);
export const put = <T>(path: string, query: Query, body: unknown): Promise<T> => json("PUT", path, query, body);
export const patch = <T>(path: string, query: Query, body: unknown): Promise<T> => json("PATCH", path, query, body);
export const remove = <T = void>(path: string, query: Query = {}): Promise<T> => json("DELETE", path, query);
/** The bytes of an answer that is not JSON. */
export const bytes = async (path: string, query: Query): Promise<Uint8Array> =>
  new Uint8Array(await (await answer("GET", path, query)).arrayBuffer());

/** All pages of a list, up to `max` rows; `next` is not null if there are more. */
export async function pages<T>(path: string, query: Query, field: string, max: number, signal?: AbortSignal): Promise<{ rows: T[]; next: string | null }> {
  const rows: T[] = [];
  let from: string | null | undefined;
  do {
    const page: Record<string, unknown> = await get(path, { ...query, from }, signal);
    rows.push(...(page[field] as T[]));
    from = (page.next ?? null) as string | null;
  } while (from !== null && rows.length < max);
  return { rows, next: from };
}
