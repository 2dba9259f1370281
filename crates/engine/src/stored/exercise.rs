//! Runs the readers of stored records over arbitrary bytes, for the fuzz target `stored_record` and its corpus.

use super::*;
use crate::{QueueId, SequenceNumber};

/// Reads a record whose kind the first byte selects. A record that is read is written in its present form, which must be
/// read again, and be the same when it is written again.
///
/// # Panics
/// If it is not.
pub fn stored_record(input: &[u8]) {
    let Some((kind, record)) = input.split_first() else { return };
    match kind % 10 {
        0 => check(record, read_entity, |entity| write_entity(&entity).into()),
        1 => check(record, read_head, |head| appended(|to| append_head(&head, to))),
        2 => check(
            record,
            |bytes| read_subscription(QueueId(9), bytes),
            |subscription| appended(|to| append_subscription(&subscription, to)),
        ),
        3 => check(record, read_counters, |number| appended(|to| append_counters(number, to))),
        4 => check(record, read_last_use, |at| appended(|to| append_last_use(at, to))),
        5 => check(record, read_next_partition, |next| write_next_partition(next).into()),
        6 => check(record, read_set_back, |set_back| write_set_back(set_back).into()),
        7 => check(record, read_remembered_id, |parts| appended(|to| append_remembered_id(parts, to))),
        8 => check(record, read_session_state, |read| {
            appended(|to| append_session_state(&read.session, read.updated_at, &read.state, to))
        }),
        _ => {
            let _ = (read_tombstone(record), body_of(SequenceNumber(1), record));
        }
    }
}

fn appended(append: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut record = Vec::new();
    append(&mut record);
    record
}

fn check<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T, String>, write: impl Fn(T) -> Vec<u8>) {
    let Ok(value) = read(bytes) else { return };
    // Compared as bytes: a property may be NaN, which is unequal to itself.
    let written = write(value);
    match read(&written) {
        Ok(again) => assert_eq!(write(again), written),
        Err(reason) => unreadable(&reason),
    }
}

#[allow(clippy::panic, reason = "a violated property must end the run")]
fn unreadable(reason: &str) {
    panic!("what was written is not read: {reason}");
}
