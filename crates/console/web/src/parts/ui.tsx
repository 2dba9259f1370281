// Small parts of screens.

import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import type { ApiError } from "../api.js";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: "primary" | "danger" | "plain" };

export function Button({ kind, class: extra, ...rest }: ButtonProps) {
  return <button type="button" {...rest} class={`button ${kind ?? ""} ${typeof extra === "string" ? extra : ""}`} />;
}

export function ErrorBox({ error, what, onRetry }: { error: ApiError | null; what: string; onRetry?: () => void }) {
  if (!error) return null;
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>{what}</strong> {error.message}
      </p>
      {error.advice && <p>{error.advice}</p>}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** An empty state: a title, and what will appear here or how to create it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what}…
    </p>
  );
}

type Tone = "good" | "warn" | "bad" | "info" | "none";

export function Pill({ tone = "none", children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`pill ${tone}`}>{children}</span>;
}

export function StatusPill({ status }: { status: string }) {
  return <Pill tone={status === "Active" ? "good" : "warn"}>{status}</Pill>;
}

const SPARK_WIDTH = 120;
const SPARK_HEIGHT = 28;

/** A line of the last values. The numbers themselves are beside it, so it is hidden from screen readers. */
export function Spark({ values, tone = "in" }: { values: number[]; tone?: "in" | "out" }) {
  const top = Math.max(...values, 1e-9);
  const step = SPARK_WIDTH / 59;
  const start = SPARK_WIDTH - (values.length - 1) * step;
  const points = values.map((value, n) => `${(start + n * step).toFixed(1)},${(SPARK_HEIGHT - 1 - (value / top) * (SPARK_HEIGHT - 3)).toFixed(1)}`);
  return (
    <svg class={`spark ${tone}`} viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <line x1="0" x2={SPARK_WIDTH} y1={SPARK_HEIGHT - 0.5} y2={SPARK_HEIGHT - 0.5} class="spark-base" />
      {values.length > 1 && <polyline points={points.join(" ")} fill="none" vector-effect="non-scaling-stroke" />}
    </svg>
  );
}

/** A table that scrolls horizontally where it does not fit, also by keyboard. */
export function Table({ label, head, children, class: extra = "" }: { label: string; head: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table class={extra}>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Field({ label, hint, children, class: extra = "" }: { label: string; hint?: string; children: (id: string) => ComponentChildren; class?: string }) {
  const id = useId();
  return (
    <div class={`field ${extra}`}>
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <p class="hint">{hint}</p>}
    </div>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  /** At the side, over the whole height. */
  drawer?: boolean;
  wide?: boolean;
  children: ComponentChildren;
}

/** A modal dialog; the browser keeps the focus inside, Esc closes it, the focus then returns to the previous element. */
export function Dialog({ title, onClose, drawer, wide, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={`${drawer ? "drawer" : ""} ${wide ? "wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== element.current) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        <Button kind="plain" aria-label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

interface Choice {
  id: string;
  label: ComponentChildren;
}

/** Links between the parts of a screen. */
export function TabLinks({ label, choices, selected, href }: { label: string; choices: Choice[]; selected: string; href: (id: string) => string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {choices.map(({ id, label: text }) => (
        <a key={id} href={href(id)} aria-current={id === selected ? "page" : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

/** One of several, as buttons that stay pressed. */
export function Segments({ label, choices, selected, onSelect }: { label: string; choices: Choice[]; selected: string; onSelect: (id: string) => void }) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {choices.map(({ id, label: text }) => (
        <button key={id} type="button" aria-pressed={id === selected} onClick={() => onSelect(id)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** Names and values in two columns. */
export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
