//! Describes damage of a data directory: what is affected, and how to repair it.

use std::fmt::Write;
use std::path::Path;

use peeklock_engine::runtime::inspect::{StoredKeys, StoredNames, Subject};
use peeklock_storage::local::{Damage, Report, Salvage};
use peeklock_storage::{PartitionId, Space};
use serde_json::{Value, json};

/// The names of stored entities.
pub(crate) struct Described {
    names: StoredNames,
}

impl Described {
    /// Reads the names that are readable.
    pub(crate) fn of(store: &Salvage) -> Self {
        let names = StoredNames::read(&store.keys(Space::Meta), &|key| store.value(key));
        Self { names }
    }

    pub(crate) const fn names(&self) -> &StoredNames {
        &self.names
    }

    /// The name of a partition's owner, or its number.
    pub(crate) fn owner(&self, partition: PartitionId) -> String {
        match self.names.name(partition) {
            Some(name) => format!("\"{name}\""),
            None => format!("the entity of partition {} (its name can't be read)", partition.0),
        }
    }

    /// All damage, line by line, with its consequences; empty without damage.
    pub(crate) fn text(&self, directory: &Path, report: &Report) -> String {
        let mut text = String::new();
        for damage in &report.damage {
            let file = damage.file.strip_prefix(directory).unwrap_or(&damage.file).display();
            let concerns = damage.key.map_or_else(String::new, |key| format!(" of {}", self.concerns(key)));
            let covered = if damage.is_covered { "; its hint file lists the contents" } else { "" };
            let Damage { offset, reason, .. } = damage;
            let kind = damage.kind.name();
            let _ = writeln!(text, "  {file}, byte {offset}: {kind}{concerns}: {reason}{covered}");
        }
        for doubt in &report.may_return {
            let owner = self.owner(doubt.partition);
            let (count, first, last) = (doubt.count, doubt.first, doubt.last);
            let _ = writeln!(
                text,
                "  {owner}: {count} messages from number {first} to {last} may have been completed, dead-lettered or deferred: the records of that may be lost"
            );
        }
        match (&report.refusal, report.damage.is_empty()) {
            (Some(_), _) => {
                let directory = directory.display();
                let _ = writeln!(
                    text,
                    "The broker does not start on this directory. Restore a backup, or copy the directory and run\n  \
                     peeklock store salvage {directory} --dry-run\n  peeklock store salvage {directory}\n\
                     See docs/damaged-store.md."
                );
            }
            (None, false) => {
                text.push_str(
                    "The broker starts; damaged messages stay in quarantine, everything else is served.\n",
                );
            }
            (None, true) => {}
        }
        text
    }

    fn concerns(&self, key: peeklock_storage::Key) -> String {
        let Subject { entity, sequence_number, what } = self.names.describe(key);
        let entity =
            entity.map_or_else(|| format!("partition {}", key.partition.0), |name| format!("\"{name}\""));
        match sequence_number {
            Some(number) => format!("{what}, {entity} number {number}"),
            None => format!("{what}, {entity}"),
        }
    }

    /// All damage as JSON.
    pub(crate) fn json(&self, report: &Report) -> Vec<Value> {
        let one = |damage: &Damage| {
            let subject = damage.key.map(|key| self.names.describe(key));
            json!({
                "file": damage.file.display().to_string(),
                "offset": damage.offset,
                "kind": damage.kind.name(),
                "entity": subject.as_ref().and_then(|subject| subject.entity.clone()),
                "sequence_number": subject.as_ref().and_then(|subject| subject.sequence_number),
                "concerns": subject.as_ref().map(|subject| subject.what),
                "reason": damage.reason,
                "covered_by_hint": damage.is_covered,
            })
        };
        report.damage.iter().map(one).collect()
    }

    /// Messages that may reappear, as JSON.
    pub(crate) fn may_return_json(&self, report: &Report) -> Vec<Value> {
        let one = |doubt: &peeklock_storage::local::MayReturn| {
            json!({
                "entity": self.names.name(doubt.partition),
                "partition": doubt.partition.0,
                "count": doubt.count,
                "first": doubt.first,
                "last": doubt.last,
            })
        };
        report.may_return.iter().map(one).collect()
    }
}

/// The live keys of a store.
pub(crate) fn keys(store: &Salvage) -> StoredKeys {
    StoredKeys { meta: store.keys(Space::Meta), head: store.keys(Space::Head), body: store.keys(Space::Body) }
}

/// All damage in a directory that does not open; `None` if it can't be determined.
pub(crate) fn explain(directory: &Path) -> Option<String> {
    let store = Salvage::begin_read_only(directory).ok()?;
    Some(Described::of(&store).text(directory, &store.report()))
}
