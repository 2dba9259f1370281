// For a key without the right Manage, which may neither list nor describe entities: one is opened by its name.

import { useState } from "preact/hooks";
import { subscriptionOf } from "../format.js";
import { useTitle } from "../parts/hooks.js";
import { Button, Field } from "../parts/ui.js";
import { entityHref, navigate } from "../router.js";
import type { EntityDetail, Session } from "../types.js";
import { MessagesTab } from "./messages.js";

export function OpenScreen({ session }: { session: Session }) {
  useTitle("Entities");
  const [path, setPath] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    navigate(entityHref(path.trim()));
  };
  return (
    <>
      <h1 tabIndex={-1}>Entities</h1>
      <p>
        {session.rights.length > 0 ? `This key has ${session.rights.join(" and ")}` : "This key has no right"}, without Manage for the namespace, so entities
        can't be listed. Enter the name of one to see its messages or send to it.
      </p>
      <form class="filters" onSubmit={submit}>
        <Field label="Queue, topic or subscription" hint="orders, or news/Subscriptions/all">
          {(id) => <input id={id} data-search required spellcheck={false} value={path} onInput={(event) => setPath(event.currentTarget.value)} />}
        </Field>
        <Button type="submit" kind="primary">
          Open
        </Button>
      </form>
    </>
  );
}

/** An entity about which nothing but the name is known. */
function undescribed(path: string): EntityDetail {
  const subscription = subscriptionOf(path);
  return { path, kind: subscription ? "subscription" : "queue", topic: subscription?.topic, status: "", counts: {}, size_bytes: 0, options: {}, read_only: [] };
}

export function ListenerScreen({ path, query }: { path: string; query: URLSearchParams }) {
  useTitle(path);
  return (
    <>
      <p class="crumbs">
        <a href="#/entities" data-up>
          Entities
        </a>
      </p>
      <h1 tabIndex={-1}>{path}</h1>
      <p class="hint">Browsing takes the right Listen, sending Send. Counts, options and locks take Manage.</p>
      <MessagesTab key={query.toString()} entity={undescribed(path)} query={query} changed={() => {}} />
    </>
  );
}
