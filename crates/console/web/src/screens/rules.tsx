// Rules of a subscription: filters and actions.

import { useState } from "preact/hooks";
import { pages, put, remove } from "../api.js";
import { subscriptionOf } from "../format.js";
import { useAction, usePoll } from "../parts/hooks.js";
import { RuleFields, actionText, draftOfRule, filterText, ruleOf } from "../parts/ruleform.js";
import { toast } from "../parts/toast.js";
import { Button, Dialog, ErrorBox, Field, Empty, Pill, Table } from "../parts/ui.js";
import type { EntityDetail, Rule } from "../types.js";
import { Tester } from "./tester.js";

const RULES_MAX = 2000;

export function RulesTab({ entity, changed }: { entity: EntityDetail; changed: () => void }) {
  const [edited, setEdited] = useState<{ rule?: Rule } | null>(null);
  const [deleted, setDeleted] = useState<Rule | null>(null);
  const shown = entity.rules ?? [];
  const isPartial = (entity.rule_count ?? 0) > shown.length;
  const { data: all } = usePoll((signal) => (isPartial ? pages<Rule>("rules", { path: entity.path }, "rules", RULES_MAX, signal) : Promise.resolve(null)), [entity.path, isPartial, entity.updated_at], 0);
  const rules = all?.rows ?? shown;
  const topic = subscriptionOf(entity.path)?.topic ?? "";
  return (
    <>
      <div class="toolbar">
        <Button kind="primary" onClick={() => setEdited({})}>
          Add a rule…
        </Button>
      </div>
      {rules.length === 0 ? (
        <Empty title="This subscription has no rules, so it receives no messages.">
          <p>A message is copied to a subscription if one of its rules matches. Add a rule that matches every message, or only some.</p>
        </Empty>
      ) : (
        <Table
          label="Rules"
          head={
            <>
              <th scope="col">Rule</th>
              <th scope="col">Filter</th>
              <th scope="col">Matches</th>
              <th scope="col">Action</th>
              <th scope="col">
                <span class="hidden">Delete</span>
              </th>
            </>
          }
        >
          {rules.map((rule) => (
            <tr key={rule.name}>
              <th scope="row">
                <button type="button" class="link" data-row onClick={() => setEdited({ rule })} aria-label={`Edit the rule ${rule.name}`}>
                  {rule.name}
                </button>
              </th>
              <td>
                <Pill>{rule.filter.kind}</Pill>
              </td>
              <td class="wrap code">{filterText(rule.filter)}</td>
              <td class="wrap code">{actionText(rule.action) || "–"}</td>
              <td>
                <Button kind="plain" onClick={() => setDeleted(rule)} aria-label={`Delete the rule ${rule.name}`}>
                  Delete…
                </Button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <h2>Which rules match this message?</h2>
      <Tester topic={topic} subscription={subscriptionOf(entity.path)?.name} />
      {edited && <RuleDialog path={entity.path} topic={topic} rule={edited.rule} onClose={() => setEdited(null)} changed={changed} />}
      {deleted && <DeleteDialog path={entity.path} rule={deleted} isLast={rules.length === 1} onClose={() => setDeleted(null)} changed={changed} />}
    </>
  );
}

interface RuleDialogProps {
  path: string;
  topic: string;
  rule?: Rule;
  onClose: () => void;
  changed: () => void;
}

function RuleDialog({ path, topic, rule, onClose, changed }: RuleDialogProps) {
  const [draft, setDraft] = useState(() => draftOfRule(rule));
  const [isTesting, setTesting] = useState(false);
  const { busy, error, run, clear } = useAction();
  const change = (next: typeof draft) => {
    clear();
    setDraft(next);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      await put("rule", { path, name: draft.name.trim() }, ruleOf(draft));
      toast(`Saved the rule ${draft.name}`);
      changed();
      onClose();
    });
  };
  return (
    <Dialog wide title={rule ? `Rule ${rule.name}` : "Add a rule"} onClose={onClose}>
      <form onSubmit={submit}>
        <Field label="Name">
          {(id) => <input id={id} required readOnly={rule !== undefined} value={draft.name} onInput={(event) => setDraft({ ...draft, name: event.currentTarget.value })} />}
        </Field>
        <RuleFields draft={draft} onChange={change} />
        <ErrorBox error={error} what="Not saved." />
        <div class="actions">
          <Button type="submit" kind="primary" disabled={busy}>
            Save
          </Button>
          <Button onClick={() => setTesting(!isTesting)} aria-expanded={isTesting}>
            Test with a message
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
      {isTesting && <Tester topic={topic} rule={() => ({ name: draft.name.trim() || "new rule", ...ruleOf(draft) })} />}
    </Dialog>
  );
}

function DeleteDialog({ path, rule, isLast, onClose, changed }: { path: string; rule: Rule; isLast: boolean; onClose: () => void; changed: () => void }) {
  const { busy, error, run } = useAction();
  const confirm = () =>
    run(async () => {
      await remove("rule", { path, name: rule.name });
      toast(`Deleted the rule ${rule.name}`);
      changed();
      onClose();
    });
  return (
    <Dialog title={`Delete the rule ${rule.name}`} onClose={onClose}>
      <p>{isLast ? "This is the last rule: without rules, the subscription receives no messages." : "Messages that match only this rule will no longer reach the subscription."}</p>
      <ErrorBox error={error} what="Not deleted." />
      <div class="actions">
        <Button kind="danger" disabled={busy} onClick={confirm}>
          Delete
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  );
}
