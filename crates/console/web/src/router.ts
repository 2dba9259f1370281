// Routes in the fragment of the address: #/entity/orders/messages?state=active.

import { useLayoutEffect, useState } from "preact/hooks";

export interface Route {
  /** Decoded segments; none for the overview. */
  segments: string[];
  query: URLSearchParams;
}

function current(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  return { segments: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  // A layout effect: a plain one runs after the first paint, and a change of the fragment in between would be missed.
  useLayoutEffect(() => {
    const changed = () => setRoute(current());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** The address of a screen; an entity's path is one segment, encoded. */
export function href(...segments: string[]): string {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

export function entityHref(path: string, tab = "messages", query: Record<string, string> = {}): string {
  const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return href("entity", path, tab) + (parameters ? `?${parameters}` : "");
}

export function navigate(to: string): void {
  location.hash = to;
}
