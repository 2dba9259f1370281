// Shortcuts of one key. They can be switched off, since speech input may type them by mistake (WCAG 2.1.4).

import { useEffect } from "preact/hooks";
import { navigate } from "../router.js";

const STORED = "peeklock-shortcuts";
const GOTO: Record<string, string> = { o: "#/", e: "#/entities", d: "#/dead-letters", c: "#/connections", l: "#/log" };

export function shortcutsEnabled(): boolean {
  return localStorage.getItem(STORED) !== "off";
}

export function enableShortcuts(enabled: boolean): void {
  if (enabled) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, "off");
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Where rows and search fields are looked for: the topmost dialog, else the page. */
function scope(): ParentNode {
  return [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
}

function moveRow(step: number): void {
  const rows = [...scope().querySelectorAll<HTMLElement>("[data-row]")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next]?.focus();
}

export function useShortcuts(showHelp: () => void): void {
  useEffect(() => {
    let awaitsTarget = false;
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && isTyping(event.target) && !document.querySelector("dialog[open]")) {
        return (event.target as HTMLElement).blur();
      }
      if (isTyping(event.target) || !shortcutsEnabled()) return;
      const inDialog = document.querySelector("dialog[open]") !== null;
      const target = awaitsTarget ? GOTO[event.key] : undefined;
      awaitsTarget = event.key === "g";
      if (target && !inDialog) return navigate(target);
      if (event.key === "j") moveRow(1);
      else if (event.key === "k") moveRow(-1);
      else if (event.key === "?" && !inDialog) showHelp();
      else if (event.key === "/") scope().querySelector<HTMLElement>("[data-search]")?.focus();
      else if (event.key === "Escape" && !inDialog) document.querySelector<HTMLAnchorElement>("[data-up]")?.click();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [showHelp]);
}
