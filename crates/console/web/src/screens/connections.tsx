// AMQP connections: identity, SDK, links with their credit and rates; closing of a connection.

import { useEffect, useState } from "preact/hooks";
import { get, pages, remove } from "../api.js";
import { count, rate, relative, time } from "../format.js";
import { useAction, useDebounced, useNowMs, usePoll, useTitle } from "../parts/hooks.js";
import { PolledList } from "../parts/polledlist.js";
import { currentRate, record } from "../parts/rates.js";
import { toast } from "../parts/toast.js";
import { Button, Dialog, Empty, ErrorBox, Facts, Loading, Pill, Table } from "../parts/ui.js";
import { entityHref, href, navigate } from "../router.js";
import type { Connection, ConnectionDetail, Link } from "../types.js";

const INTERVAL_MS = 2000;
const PAGE = 100;
/** At most this many rows are refreshed automatically; the search finds the rest. */
const ROWS_MAX = 500;
const LINKS_MAX = 500;

export function ConnectionsScreen({ search: initial }: { search: string }) {
  useTitle("Connections");
  const [text, setText] = useState(initial);
  const [rows, setRows] = useState(PAGE);
  const [closing, setClosing] = useState<Connection | null>(null);
  const search = useDebounced(text.trim());
  useEffect(() => setRows(PAGE), [search]);
  const polled = usePoll(
    async (signal) => {
      const page = await pages<Connection>("connections", { search, top: PAGE }, "connections", rows, signal);
      page.rows.forEach(recordConnection);
      return page;
    },
    [search, rows],
    INTERVAL_MS,
  );
  const { data, reload } = polled;
  const empty = search ? <NoneFound clear={() => setText("")} /> : <NoneYet />;
  return (
    <>
      <h1 tabIndex={-1}>Connections</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input
          type="search"
          data-search
          aria-label="Search connections"
          placeholder="Entity, address, client, identity"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        {data && <span class="hint number">{data.next ? `First ${count(data.rows.length)} shown` : `${count(data.rows.length)} over AMQP`}</span>}
      </form>
      <PolledList what="connections" polled={polled} rows={data?.rows} empty={empty}>
        {(connections) => <Connections rows={connections} close={setClosing} />}
      </PolledList>
      {data?.next && (
        <p>
          <Button onClick={() => setRows(rows + PAGE)} disabled={rows >= ROWS_MAX}>
            Show more
          </Button>{" "}
          {rows >= ROWS_MAX && <span class="hint">Search to find more.</span>}
        </p>
      )}
      {closing && <CloseDialog connection={closing} onClose={() => setClosing(null)} onDone={reload} />}
    </>
  );
}

const NoneFound = ({ clear }: { clear: () => void }) => (
  <Empty title="No connection matches.">
    <p>The search matches any part of an entity's path, an address, a container id, an SDK or an identity.</p>
    <Button onClick={clear}>Clear the search</Button>
  </Empty>
);

const NoneYet = () => (
  <Empty title="There are no AMQP connections.">
    <p>Clients are listed while they are connected over AMQP. HTTP requests are not listed.</p>
  </Empty>
);

function recordConnection({ id, figures }: Connection): void {
  if (figures) record(`connection ${id}`, { accepted: figures.messages_in, delivered: figures.messages_out });
}

/** The client's SDK as it declares it, else its container id. */
function clientName({ product, version, container_id: container }: Connection): string {
  return product ? `${product}${version ? ` ${version}` : ""}` : container;
}

function transportName({ transport, tls }: Connection): string {
  return `${transport === "websocket" ? "WebSocket" : "AMQP"}${tls ? ", TLS" : ""}`;
}

function Connections({ rows, close }: { rows: Connection[]; close: (connection: Connection) => void }) {
  const nowMs = useNowMs();
  return (
    <Table
      label="Connections"
      head={
        <>
          <th scope="col">Address</th>
          <th scope="col">Client</th>
          <th scope="col">Identity</th>
          <th scope="col">Transport</th>
          <th scope="col">Opened</th>
          <th scope="col" class="right">Links</th>
          <th scope="col" class="right">In /s</th>
          <th scope="col" class="right">Out /s</th>
          <th scope="col" class="right">Credit</th>
          <th scope="col" class="right">Unsettled</th>
          <th scope="col">
            <span class="hidden">Close</span>
          </th>
        </>
      }
    >
      {rows.map((connection) => {
        const { id, figures } = connection;
        return (
          <tr key={id}>
            <th scope="row">
              <a data-row href={href("connection", id)}>
                {connection.address ?? id}
              </a>
              {figures?.is_closing && <Pill tone="warn">closing</Pill>}
            </th>
            <td class="cut" title={connection.container_id}>
              {clientName(connection)}
            </td>
            <td class="cut">
              <Identities connection={connection} />
            </td>
            <td>{transportName(connection)}</td>
            <td class="number" title={time(connection.opened_at)}>
              {relative(connection.opened_at, nowMs)}
            </td>
            <td class="number right">{count(figures?.links)}</td>
            <td class="number right">{rate(currentRate(`connection ${id}`, "accepted"))}</td>
            <td class="number right">{rate(currentRate(`connection ${id}`, "delivered"))}</td>
            <td class="number right">{count(figures?.credit)}</td>
            <td class="number right">{count(figures?.unsettled)}</td>
            <td>
              <Button kind="danger" aria-label={`Close the connection of ${connection.address ?? id}`} onClick={() => close(connection)}>
                Close…
              </Button>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

function Identities({ connection: { figures } }: { connection: Connection }) {
  if (!figures) return <>–</>;
  if (figures.identities.length === 0) return <span class="hint">not authenticated</span>;
  return (
    <>
      {figures.identities.map(({ credential, name }, n) => (
        <span key={n}>
          {n > 0 && ", "}
          {name} <span class="kind">{credential === "none" ? "" : credential}</span>
        </span>
      ))}
    </>
  );
}

function CloseDialog({ connection, onClose, onDone }: { connection: Connection; onClose: () => void; onDone: () => void }) {
  const { busy, error, run } = useAction();
  const close = () =>
    run(async () => {
      const closing = await remove<{ is_closing: boolean } | undefined>("connection", { id: connection.id });
      toast(closing ? "Closing: if the client does not answer, the connection is dropped within seconds" : "Closed the connection");
      onClose();
      onDone();
    });
  return (
    <Dialog title="Close the connection" onClose={onClose}>
      <p>
        <strong>{connection.address}</strong>, {clientName(connection)}
      </p>
      <p>
        The client receives the error <code>amqp:connection:forced</code>. Most clients, including the official SDKs, reconnect automatically.
        Messages that the client has received and not settled stay locked until their locks expire; its sessions are released immediately.
      </p>
      <ErrorBox error={error} what="Not closed." />
      <div class="actions">
        <Button kind="danger" disabled={busy} onClick={close}>
          Close the connection
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  );
}

/** One connection with its links. */
export function ConnectionScreen({ id }: { id: string }) {
  useTitle("Connection");
  const [isClosing, setClosing] = useState(false);
  const { data, error, reload } = usePoll(
    async (signal) => {
      const detail = await get<ConnectionDetail>("connection", { id, top: LINKS_MAX }, signal);
      recordConnection(detail);
      for (const link of detail.links) record(`link ${id} ${link.number}`, { accepted: link.messages });
      return detail;
    },
    [id],
    INTERVAL_MS,
  );
  const isGone = error?.status === 404;
  return (
    <>
      <p class="crumbs">
        <a href="#/connections" data-up>
          Connections
        </a>
      </p>
      <div class="head">
        <h1 tabIndex={-1}>{data?.address ?? "Connection"}</h1>
        {data?.figures?.is_closing && <Pill tone="warn">closing</Pill>}
        {data && !isGone && (
          <Button kind="danger" onClick={() => setClosing(true)}>
            Close…
          </Button>
        )}
      </div>
      {isGone ? (
        <Empty title="This connection has ended.">
          <p>If the client reconnects, that is a new connection.</p>
          <p>
            <a href="#/connections">All connections</a>
          </p>
        </Empty>
      ) : (
        <>
          <ErrorBox error={error} what="The connection can't be shown." onRetry={reload} />
          {!data && !error && <Loading what="the connection" />}
          {data && <About connection={data} />}
          {data && <Links connection={data} />}
        </>
      )}
      {data && isClosing && <CloseDialog connection={data} onClose={() => setClosing(false)} onDone={() => navigate("#/connections")} />}
    </>
  );
}

function About({ connection }: { connection: ConnectionDetail }) {
  const nowMs = useNowMs();
  const { figures } = connection;
  return (
    <Facts
      facts={[
        ["Identity", <Identities connection={connection} />],
        ["Client", clientName(connection)],
        ["Container id", connection.container_id],
        ["Platform", [connection.platform, connection.framework].filter(Boolean).join(", ") || "–"],
        ["User agent", connection.user_agent ?? "–"],
        ["Transport", transportName(connection)],
        ["Certificate", connection.certificate ?? "–"],
        ["Host name", connection.host ?? "–"],
        ["Opened", `${time(connection.opened_at)} (${relative(connection.opened_at, nowMs)})`],
        ["Messages in, out", figures ? `${count(figures.messages_in)}, ${count(figures.messages_out)}` : "–"],
        ["Id", connection.id],
      ]}
    />
  );
}

/** Link to the entity of a link, or to its dead-letter queue. */
function EntityLink({ path }: { path: string }) {
  const [, entity = path, inside = ""] = /^(.*?)((?:\/\$[^/]+)*)$/.exec(path) ?? [];
  const queue = /\/\$transfer/i.test(inside) ? "transfer" : /\/\$deadletterqueue/i.test(inside) ? "dead" : "";
  return (
    <a data-row href={entityHref(entity, "messages", { queue })}>
      {path}
    </a>
  );
}

function Links({ connection: { id, links, next } }: { connection: ConnectionDetail }) {
  return (
    <section>
      <h2>Links</h2>
      {links.length === 0 && (
        <Empty title="This connection has no links.">
          <p>The client is connected, but has opened no sender or receiver.</p>
        </Empty>
      )}
      {links.length > 0 && (
        <Table
          label="Links"
          head={
            <>
              <th scope="col">Entity</th>
              <th scope="col">Purpose</th>
              <th scope="col">Direction</th>
              <th scope="col" class="right">Credit</th>
              <th scope="col" class="right">Unsettled</th>
              <th scope="col" class="right">Messages</th>
              <th scope="col" class="right">Rate /s</th>
              <th scope="col">Receiver</th>
              <th scope="col">Name</th>
            </>
          }
        >
          {links.map((link) => (
            <LinkRow key={link.number} id={id} link={link} />
          ))}
        </Table>
      )}
      {next && <p class="hint">Only the first {count(links.length)} links are shown.</p>}
    </section>
  );
}

function LinkRow({ id, link }: { id: string; link: Link }) {
  return (
    <tr>
      <th scope="row">{link.entity ? <EntityLink path={link.entity} /> : "–"}</th>
      <td>{link.purpose}</td>
      <td>{link.direction === "in" ? "to the broker" : "to the client"}</td>
      <td class="number right">{count(link.credit)}</td>
      <td class="number right">{count(link.unsettled)}</td>
      <td class="number right">{count(link.messages)}</td>
      <td class="number right">{rate(currentRate(`link ${id} ${link.number}`, "accepted"))}</td>
      <td class="number">{link.receiver ?? "–"}</td>
      <td class="cut" title={link.name}>
        {link.name}
      </td>
    </tr>
  );
}
