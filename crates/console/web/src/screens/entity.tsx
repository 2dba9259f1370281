// One queue, topic or subscription.

import { useState } from "preact/hooks";
import { get, remove } from "../api.js";
import { count, rate, relative, size, subscriptionOf } from "../format.js";
import { brokerNowMs, useAction, usePoll, useTitle } from "../parts/hooks.js";
import { currentRate, record } from "../parts/rates.js";
import { toast } from "../parts/toast.js";
import { Button, Dialog, ErrorBox, Field, Loading, StatusPill, TabLinks } from "../parts/ui.js";
import { entityHref, navigate } from "../router.js";
import { STATES, STATE_NAMES, type CountName, type EntityDetail } from "../types.js";
import { HoldersTab } from "./holders.js";
import { MessagesTab } from "./messages.js";
import { OptionsTab } from "./options.js";
import { RulesTab } from "./rules.js";
import { SessionsTab } from "./sessions.js";
import { SubscriptionsTab } from "./subscriptions.js";
import { TesterTab } from "./tester.js";

const INTERVAL_MS = 3000;
const SHOWN_AS_ZERO: CountName[] = ["active", "scheduled", "dead_lettered"];
const ALARMING: CountName[] = ["dead_lettered", "transfer_dead_lettered", "quarantined"];

export function EntityScreen({ path, tab, query }: { path: string; tab: string; query: URLSearchParams }) {
  useTitle(path);
  const [isDeleting, setDeleting] = useState(false);
  const { data, error, reload } = usePoll(
    async (signal) => {
      const entity = await get<EntityDetail>("entity", { path }, signal);
      record(path, entity.totals);
      return entity;
    },
    [path],
    INTERVAL_MS,
  );
  const subscription = subscriptionOf(path);
  return (
    <>
      <p class="crumbs">
        <a href="#/entities" data-up={subscription ? undefined : true}>
          Entities
        </a>
        {subscription && (
          <>
            {" / "}
            <a href={entityHref(subscription.topic, "subscriptions")} data-up>
              {subscription.topic}
            </a>
          </>
        )}
      </p>
      <div class="head">
        <h1 tabIndex={-1}>{subscription?.name ?? path}</h1>
        {data && <span class="kind">{data.kind}</span>}
        {data && <StatusPill status={data.status} />}
        {data && (
          <Button kind="danger" class="end" onClick={() => setDeleting(true)}>
            Delete…
          </Button>
        )}
      </div>
      <ErrorBox error={error} what="This entity can't be read." onRetry={reload} />
      {!data && !error && <Loading what={path} />}
      {data && <Summary entity={data} />}
      {data && <Tabs entity={data} tab={tab} query={query} reload={reload} />}
      {isDeleting && data && <DeleteDialog entity={data} onClose={() => setDeleting(false)} />}
    </>
  );
}

function Summary({ entity }: { entity: EntityDetail }) {
  const { counts } = entity;
  const inRate = currentRate(entity.path, "accepted");
  return (
    <p class="summary number">
      {STATES.filter((state) => counts[state] !== undefined && (counts[state] > 0 || SHOWN_AS_ZERO.includes(state))).map((state) => (
        <span key={state} class={ALARMING.includes(state) && counts[state] ? "alarming" : ""}>
          {count(counts[state])} {STATE_NAMES[state].toLowerCase()}
        </span>
      ))}
      <span>
        {size(entity.size_bytes)}
        {entity.max_size_bytes ? ` of ${size(entity.max_size_bytes)}` : ""}
      </span>
      {entity.oldest_at && <span>oldest message from {relative(entity.oldest_at, brokerNowMs())}</span>}
      {inRate !== undefined && (
        <span>
          {rate(inRate)} in /s, {rate(currentRate(entity.path, "delivered"))} out /s
        </span>
      )}
    </p>
  );
}

function tabsOf(entity: EntityDetail): [string, string][] {
  if (entity.kind === "topic") {
    return [
      ["subscriptions", "Subscriptions"],
      ["messages", "Scheduled messages"],
      ["test", "Test rules"],
      ["options", "Options"],
    ];
  }
  const tabs: [string, string][] = [
    ["messages", "Messages"],
    ["options", "Options"],
    ["holders", "Receivers and locks"],
  ];
  if (entity.requires_session) tabs.push(["sessions", "Sessions"]);
  if (entity.kind === "subscription") tabs.splice(1, 0, ["rules", "Rules"]);
  return tabs;
}

function Tabs({ entity, tab, query, reload }: { entity: EntityDetail; tab: string; query: URLSearchParams; reload: () => void }) {
  const tabs = tabsOf(entity);
  const selected = tabs.some(([id]) => id === tab) ? tab : (tabs[0]?.[0] ?? "");
  return (
    <>
      <TabLinks label="Parts of the entity" selected={selected} choices={tabs.map(([id, label]) => ({ id, label }))} href={(id) => entityHref(entity.path, id)} />
      {selected === "messages" && <MessagesTab key={query.toString()} entity={entity} query={query} changed={reload} />}
      {selected === "options" && <OptionsTab entity={entity} changed={reload} />}
      {selected === "holders" && <HoldersTab entity={entity} />}
      {selected === "sessions" && <SessionsTab path={entity.path} />}
      {selected === "rules" && <RulesTab entity={entity} changed={reload} />}
      {selected === "subscriptions" && <SubscriptionsTab topic={entity.path} />}
      {selected === "test" && <TesterTab topic={entity.path} />}
    </>
  );
}

function DeleteDialog({ entity, onClose }: { entity: EntityDetail; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { busy, error, run } = useAction();
  const name = subscriptionOf(entity.path)?.name ?? entity.path;
  const { active, scheduled, dead_lettered, transfer_dead_lettered } = entity.counts;
  const messages = (active ?? 0) + (scheduled ?? 0) + (dead_lettered ?? 0) + (transfer_dead_lettered ?? 0);
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      await remove("entity", { path: entity.path });
      toast(`Deleted ${entity.path}`);
      navigate("#/entities");
    });
  };
  return (
    <Dialog title={`Delete ${entity.path}`} onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          This deletes the {entity.kind} with {count(messages)} {messages === 1 ? "message" : "messages"}
          {entity.kind === "topic" ? " of its own, and all its subscriptions with their messages" : ""}. It can't be undone.
        </p>
        <Field label={`Type ${name} to confirm`}>
          {(id) => <input id={id} autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}
        </Field>
        <ErrorBox error={error} what="Not deleted." />
        <div class="actions">
          <Button type="submit" kind="danger" disabled={busy || typed !== name}>
            Delete
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
