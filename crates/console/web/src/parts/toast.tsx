// Short confirmations, announced to screen readers.

import { useEffect, useState } from "preact/hooks";

const SHOWN_MS = 6000;

let show: (text: string) => void = () => {};

/** Confirms that something was done. */
export function toast(text: string): void {
  show(text);
}

export function Toasts() {
  const [text, setText] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    show = (next) => {
      clearTimeout(timer);
      setText(next);
      timer = setTimeout(() => setText(""), SHOWN_MS);
    };
    return () => {
      clearTimeout(timer);
      show = () => {};
    };
  }, []);
  return (
    <div class="toast" role="status" aria-live="polite" hidden={text === ""}>
      {text}
    </div>
  );
}
