// The frame: sign-in, navigation, the screen of the route.

import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, entityOfCredentials, isSignedIn, onRefused, restoreCredentials, session as readSession, setCredentials } from "./api.js";
import { time } from "./format.js";
import { asApiError, noteBrokerTime, useNowMs } from "./parts/hooks.js";
import { useShortcuts } from "./parts/keyboard.js";
import { Toasts } from "./parts/toast.js";
import { setTheme, theme, type Theme } from "./parts/theme.js";
import { Button, Empty, ErrorBox, Loading } from "./parts/ui.js";
import { entityHref, navigate, useRoute, type Route } from "./router.js";
import { ClockScreen } from "./screens/clock.js";
import { ConnectionScreen, ConnectionsScreen } from "./screens/connections.js";
import { DeadLettersScreen } from "./screens/deadletters.js";
import { EntitiesScreen } from "./screens/entities.js";
import { EntityScreen } from "./screens/entity.js";
import { HelpDialog } from "./screens/help.js";
import { LogScreen } from "./screens/log.js";
import { OverviewScreen } from "./screens/overview.js";
import { ListenerScreen, OpenScreen } from "./screens/restricted.js";
import { SignIn } from "./screens/signin.js";
import type { Session } from "./types.js";

export function App() {
  const [session, setSession] = useState<Session | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isLoading, setLoading] = useState(true);
  const load = useCallback(async () => {
    try {
      const loaded = await readSession();
      noteBrokerTime(loaded.now);
      setSession(loaded);
      setError(null);
      const entity = entityOfCredentials();
      if (entity && !location.hash.startsWith("#/entity/")) navigate(entityHref(entity));
    } catch (reason) {
      const failure = asApiError(reason);
      setSession(null);
      // Without credentials a refusal only says that a key is needed.
      setError(failure.status === 401 && !isSignedIn() ? null : failure);
      if (failure.status === 401) setCredentials(null, false);
    }
    setLoading(false);
  }, []);
  useEffect(() => {
    onRefused((refusal) => {
      setCredentials(null, false);
      setSession(null);
      setError(refusal);
    });
    restoreCredentials();
    void load();
  }, []);
  const signOut = () => {
    setCredentials(null, false);
    setSession(null);
    setError(null);
  };
  if (isLoading) return <Loading what="the console" />;
  if (!session && error && error.status !== 401 && error.status !== 403) {
    return (
      <main class="alone">
        <ErrorBox error={error} what="The console can't start." onRetry={() => void load()} />
      </main>
    );
  }
  if (!session) return <SignIn error={error} onSignIn={load} />;
  return <Frame session={session} onSignOut={signOut} />;
}

const SCREENS: [string, string, string][] = [
  ["", "Overview", "#/"],
  ["entities", "Entities", "#/entities"],
  ["dead-letters", "Dead letters", "#/dead-letters"],
  ["connections", "Connections", "#/connections"],
  ["log", "Log", "#/log"],
];

function Frame({ session, onSignOut }: { session: Session; onSignOut: () => void }) {
  const route = useRoute();
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShortcuts(useCallback(() => setHelpOpen(true), []));
  const first = route.segments[0] ?? "";
  const canManage = session.rights.includes("Manage");
  const selected = first === "entity" || (!canManage && first === "") ? "entities" : first === "connection" ? "connections" : first;
  const screens = !canManage ? SCREENS.filter(([id]) => id === "entities") : session.time_travel ? [...SCREENS, ["clock", "Clock", "#/clock"] as [string, string, string]] : SCREENS;
  useEffect(() => {
    // A new screen begins at its heading, also for screen readers.
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [first, route.segments[1]]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <span class="brand">Peeklock</span>
        <span class="namespace" title={`Version ${session.version}, tier ${session.tier}`}>
          {session.namespace || location.host}
        </span>
        <BrokerTime />
        <span class="principal">{session.authorization_required ? session.principal : "no authorization"}</span>
        <ThemeSwitch />
        <Button kind="plain" onClick={() => setHelpOpen(true)} aria-label="Help and shortcuts">
          ?
        </Button>
        {session.authorization_required && (
          <Button kind="plain" onClick={onSignOut}>
            Sign out
          </Button>
        )}
      </header>
      <nav class="side" aria-label="Screens">
        {screens.map(([id, label, to]) => (
          <a key={id} href={to} aria-current={id === selected ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        <Screen route={route} session={session} />
      </main>
      {isHelpOpen && <HelpDialog session={session} onClose={() => setHelpOpen(false)} />}
      <Toasts />
    </>
  );
}

function Screen({ route, session }: { route: Route; session: Session }) {
  const [first = "", second, third] = route.segments;
  if (!session.rights.includes("Manage")) {
    if (first === "" || first === "entities") return <OpenScreen session={session} />;
    if (first === "entity" && second) return <ListenerScreen key={second} path={second} query={route.query} />;
  }
  switch (first) {
    case "":
      return <OverviewScreen session={session} />;
    case "entities":
      return <EntitiesScreen search={route.query.get("search") ?? ""} />;
    case "entity":
      if (second) return <EntityScreen key={second} path={second} tab={third ?? ""} query={route.query} />;
      break;
    case "dead-letters":
      return <DeadLettersScreen />;
    case "connections":
      return <ConnectionsScreen search={route.query.get("search") ?? ""} />;
    case "connection":
      if (second) return <ConnectionScreen key={second} id={second} />;
      break;
    case "log":
      return <LogScreen key={second ?? "log"} kind={second === "audit" ? "audit" : "log"} />;
    case "clock":
      return <ClockScreen />;
  }
  return (
    <Empty title="This page does not exist.">
      <p>
        <a href="#/">Back to the overview</a>
      </p>
    </Empty>
  );
}

function BrokerTime() {
  const nowMs = useNowMs();
  const text = new Date(nowMs).toISOString();
  return (
    <time class="number clock" dateTime={text} title="Broker time (UTC)">
      {time(text).slice(0, 19)}
    </time>
  );
}

function ThemeSwitch() {
  const [chosen, setChosen] = useState<Theme>(theme);
  return (
    <select
      class="theme"
      aria-label="Colour scheme"
      value={chosen}
      onChange={(event) => {
        const next = event.currentTarget.value as Theme;
        setTheme(next);
        setChosen(next);
      }}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}
