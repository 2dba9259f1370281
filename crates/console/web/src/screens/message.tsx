// One message: body, application properties, system properties.

import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { bytes, get } from "../api.js";
import { count, relative, size, span, time } from "../format.js";
import { BodyView } from "../parts/body.js";
import { brokerNowMs, useAction, usePoll } from "../parts/hooks.js";
import { Button, Dialog, ErrorBox, Facts, Table } from "../parts/ui.js";
import { queuePath, type QueueName } from "../queues.js";
import type { EntityDetail, Message } from "../types.js";
import type { ActRequest } from "./act.js";
import { StateOf } from "./messages.js";

interface Props {
  entity: EntityDetail;
  queue: QueueName;
  message: Message;
  onClose: () => void;
  onAct: (action: ActRequest["action"]) => void;
  onEdit: (message: Message) => void;
}

/** The longest body that is shown and can be edited. */
const BODY_BYTES_MAX = 1 << 20;

/** The message with its whole body once that is loaded. */
function useWhole(path: string, message: Message): Message {
  const number = message.sequence_number;
  const { data } = usePoll(
    async (signal) => {
      if (!message.body.truncated) return null;
      const page = await get<{ messages: Message[] }>("messages", { path, from: number, top: 1, body_max: BODY_BYTES_MAX }, signal);
      return page.messages.find(({ sequence_number }) => sequence_number === number) ?? null;
    },
    [path, number],
    0,
  );
  return data ?? message;
}

export function MessageDialog({ entity, queue, message: listed, onClose, onAct, onEdit }: Props) {
  const path = queuePath(entity.path, queue);
  const message = useWhole(path, listed);
  const { busy, error, run } = useAction();
  return (
    <Dialog drawer title={`Message ${message.sequence_number}`} onClose={onClose}>
      <div class="toolbar">
        {queue !== "" && (
          <Button kind="primary" onClick={() => onAct("resubmit")}>
            Resubmit…
          </Button>
        )}
        <Button onClick={() => onEdit(message)}>Edit and send again…</Button>
        {message.state === "deferred" && <Button onClick={() => onAct("undefer")}>Undefer…</Button>}
        {queue === "" && entity.kind !== "topic" && <Button onClick={() => onAct("dead_letter")}>Dead-letter…</Button>}
        <Button onClick={() => onAct("move")}>Move…</Button>
        <Button disabled={busy} onClick={() => run(() => download(path, message.sequence_number))}>
          Download
        </Button>
        <Button kind="danger" onClick={() => onAct("delete")}>
          Delete…
        </Button>
      </div>
      <ErrorBox error={error} what="Not downloaded." />
      {message.dead_letter && <DeadLetter message={message} />}
      <BodyView path={path} message={message} />
      <Properties message={message} />
      <h3>System properties</h3>
      <Facts facts={systemFacts(message)} />
    </Dialog>
  );
}

function DeadLetter({ message }: { message: Message }) {
  const { reason, description, source } = message.dead_letter ?? {};
  return (
    <div class="notice warn">
      <p>
        Dead-lettered{reason ? "" : " without a reason"}
        {reason && (
          <>
            : <strong>{reason}</strong>
          </>
        )}
      </p>
      {description && <p>{description}</p>}
      {source && <p>From {source}</p>}
    </div>
  );
}

function Properties({ message }: { message: Message }) {
  const [rows] = useState(() => Object.entries(message.properties ?? {}));
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>Application properties</h3>
      <Table
        label="Application properties"
        head={
          <>
            <th scope="col">Name</th>
            <th scope="col">Type</th>
            <th scope="col">Value</th>
          </>
        }
      >
        {rows.map(([name, { type, value }]) => (
          <tr key={name}>
            <th scope="row" class="wrap">
              {name}
            </th>
            <td class="kind">{type}</td>
            <td class="wrap">{typeof value === "string" ? value : JSON.stringify(value)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function systemFacts(message: Message): [string, ComponentChildren][] {
  const nowMs = brokerNowMs();
  const at = (text: string | null | undefined) => text && `${time(text)} (${relative(text, nowMs)})`;
  const lifeMs = message.time_to_live_ms;
  const facts: [string, ComponentChildren][] = [
    ["State", <StateOf message={message} />],
    ["Message id", message.message_id],
    ["Subject", message.subject],
    ["Correlation id", message.correlation_id],
    ["Session id", message.session_id],
    ["Content type", message.content_type],
    ["Partition key", message.partition_key],
    ["To", message.to],
    ["Reply to", message.reply_to],
    ["Reply to session id", message.reply_to_session_id],
    ["Enqueued", at(message.enqueued_at)],
    ["Scheduled for", at(message.scheduled_for)],
    ["Expires", at(message.expires_at)],
    ["Time to live", lifeMs === null || lifeMs === undefined ? null : span(Number(lifeMs))],
    ["Locked until", at(message.locked_until)],
    ["Delivery count", count(message.delivery_count)],
    ["Size", size(message.size_bytes)],
  ];
  return facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
}

/** Saves the AMQP encoding as a file. */
async function download(path: string, number: string): Promise<void> {
  const contents = await bytes("messages/raw", { path, sequence_number: number });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([contents as Uint8Array<ArrayBuffer>], { type: "application/octet-stream" }));
  link.download = `${path.replace(/[^A-Za-z0-9._-]+/g, "_")}-${number}.amqp`;
  link.click();
  URL.revokeObjectURL(link.href);
}
