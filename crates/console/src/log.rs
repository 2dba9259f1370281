//! `GET log`: the last lines of the log and of the audit log, kept in memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peeklock_admin::Error;
use peeklock_engine::Timestamp;
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use crate::answer::{Outcome, found};
use crate::call::Call;
use crate::{Console, time};

/// Maximum number of lines kept of each kind.
const LINES_MAX: usize = 2_000;
/// Maximum number of lines in one answer.
const PAGE_MAX: u64 = 500;
/// Maximum number of fields kept of a line.
const FIELDS_MAX: usize = 16;

/// The log that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// The general log.
    Log,
    /// The audit log.
    Audit,
}

/// A logged line: without keys and message bodies.
#[derive(Debug, Clone)]
pub struct LogLine {
    /// The machine's time.
    pub at: Timestamp,
    /// The level, such as `INFO`.
    pub level: &'static str,
    /// The module.
    pub target: &'static str,
    /// The text.
    pub message: String,
    /// Other fields by name.
    pub fields: Map<String, Json>,
}

/// The last lines; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LogRing(Arc<Mutex<Rings>>);

#[derive(Debug)]
struct Rings {
    log: Ring,
    audit: Ring,
    /// Differs between processes: a part of the lines' ids, so that a restart does not look like an empty log.
    run: u32,
}

impl Default for Rings {
    fn default() -> Self {
        Self { log: Ring::default(), audit: Ring::default(), run: Uuid::new_v4().as_fields().0 }
    }
}

/// The id of a line: unique among the lines of all processes that a caller may meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineId {
    run: u32,
    number: u64,
}

impl LineId {
    fn parse(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self { run: u32::from_str_radix(run, 16).ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}-{}", self.run, self.number)
    }
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the first line in `lines`, counted from the start of the process.
    first: u64,
    lines: VecDeque<LogLine>,
}

impl LogRing {
    /// Keeps a line; removes the oldest of its kind if there are too many.
    pub fn push(&self, kind: LogKind, mut line: LogLine) {
        while line.fields.len() > FIELDS_MAX {
            let Some(name) = line.fields.keys().next_back().cloned() else { break };
            line.fields.remove(&name);
        }
        let mut rings = self.rings();
        let ring = rings.of(kind);
        if ring.lines.len() == LINES_MAX {
            ring.lines.pop_front();
            ring.first += 1;
        }
        ring.lines.push_back(line);
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines after another one, oldest first, each with its id; all lines if the other is of another process.
    fn after(&self, kind: LogKind, after: Option<LineId>, top: usize) -> Vec<(LineId, LogLine)> {
        let mut rings = self.rings();
        let run = rings.run;
        let ring = rings.of(kind);
        let after = after.filter(|after| after.run == run);
        let skip = after.map_or(0, |after| after.number.saturating_add(1).saturating_sub(ring.first));
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let lines = (ring.first..).zip(ring.lines.iter().cloned()).skip(skip).take(top);
        lines.map(|(number, line)| (LineId { run, number }, line)).collect()
    }
}

impl Rings {
    const fn of(&mut self, kind: LogKind) -> &mut Ring {
        match kind {
            LogKind::Log => &mut self.log,
            LogKind::Audit => &mut self.audit,
        }
    }
}

/// Lines after `after`, the `id` of a line; callers poll.
pub(crate) fn get(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    let kind = match call.text("kind") {
        None | Some("log") => LogKind::Log,
        Some("audit") => LogKind::Audit,
        Some(_) => return Err(Error::bad_request("The parameter 'kind' must be log or audit.")),
    };
    let read =
        |text| LineId::parse(text).ok_or_else(|| Error::bad_request("'after' must be the id of a line."));
    let after = call.text("after").map(read).transpose()?;
    let top = usize::try_from(PAGE_MAX).unwrap_or(1);
    let mut lines = console.log.after(kind, after, top + 1);
    let has_more = lines.len() > top;
    lines.truncate(top);
    let next = lines.last().filter(|_| has_more).map(|(id, _)| id.to_string());
    let shown: Vec<Json> = lines.into_iter().map(|(id, line)| shown(id, line)).collect();
    found(json!({ "lines": shown, "next": next }))
}

fn shown(id: LineId, line: LogLine) -> Json {
    json!({
        "id": id.to_string(),
        "at": time::json(line.at),
        "level": line.level,
        "target": line.target,
        "message": line.message,
        "fields": line.fields,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> LogLine {
        LogLine {
            at: Timestamp(0),
            level: "INFO",
            target: "t",
            message: number.to_string(),
            fields: Map::new(),
        }
    }

    #[test]
    fn the_last_lines_are_kept_under_their_numbers() {
        let ring = LogRing::default();
        (0..LINES_MAX + 5).for_each(|number| ring.push(LogKind::Log, line(number)));
        let run = ring.rings().run;
        let ids = |after: Option<u64>, top| {
            let lines = ring.after(LogKind::Log, after.map(|number| LineId { run, number }), top);
            assert!(lines.iter().all(|(id, line)| line.message == id.number.to_string()));
            lines.into_iter().map(|(id, _)| id.number).collect::<Vec<_>>()
        };
        assert_eq!(ids(None, 2), [5, 6]);
        assert_eq!(ids(Some(1), 1), [5], "dropped lines are left out");
        assert_eq!(ids(Some(2_003), 9), [2_004]);
        assert_eq!(ids(Some(2_004), 9), [0; 0]);
        assert_eq!(ids(Some(u64::MAX), 9), [0; 0]);
        assert!(ring.after(LogKind::Audit, None, 9).is_empty());
    }

    #[test]
    fn the_id_of_a_line_of_an_earlier_process_hides_no_lines() {
        let (before, after) = (LogRing::default(), LogRing::default());
        (0..9).for_each(|number| before.push(LogKind::Log, line(number)));
        after.push(LogKind::Log, line(0));
        let (last, _) = before.after(LogKind::Log, None, 9).pop().expect("lines");
        let last = LineId::parse(&last.to_string());
        assert_eq!(last.map(|id| id.number), Some(8));
        assert_eq!(after.after(LogKind::Log, last, 9).len(), 1);
        for text in ["", "8", "x-1", "1-", "00000001-x"] {
            assert_eq!(LineId::parse(text), None, "{text}");
        }
    }
}
