//! Runs the decoders of stored files and records over arbitrary bytes whose checksums are right, for the fuzz target
//! `stored_file` and its corpus. Not part of the API.

use bytes::Bytes;

use crate::{cluster, local};

/// Decodes a file or record, whose kind the first byte selects.
///
/// # Panics
/// If what is decoded is not the same after encoding it again.
pub fn stored_file(input: &[u8]) {
    let Some((kind, content)) = input.split_first() else { return };
    let bytes = Bytes::copy_from_slice(content);
    match kind % 3 {
        0 => local::exercise_hint(content),
        1 => local::exercise_manifest(content),
        _ => {
            cluster::exercise_record(&bytes);
            cluster::exercise_part(&bytes);
        }
    }
}
