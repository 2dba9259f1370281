// An entity's queue and sub-queues in routes and in paths of the API.

import type { EntityDetail, Message } from "./types.js";

export type QueueName = "" | "dead" | "transfer";

const SUFFIX: Record<QueueName, string> = { "": "", dead: "/$deadletterqueue", transfer: "/$transfer/$deadletterqueue" };

export function queueName(text: string | null): QueueName {
  return text === "dead" || text === "transfer" ? text : "";
}

export function queuePath(entity: string, queue: QueueName): string {
  return entity + SUFFIX[queue];
}

/** The entity to which a message is sent again: for a subscription, its topic. */
export function sendTarget(entity: Pick<EntityDetail, "path" | "kind" | "topic">): string {
  return entity.kind === "subscription" ? (entity.topic ?? entity.path.split(/\/Subscriptions\//i)[0] ?? entity.path) : entity.path;
}

/** The beginning of a body, in one line. */
export function preview({ body }: Message): string {
  if (body.bytes === 0) return "(empty)";
  if (typeof body.text !== "string") return "(binary)";
  return body.text.slice(0, 160).replace(/\s+/g, " ");
}

/** A text as a literal of SQL. */
export function sqlText(text: string): string {
  return `'${text.replace(/'/g, "''")}'`;
}
