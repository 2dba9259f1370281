// The bodies of the management API. 64-bit numbers are texts.

export interface Session {
  namespace: string;
  version: string;
  tier: string;
  principal: string;
  rights: string[];
  authorization_required: boolean;
  time_travel: boolean;
  now: string;
}

/** `active` includes locked and deferred messages, as in Service Bus. */
export const STATES = ["active", "locked", "deferred", "scheduled", "dead_lettered", "transfer_dead_lettered", "quarantined"] as const;
export type CountName = (typeof STATES)[number];
export const STATE_NAMES: Record<CountName, string> = {
  active: "Active",
  locked: "Locked",
  deferred: "Deferred",
  scheduled: "Scheduled",
  dead_lettered: "Dead-lettered",
  transfer_dead_lettered: "Transfer dead-lettered",
  quarantined: "Damaged, set aside",
};
export type Counts = Partial<Record<CountName, number>>;
export type Totals = Partial<
  Record<"accepted" | "delivered" | "completed" | "abandoned" | "deferred" | "dead_lettered" | "expired", number>
>;

export interface Overview {
  now: string;
  version: string;
  uptime_ms: number;
  entities: { queues: number; topics: number; subscriptions: number };
  /** Over AMQP. */
  connections: number;
  messages: Counts;
  /** Time since the oldest available message was enqueued. */
  oldest_message_age_ms?: number | null;
  size_bytes: number;
  memory?: { limit_bytes?: number | null; used?: Record<string, number>; state?: StateMemory };
  storage?: Record<string, unknown>;
  totals?: Totals;
  damage?: unknown;
}

/** Memory for the state of all stored messages and entities. */
export interface StateMemory {
  limit_bytes: number;
  used_bytes: number;
  pressure: string;
}

export type Kind = "queue" | "topic" | "subscription";

export interface Entity {
  path: string;
  kind: Kind;
  topic?: string;
  status: string;
  requires_session?: boolean;
  forward_to?: string | null;
  counts: Counts;
  size_bytes: number;
  max_size_bytes?: number | null;
  oldest_at?: string | null;
  receivers?: number;
  totals?: Totals;
}

export interface Filter {
  kind: "sql" | "correlation" | "true" | "false" | "selector";
  expression?: string;
  parameters?: Record<string, TypedValue>;
  properties?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface Rule {
  name: string;
  filter: Filter;
  action?: string | { expression: string; parameters?: Record<string, TypedValue> } | null;
  created_at?: string;
}

export interface EntityDetail extends Entity {
  options: Record<string, string>;
  read_only: string[];
  created_at?: string;
  updated_at?: string;
  accessed_at?: string | null;
  /** The first ones. */
  rules?: Rule[];
  rule_count?: number;
}

export interface Receiver {
  id: string;
  mode: string;
  /** Whether it selects messages. */
  selector: boolean;
  session?: string | null;
  credit: number;
}

export interface Lock {
  sequence_number: string;
  lock_token: string;
  locked_until: string;
  receiver?: string | null;
  session?: string | null;
}

export interface Connection {
  id: string;
  address: string | null;
  transport: "amqp" | "websocket";
  tls: boolean;
  certificate: string | null;
  opened_at: string;
  container_id: string;
  host: string | null;
  product: string | null;
  version: string | null;
  platform: string | null;
  framework: string | null;
  user_agent: string | null;
  /** Missing if the connection did not answer in time. */
  figures: {
    identities: { credential: "none" | "rule" | "certificate" | "token"; name: string }[];
    links: number;
    messages_in: number;
    messages_out: number;
    credit: number;
    unsettled: number;
    is_closing: boolean;
  } | null;
}

export interface Link {
  number: number;
  name: string;
  purpose: string;
  direction: "in" | "out";
  entity: string | null;
  receiver: string | null;
  credit: number;
  unsettled: number;
  messages: number;
}

export interface ConnectionDetail extends Connection {
  links: Link[];
  next: string | null;
}

export interface SessionRow {
  id: string;
  messages: number;
  locked_until?: string | null;
  receiver?: string | null;
  state_bytes: number;
}

export interface SessionState {
  bytes: number;
  text: string | null;
  base64: string;
}

export interface TypedValue {
  type: string;
  value: unknown;
}

export interface Body {
  kind: string;
  bytes: number;
  text?: string | null;
  base64: string;
  truncated: boolean;
}

export interface Message {
  sequence_number: string;
  state: string;
  enqueued_at?: string | null;
  scheduled_for?: string | null;
  expires_at?: string | null;
  locked_until?: string | null;
  delivery_count: number;
  message_id?: string | null;
  correlation_id?: string | null;
  session_id?: string | null;
  reply_to?: string | null;
  reply_to_session_id?: string | null;
  to?: string | null;
  subject?: string | null;
  content_type?: string | null;
  partition_key?: string | null;
  time_to_live_ms?: number | string | null;
  dead_letter?: { reason?: string | null; description?: string | null; source?: string | null } | null;
  properties?: Record<string, TypedValue>;
  size_bytes: number;
  body: Body;
}

export interface Acted {
  done: number;
  skipped: { sequence_number: string; reason: string }[];
  examined: number;
  next: string | null;
}

export interface DeadLetterGroup {
  path: string;
  queue: "dead_letter" | "transfer";
  reason?: string | null;
  description?: string | null;
  count: number;
  oldest_at?: string | null;
  newest_at?: string | null;
  first_sequence_number: string;
}

export interface RuleResult {
  /** Path of the subscription; missing for a rule that is not saved. */
  subscription?: string;
  rule: string;
  matches: boolean;
  error?: string | null;
  changed?: Record<string, unknown> | null;
}

export interface LogLine {
  id: string | number;
  at: string;
  level: string;
  target: string;
  message: string;
  fields?: Record<string, unknown>;
}
