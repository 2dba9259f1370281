//! The embedded store: a segmented log in a directory of its own.
//!
//! # Design goals
//! * One machine, one process, one shard. Some ten thousand partitions, tens of millions of live keys.
//! * Messages of about 1 KB, written once, removed once, mostly in order; some stay for months. Values up to
//!   128 MiB, batches up to 256 MiB.
//! * A commit costs one write and one `fdatasync`, shared by all batches that wait meanwhile; nothing else is on the
//!   commit path: no allocation of disk blocks, no cleaning, no reading.
//! * 12 bytes of memory per live key in dense runs (a waiting message has two keys), 16 in sparse ones, about 40 more
//!   for a key that was overwritten or reused while an older version is still on disk.
//! * Opening reads neither message bodies nor dead records: a million waiting messages in well under a second.
//!
//! # Files
//! ```text
//! LOCK                    held while a process uses the directory; contains its process id
//! MANIFEST                the list of the store's segments with their cutoffs, the epoch, the format version
//! 0000000007.segment      records; the number is the segment's id and is never reused
//! 0000000007.hint         the data that opening needs of it; derived, rebuilt when missing or damaged
//! 0000000005.spare        a dead segment file, kept for reuse
//! MANIFEST.new            a manifest being written
//! RESERVE                 room for a manifest on a full disk; zeros
//! ```
//! All numbers are little-endian. All checksums are CRC-32C.
//! ```text
//! segment  magic 8 | version u32 | id u32 | salt u64 | zeros 36 | crc u32                              64 bytes
//!          frame, frame, … each at a multiple of 8, then bytes of the file's earlier use
//! frame    magic u32 | payload length u32 | records u32 | crc of the records' crcs u32
//!          | sequence u64 | salt u64 | 0 u32 | crc u32                                                 40 bytes
//!          record, record, …
//! record   crc u32 | value length u32 | kind u8 | space u8 | shadow kind u16 | shadow rank u32
//!          | partition u64 | number u64                                                                32 bytes
//!          value (of a range: its last number, u64)
//! hint     magic 8 | version u32 | id u32 | salt u64 | end u64
//!          records, with their offset in place of the crc and without message bodies
//!          (space u8 | partition u64 | highest number put u64) …
//!          | position of these u64 | crc u32
//! ```
//! A record's crc covers the rest of the record, so that reading one value verifies it. The crc of crcs binds the
//! records of a frame: halves of two attempts at the same place are never accepted as one frame.
//!
//! # The threads
//! ```text
//! submit ─▶ writer   collects batches, writes one frame, syncs, applies it to the index, answers (writer.rs)
//! read ───▶ readers  look up, read adjacent records together, verify, answer                  (reader.rs)
//!           keeper   prepares segments ahead, seals full ones and writes their hints, frees
//!                    dead ones, monitors free space                                           (keeper.rs)
//!           cleaner  copies live records out of mostly dead segments, at a bounded rate       (cleaner.rs)
//!           scrubber rereads sealed segments and reports damage, slowly                       (scrub.rs)
//! ```
//! They share the index and the accounts of segments under one lock, held for microseconds (state.rs), and the manifest
//! under another lock that only the keeper and the cleaner use.
//!
//! While the store opens, one thread reads hints and segments, in order, and two replay them, one the bodies and one
//! everything else (replay.rs). At most 16 MiB of hints, or a single one, are read ahead.
//!
//! # Life of a segment file
//! ```text
//!              keeper                writer               keeper             all its records dead
//!  new, zeros ───────▶ prepared ───────────▶ active ─────────────▶ sealed ──────────────────────▶ spare
//!  or spare            (in the manifest)     (frames)              (end in the manifest, hint)    or deleted
//!                                                                     │ mostly dead: cleaner
//!                                                                     ▼
//!                                                         copy of the live records, in its place
//! ```
//! * Blocks that were written before sync faster than fresh ones (measured on ext4: 141 µs against 213 µs), so a new
//!   segment is filled with zeros in the background if there is time for that, and dead ones are reused. A segment that
//!   is needed soon, and the very first one, is only allocated.
//! * The writer lists the records of the segment that it fills (up to 16 MiB of them), so that its hint can be written
//!   without reading it back.
//! * A hint is delayed until the next segment is sealed, nothing was sealed for a second, or the store is closed. Where
//!   messages are consumed as fast as they arrive, segments are dead before that and never get a hint. Opening after a
//!   crash reads the segments whose hints were delayed: one, and those the keeper had not processed yet.
//! * Two segments are kept prepared; the last one is for removals only. When a second one can't be prepared, the store
//!   is [`crate::Pressure::Full`]: batches that put message bodies are refused, while removals continue in the
//!   remaining space. The same applies when the file system has less than `reserve_bytes` or the directory reaches
//!   `size_bytes_max`. When preparing fails for another reason (no file descriptors, a failing device), the present
//!   segment is filled first; then the store is [`crate::Pressure::Failing`], with the same consequences. While no
//!   segment is prepared, the last eighth of the present one is for removals only.
//! * A batch larger than a segment gets a segment of its size. If there is no room for that, only this batch is refused.
//!
//! # The end of the log
//! **Frame n+1 is written only after frame n is synced.** So a crash leaves at most one unfinished frame, and it is the
//! last. Opening follows the sequence numbers through the open segments. After their end, no frame of the same salt
//! with a later sequence may follow, in this segment or the next: then the end is a torn write and is cut off. **If any
//! later frame follows, synced bytes were damaged, and opening is refused with file and offset**, unless the damage is
//! provably limited to single puts (see below). A clean close records the end, and after a second of idleness an empty
//! frame follows the last one, so that damage of the last real frame can't be taken for a torn write. A sealed segment
//! must match its seal exactly. Salts are random for each use of a file: frames from an earlier use, or a message that
//! contains a copy of a log file, are not accepted as frames.
//!
//! # Removed values must not reappear
//! Replaying all segments in order yields the state: for each key the newest record is valid. Freeing a segment drops
//! its records from that history, so it must not drop the newest record of a key while an older put of that key
//! remains. Only removals can be such records (if the newest record is a put, it is live, and live records keep their
//! segment). Hence each removal records where older versions of its keys may exist, its *shadows*: nowhere, in exactly
//! one segment, or in any since some rank.
//!
//! **A segment is freed only when it contains no live put and no removal whose shadows reach a segment that may still
//! contain a removed record.** The cleaner drops a removal under the same condition and copies it otherwise.
//!
//! * *Exactly one* is the common case, and needs no memory: a key whose number is higher than any put before has no
//!   older version, so its removal shadows only the segment that the index points at.
//! * A key that was overwritten, or put again after its removal, is marked in the index with the rank from which on
//!   versions may exist; its removal is kept while any segment from that rank on exists.
//! * A partition from which all numbers are removed at once takes no memory afterwards: the broker never uses it again. If it
//!   is used again, any of its keys may have older versions.
//! * *Ranks* are positions in the order of replay. A segment filled by commits has one rank, its id. The cleaner
//!   replaces a run of adjacent segments by one copy that covers all their ranks and has their position: every record
//!   newer than the copied ones is newer than the whole run. So copies need no ordering against commits, the writer is
//!   not involved in cleaning, and long-lived records gather in segments of their own instead of being mixed with young
//!   messages again and again.
//! * A copied removal moves towards newer records within its run: a removal of a single key is dropped if the key is
//!   live again, a removal of a range leaves out the keys that are live now.
//!
//! # Segments that may still contain removed records
//! A copy covers the ranks of its originals, but contains only the records needed when it was made. If every removal
//! that refers to these ranks were kept as long as the copy exists, then one message that is never consumed would keep
//! the removals of all its former neighbours, and the disk would grow with throughput. Hence each segment has a
//! *cutoff*, a rank, which the manifest records:
//!
//! **A segment contains no put that is removed by a removal written at a rank below the segment's cutoff.** An
//! overwriting put counts as a removal of the overwritten one.
//!
//! * The cutoff of a segment filled by commits is its own rank: its puts are newer than all removals at lower ranks.
//! * The cutoff of a copy is the lowest rank that was still open for appending when the cleaner began to select
//!   records. Everything at lower ranks was in sealed segments, hence synced and applied to the index. The cleaner
//!   copies a put only if the index points at it, so after all those removals the put was still the newest version of
//!   its key. A removal among them is newer than the put, because a copy is older in the order of replay than every
//!   segment that is not part of it. It therefore concerns another key.
//! * A copy of a copy contains a subset of the puts and gets a later cutoff. A copy without puts has the highest one.
//!
//! So a removal reaches a segment only if that segment's cutoff is at most the rank at which the removal was written.
//! That rank is not recorded: a copied removal is in a segment that covers it, and the highest rank of that segment is
//! an upper bound. The error is on the safe side: more is kept. The cleaner uses the segment from which the removal is
//! copied for this check, not the new copy.
//!
//! Once no older segment contains a record that a removal removes, none ever will: a copy gains no puts beyond those of
//! its originals. So a hint may omit such a removal for good. Replaying it nevertheless, when the hint is lost, changes
//! nothing. The cutoff becomes valid in the same change of the manifest that lists the copy; after a crash before it,
//! the originals are valid with their own cutoffs. Manifests of version 1 record none: the lowest rank of each segment
//! is assumed for them, which keeps more.
//!
//! A segment that is mostly alive is not cleaned, and its cutoff stays. When the removals that only such segments keep
//! outweigh the live data, these segments are copied to get a new cutoff (`cleaner/choice.rs`). With an idle cleaner
//! the disk thus holds at most four times the live bytes and a fixed number of segments.
//!
//! **The manifest is replaced as a whole and synced before anything relies on it**: a segment is listed before its
//! first frame, a copy replaces its originals in one step, and a file is renamed or overwritten only when it is no
//! longer listed. A crash at any point leaves one of the two lists, and files that neither lists are leftovers.
//!
//! # Disk failures
//! * A failed sync or a failed write of unknown extent ends the handle: all pending requests are answered
//!   [`crate::Error::InDoubt`], the lease is lost ([`crate::Lease::lost`]), and the next acquisition determines what is
//!   durable. The sync is not retried: after a failed sync the kernel marks the unwritten pages as clean. They may
//!   still be read from the cache, so an opening after an unclean end writes the last frame again and syncs it. Only
//!   the last one: frame n+1 is written after a successful sync of frame n. All other files are written again from the
//!   beginning after a failed sync.
//! * Lack of space is different: the frame is blanked, batches that grow the log are refused with
//!   [`crate::Error::Full`], and removals go to a prepared segment.
//! * A full disk does not prevent the store from starting: optional files are deleted in favour of the new manifest
//!   (`RESERVE`, hints, spares); if that is not enough, the old manifest stays valid until there is space.
//! * If a manifest can't be written, the old one stays valid, and the change is retried. A failure after its rename
//!   leaves the outcome in doubt and ends the handle: no file is removed that either manifest lists. The next opening
//!   makes one of them durable first, on a full disk by changing its name twice (first_manifest.rs).
//! * A damaged value is reported to its reader; the contents of a sealed segment are not verified at opening (that is
//!   the purpose of [`check()`]), and the cleaner does not change a damaged segment.
//! * Where opening has to read a segment, a record with a wrong checksum is skipped if it is certainly a put: its frame
//!   was synced, the lengths and checksums of the frame's records are consistent, and its length is impossible for a
//!   removal. The index points at it, and reading it reports the damage. No hint is written for such a segment.
//! * With any other damage opening is refused, because a lost removal would let a message reappear. [`Salvage`] writes
//!   the readable records to a new store (salvage.rs); it and [`check()`] continue after damage (survey.rs,
//!   examine.rs).
//!
//! # Backups
//! [`LocalStore::pin`] records the segments of one commit and keeps their files, [`write_backup`] links and copies them
//! while the store is in use, [`restore`] makes a data directory of them (backup/mod.rs). A file that shares its bytes
//! with a backup is never written to again.
//!
//! The version in all headers is raised when an older program could misread the files; the manifest has a version of
//! its own. `fixtures/` contains a directory of each version that the current program must open.

mod backup;
mod check;
mod cleaner;
mod descriptors;
mod directory;
mod examine;
mod fields;
mod figures;
mod filesystem;
mod first_manifest;
mod format;
mod frame;
mod handover;
mod hint;
mod keeper;
mod leftovers;
mod manifest;
mod name_syncs;
mod options;
mod pace;
mod pool;
mod prepare;
mod read_buffers;
mod reader;
mod recovery;
mod replay;
mod reserve;
mod salvage;
mod scan;
mod scrub;
mod segments;
mod shard;
mod shared;
mod slice;
mod startup_cache;
mod state;
#[cfg(any(test, feature = "testing"))]
mod stepped;
mod store;
mod survey;
mod tally;
mod threads;
mod walk;
mod warnings;
mod writer;

pub use backup::{
    BackupOptions, BackupPlan, BackupProgress, BackupReport, BackupWatch, PinnedPlan, RestoreReport,
    check_backup, check_backup_on, is_backup, restore, restore_on, write_backup, write_backup_on,
};
pub use check::{MayReturn, Report, SegmentReport, TornTail, check, check_on};
pub use figures::StorageFigures;
#[cfg(any(test, feature = "testing"))]
pub use filesystem::{Call, Event, Fault, SimulatedDisk};
pub use filesystem::{File, FileIdentity, Filesystem, Lock, OpenDirectory, RealFilesystem};
pub(crate) use hint::exercise as exercise_hint;
pub(crate) use manifest::exercise as exercise_manifest;
pub use options::LocalOptions;
pub use salvage::Salvage;
pub use scrub::ScrubDamage;
#[cfg(any(test, feature = "testing"))]
pub use stepped::{DiskUse, SteppedStore};
pub use store::LocalStore;
pub use survey::{Damage, DamageKind};

#[cfg(test)]
mod tests;
