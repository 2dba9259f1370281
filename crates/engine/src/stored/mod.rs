//! The values in the store, one file for each kind of record; `crate::layout` has their keys.
//!
//! A stored record is a message of its own, never a struct of the broker's logic. Its fields have tags (protobuf, by `prost`),
//! so that fields can be added:
//!
//! ```text
//! 0x10, the length as a varint, the fields
//! ```
//!
//! - A missing field means what the record meant before the field existed. An unknown field is skipped, and lost when this
//!   version writes the record. So a new option is one line in [`options`].
//! - A tag is never reused, and a field's type never changes.
//! - A field that earlier versions must not skip needs a new first byte, which they refuse.
//! - The length reveals missing or excess bytes, which protobuf alone can't. A record that can't be decoded is refused with
//!   the reason, as damage of this one record.
//!
//! Earlier versions wrote positional records, with a first byte below `0x10` (the version). [`legacy`] reads them. Such a
//! record is replaced by its new form when it is next written; only tombstones are still written in that form, because
//! earlier versions understand them.
//!
//! | record | file | by position | with tags |
//! |---|---|---|---|
//! | a queue or topic | `entity.rs`, `options.rs` | 1, 2 | `0x10` |
//! | the next free partition | `next_partition.rs` | 1 | `0x10` |
//! | the last correction of the clock | `set_back.rs` | 1 | `0x10` |
//! | the counters of a queue, topic or subscription | `counters.rs` | 1 | `0x10` |
//! | its last use | `last_use.rs` | 1 | `0x10` |
//! | a subscription | `subscription.rs`, `rule.rs`, `options.rs` | 1, 2, 3 | `0x10` |
//! | the head of a message: everything but its body | `message.rs`, `property.rs`, `selectable.rs` | 1, 2, 3, 5 | `0x10` |
//! | the tombstone of a topic's message, of a forwarded one until 0.1 | `legacy/message.rs` | 4 | none |
//! | an id for duplicate detection | `remembered_id.rs` | 1 | `0x10` |
//! | the state of a session | `session_state.rs` | 1 | `0x10` |
//!
//! Bodies are the senders' bytes, stored unchanged.

mod counters;
mod entity;
pub(crate) mod exercise;
mod frame;
mod last_use;
mod legacy;
mod message;
mod next_partition;
mod options;
mod property;
mod remembered_id;
mod rule;
mod selectable;
mod session_state;
mod set_back;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use self::counters::{append_counters, read_counters};
pub(crate) use self::entity::{EntityRecord, read_entity, write_entity};
pub(crate) use self::last_use::{append_last_use, read_last_use};
pub(crate) use self::legacy::{append_tombstone, read_tombstone};
pub(crate) use self::message::{append_head, body_of, read_head};
pub(crate) use self::next_partition::{read_next_partition, write_next_partition};
pub(crate) use self::remembered_id::{RememberedParts, append_remembered_id, read_remembered_id};
pub(crate) use self::session_state::{append_session_state, read_session_state};
pub(crate) use self::set_back::{read_set_back, write_set_back};
pub(crate) use self::subscription::{append_subscription, read_subscription};
