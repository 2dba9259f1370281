// Keyboard shortcuts and notes about the console.

import { useState } from "preact/hooks";
import { enableShortcuts, shortcutsEnabled } from "../parts/keyboard.js";
import { Dialog } from "../parts/ui.js";
import type { Session } from "../types.js";

const KEYS: [string, string][] = [
  ["/", "Search or filter"],
  ["j, k", "Next row, previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Close, or go up one level"],
  ["g o", "Overview"],
  ["g e", "Entities"],
  ["g d", "Dead letters"],
  ["g c", "Connections"],
  ["g l", "Log"],
  ["?", "This help"],
];

export function HelpDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  const [enabled, setEnabled] = useState(shortcutsEnabled);
  return (
    <Dialog title="Help" onClose={onClose}>
      <h3>Keyboard</h3>
      <dl class="facts">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={enabled}
          onChange={(event) => {
            enableShortcuts(event.currentTarget.checked);
            setEnabled(event.currentTarget.checked);
          }}
        />{" "}
        Single-key shortcuts
      </label>
      <h3>Messages</h3>
      <p>
        The console browses messages, which neither locks them nor counts as a delivery. Actions skip locked messages: these belong to their receiver
        until it settles them or the lock expires.
      </p>
      <p>
        Times are UTC. Filters use the SQL of subscription rules, for example <code>sys.Label = 'order' AND amount &gt; 5</code>.
      </p>
      <h3>Access</h3>
      <p>
        {session.authorization_required ? (
          <>
            Signed in as <strong>{session.principal}</strong> with {session.rights.length > 0 ? session.rights.join(", ") : "no rights to the whole namespace"}.
          </>
        ) : (
          "This broker requires no authorization: every client that can reach it has all rights."
        )}
      </p>
    </Dialog>
  );
}
