// The broker's clock, which tests can advance.

import { useState } from "preact/hooks";
import { get, post } from "../api.js";
import { span, time } from "../format.js";
import { noteBrokerTime, useAction, useNowMs, usePoll, useTitle } from "../parts/hooks.js";
import { toast } from "../parts/toast.js";
import { Button, ErrorBox, Field } from "../parts/ui.js";

const STEPS: [string, number][] = [
  ["1 second", 1000],
  ["1 minute", 60_000],
  ["5 minutes", 300_000],
  ["1 hour", 3_600_000],
  ["1 day", 86_400_000],
];
const UNITS: [string, number][] = [
  ["seconds", 1000],
  ["minutes", 60_000],
  ["hours", 3_600_000],
  ["days", 86_400_000],
];

export function ClockScreen() {
  useTitle("Clock");
  const nowMs = useNowMs();
  const [amount, setAmount] = useState("30");
  const [unitMs, setUnitMs] = useState(60_000);
  const { busy, error, run } = useAction();
  const { error: readError } = usePoll(async (signal) => noteBrokerTime((await get<{ now: string }>("clock", {}, signal)).now), [], 10_000);
  const advance = (ms: number) =>
    run(async () => {
      const { now } = await post<{ now: string }>("clock", {}, { advance_ms: ms });
      noteBrokerTime(now);
      toast(`Advanced the clock by ${span(ms)}`);
    });
  return (
    <>
      <h1 tabIndex={-1}>Clock</h1>
      <ErrorBox error={readError} what="The clock can't be read." />
      <p class="big number">{time(new Date(nowMs).toISOString()).slice(0, 19)} UTC</p>
      <p>
        Advance the broker's clock: locks and messages expire and scheduled messages become due, each at its own time and in order. The clock can't be
        moved back; a restart resets it to the present.
      </p>
      <div class="toolbar" role="group" aria-label="Advance by">
        {STEPS.map(([label, ms]) => (
          <Button key={ms} disabled={busy} onClick={() => advance(ms)}>
            + {label}
          </Button>
        ))}
      </div>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          advance(Math.round(Number(amount) * unitMs));
        }}
      >
        <Field label="Other step">
          {(id) => <input id={id} class="narrow" type="number" min={0.001} step="any" required value={amount} onInput={(event) => setAmount(event.currentTarget.value)} />}
        </Field>
        <Field label="Unit">
          {(id) => (
            <select id={id} value={unitMs} onChange={(event) => setUnitMs(Number(event.currentTarget.value))}>
              {UNITS.map(([label, ms]) => (
                <option key={ms} value={ms}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Button type="submit" kind="primary" disabled={busy}>
          Advance
        </Button>
      </form>
      <ErrorBox error={error} what="The clock was not advanced." />
    </>
  );
}
