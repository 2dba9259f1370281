// Sign-in with a connection string, or with a key and its name.

import { useState } from "preact/hooks";
import { session, setCredentials, type ApiError } from "../api.js";
import { asApiError, useAction, useTitle } from "../parts/hooks.js";
import { Button, ErrorBox, Field, Segments } from "../parts/ui.js";
import { parseConnectionString, type Credentials } from "../sas.js";

/** The public key of the Service Bus emulator, in force on a broker without configured keys. */
const DEVELOPMENT: Credentials = { keyName: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE" };
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

export function SignIn({ error, onSignIn }: { error: ApiError | null; onSignIn: () => Promise<void> }) {
  useTitle("Sign in");
  const [mode, setMode] = useState("string");
  const [text, setText] = useState("");
  const [keyName, setKeyName] = useState(DEVELOPMENT.keyName);
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const [developmentRefused, setDevelopmentRefused] = useState(false);
  const { busy, error: failure, run } = useAction();
  const enter = async (credentials: Credentials, isKept: boolean) => {
    setCredentials(credentials, isKept);
    try {
      await session();
    } catch (reason) {
      setCredentials(null, false);
      throw asApiError(reason);
    }
    await onSignIn();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    run(() => enter(mode === "string" ? parseConnectionString(text) : { keyName: keyName.trim(), key: key.trim() }, keep));
  };
  const development = () =>
    run(() =>
      enter(DEVELOPMENT, false).catch((reason: unknown) => {
        setDevelopmentRefused(true);
        throw reason;
      }),
    );
  return (
    <main class="alone">
      <h1>Peeklock console</h1>
      <p class="lead">
        Sign in to <strong>{location.host}</strong> with a key of this broker. The key is kept in the memory of this page; requests carry
        tokens that expire after an hour.
      </p>
      <form onSubmit={submit} class="panel">
        <Segments
          label="Kind of credentials"
          selected={mode}
          onSelect={setMode}
          choices={[
            { id: "string", label: "Connection string" },
            { id: "key", label: "Key" },
          ]}
        />
        {mode === "string" ? (
          <Field label="Connection string" hint="Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…">
            {(id) => (
              <textarea id={id} rows={4} required spellcheck={false} autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
            )}
          </Field>
        ) : (
          <>
            <Field label="Key name">
              {(id) => <input id={id} required autocomplete="username" value={keyName} onInput={(event) => setKeyName(event.currentTarget.value)} />}
            </Field>
            <Field label="Key">
              {(id) => <input id={id} type="password" required autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />}
            </Field>
          </>
        )}
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} /> Keep the key until this tab is closed, even if
          the page is reloaded
        </label>
        <ErrorBox error={failure} what="Sign-in refused." />
        {!failure && <ErrorBox error={error} what="Signed out." />}
        <div class="actions">
          <Button type="submit" kind="primary" disabled={busy}>
            {busy ? "Signing in…" : "Sign in"}
          </Button>
          {LOOPBACK.includes(location.hostname) && !developmentRefused && (
            <Button onClick={development} disabled={busy}>
              Use the development key
            </Button>
          )}
        </div>
        {developmentRefused && <p class="hint">This broker has its own keys and does not accept the development key.</p>}
      </form>
    </main>
  );
}
