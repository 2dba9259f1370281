//! The embedded store: a segmented log in a directory of its own.
//!
//! # What it is built for
//! * One machine, one process, one shard. Some ten thousand partitions, tens of millions of live keys.
//! * Messages of about 1 KB, written once, removed once, mostly in order; some stay for months. Values up to
//!   128 MiB, batches up to 256 MiB.
//! * A commit costs one write and one `fdatasync`, shared by everything that waits meanwhile; nothing else is ever
//!   on its way: no allocation of disk blocks, no cleaning, no reading.
//! * 12 bytes of memory per live key in dense runs (a waiting message has two keys), 16 in sparse ones, about 40
//!   more for a key that was overwritten or used again while an older version is still on disk.
//! * Opening reads neither message contents nor dead records: a million waiting messages in well under a second.
//!
//! # Files
//! ```text
//! LOCK                    held while a process uses the directory; holds its process number
//! MANIFEST                the list of segments that count with their cutoffs, the epoch, the format version
//! 0000000007.segment      records; the number is the segment's id and is never used again
//! 0000000007.hint         what opening needs of it; derived, rebuilt when missing or damaged
//! 0000000005.spare        a dead segment file that waits to be filled again
//! MANIFEST.new            a manifest being written
//! RESERVE                 room for a manifest on a full disk; zeros
//! ```
//! All numbers are little-endian. All checksums are CRC-32C.
//! ```text
//! segment  magic 8 | version u32 | id u32 | salt u64 | zeros 36 | crc u32                              64 bytes
//!          frame, frame, … each at a multiple of 8, then whatever an earlier life of the file left
//! frame    magic u32 | payload length u32 | records u32 | crc of the records' crcs u32
//!          | sequence u64 | salt u64 | 0 u32 | crc u32                                                 40 bytes
//!          record, record, …
//! record   crc u32 | value length u32 | kind u8 | space u8 | shadow kind u16 | shadow rank u32
//!          | partition u64 | number u64                                                                32 bytes
//!          value (of a range: its last number, u64)
//! hint     magic 8 | version u32 | id u32 | salt u64 | end u64
//!          records, with their position in the crc's place and without message contents
//!          (space u8 | partition u64 | highest number put u64) …
//!          | position of these u64 | crc u32
//! ```
//! A record's crc covers the rest of it, so that reading one value verifies it. The crc of crcs binds the records
//! of a frame: halves of two attempts at the same place never pass for one frame.
//!
//! # The threads
//! ```text
//! submit ─▶ writer   drains, writes one frame, syncs, applies it to the index, answers       (writer.rs)
//! read ───▶ readers  look up, read neighbours together, verify, answer                       (reader.rs)
//!           keeper   prepares segments ahead, seals full ones and writes their hints, frees
//!                    dead ones, watches the room left                                        (keeper.rs)
//!           cleaner  copies what lives out of mostly dead segments, at a bounded rate        (cleaner.rs)
//!           scrubber reads sealed segments again and reports damage, slowly                  (scrub.rs)
//! ```
//! They share the index and the segments' accounts under one lock, held for microseconds (state.rs), and the
//! manifest under another that only the keeper and the cleaner take.
//!
//! While the store opens, one thread reads hints and segments, in order, and two replay them, one the bodies and one
//! everything else (replay.rs). At most 16 MiB of hints are read ahead, or one.
//!
//! # Life of a segment file
//! ```text
//!              keeper                writer               keeper             all its records dead
//!  new, zeros ───────▶ prepared ───────────▶ active ─────────────▶ sealed ──────────────────────▶ spare
//!  or spare            (in the manifest)     (frames)              (end in the manifest, hint)    or deleted
//!                                                                     │ mostly dead: cleaner
//!                                                                     ▼
//!                                                         copy of what lives, in its place
//! ```
//! * Blocks that were written before sync faster than fresh ones (measured on ext4: 141 µs against 213 µs), so a new
//!   segment is filled with zeros in the background as long as there is time for that, and dead ones are filled again.
//!   What is needed soon, and the very first segment, is only allocated.
//! * The writer lists the records of the segment that it fills (up to 16 MiB of them), so that no hint needs its segment read back.
//! * A hint waits until another segment is sealed behind its own, nothing was sealed for a second, or the store is closed. Where
//!   messages are consumed as fast as they come, segments die before that and never have one. Opening after a crash reads the
//!   segments whose hints waited: one, and what the keeper had not come to.
//! * Two segments are kept prepared; the last one is for removals only. When a second one can't be had, the store is
//!   [`crate::Pressure::Full`]: batches that put message contents are refused, what removes goes on in what is left. The same holds
//!   when the file system has less than `reserve_bytes` or the directory reaches `size_bytes_max`.
//! * A batch larger than a segment gets a segment of its size.
//!
//! # Where the log ends
//! **Frame n+1 is written only after frame n is synced.** So a crash leaves at most one unfinished frame, and it is
//! the last. Opening follows the sequence numbers through the open segments. Where they end, nothing of the same
//! salt with a later sequence may follow, in this segment or the next: then the end is a torn write and is cut
//! off. **If anything later follows, synced bytes were damaged, and opening is refused with file and offset**, unless
//! the damage is provably that of single puts (see below). A
//! clean close records the end, and after a second of idleness an empty frame follows the last one: damage of that
//! frame is then no torn write either. What is sealed must match
//! its seal to the byte. Salts are random per life of a file: frames of an earlier life, or a message that holds a
//! copy of a log file, are no frames.
//!
//! # What must not come back
//! Replaying all segments in order gives the state: for each key the newest record counts. Freeing a segment drops
//! its records from that history, so it must not drop the newest record of a key while an older put of that key
//! remains. Only removals can be such records (a newest put is live, and live records keep their segment). Hence
//! each removal says where older versions of its keys may lie, its *shadows*: nowhere, in exactly one segment, or in
//! any since some rank.
//!
//! **A segment is freed only when it holds no live put and no removal whose shadows reach a segment that may still
//! hold what it removed.** The cleaner drops a removal under the same condition and copies it otherwise.
//!
//! * *Exactly one* is the rule, known without any memory: a key whose number is higher than any put before has no
//!   older version, so its removal shadows only the segment that the index points at.
//! * A key that was overwritten, or put again after its removal, is marked in the index with the rank since when
//!   versions may exist; its removal is kept while any segment from there on is.
//! * *Ranks* are places in the order of replay. A segment filled by commits has one rank, its id. The cleaner
//!   replaces a run of neighbours by one copy that covers all their ranks and stands in their place: every record
//!   newer than the copied ones is newer than the whole run. So a copy never needs to be ordered against commits, the
//!   writer takes no part in cleaning, and survivors gather in segments of their own instead of being mixed with
//!   young messages again and again.
//! * A removal that is copied moves towards newer records within its run: one of a single key is dropped if the key
//!   lives again, one of a range leaves out the keys that live now.
//!
//! # Which segments may still hold what was removed
//! A copy covers the ranks of its originals, but holds only what was needed when it was made. If every removal of
//! something at these ranks were kept as long as the copy exists, then one message that stays for good would keep
//! the removals of all its former neighbours, and the disk would grow with throughput. Hence each segment has a
//! *cutoff*, a rank, which the manifest records:
//!
//! **A segment holds no put that a removal written at a rank below its cutoff removes.** An overwriting put counts
//! as a removal of what it overwrites.
//!
//! * Of a segment filled by commits the cutoff is its own rank: its puts are newer than all removals at lower ranks.
//! * Of a copy it is the lowest rank that was still open for appending when the cleaner began to look for survivors.
//!   Everything at lower ranks was in sealed segments, hence synced and applied to the index. The cleaner copies a
//!   put only if the index points at it, so after all those removals the put was still the newest version of its
//!   key. A removal among them is newer than the put, because a copy is older in the order of replay than every
//!   segment that is not part of it. It therefore concerns another key.
//! * A copy of a copy holds a subset of the puts and gets a later cutoff. A copy without puts has the highest one.
//!
//! So a removal reaches a segment only if that segment's cutoff is at most the rank at which the removal was
//! written. That rank is not recorded: a removal that was copied stands in a segment that covers it, and the highest
//! rank of that segment bounds it from above. This errs on the side of keeping. The cleaner asks with the segment
//! that the removal is copied from, not with the copy that it goes to.
//!
//! Once no older segment holds what a removal removed, none ever will: a copy gains no puts beyond those of its
//! originals. So a hint may leave such a removal out for good. Replaying it all the same, when the hint is lost,
//! changes nothing. The cutoff becomes valid in the same change of the manifest that lists the copy; after a crash
//! before it, the originals count with their own cutoffs. Manifests of version 1 record none: there the lowest rank
//! of each segment is assumed, which keeps more.
//!
//! A segment that is mostly alive is not cleaned, and its cutoff stays. When removals that only such segments keep
//! outweigh what lives, those are copied for the sake of the cutoff (`cleaner/choice.rs`). With an idle cleaner the
//! disk thus holds at most four times the live bytes and a fixed number of segments.
//!
//! **The manifest is replaced as a whole and synced before anything relies on it**: a segment is listed before its
//! first frame, a copy and its originals swap in one step, and a file is renamed or overwritten only after it is no
//! longer listed. A crash at any point leaves one of the two lists, and files that neither lists are leftovers.
//!
//! # When the disk fails
//! * A failed sync or a failed write of unknown extent ends the handle: everything waiting is answered
//!   [`crate::Error::InDoubt`], the lease is lost ([`crate::Lease::lost`]), and the next acquisition finds out what is
//!   durable. Nothing is tried again: after a failed sync the kernel takes what was to be written for clean. It may
//!   still be read from the cache, so an opening after an unclean end writes the last frame once more and syncs it.
//!   Only the last one: frame n+1 is written after a sync of frame n that succeeded. All other files are written anew
//!   after a failed sync.
//! * No room is different: the frame is blanked, what grows is refused with [`crate::Error::Full`], what removes goes to a
//!   prepared segment.
//! * A full disk does not keep the store from starting: what may be missing gives way to the new manifest (`RESERVE`,
//!   hints, spares); where that is not enough, the old manifest goes on to count until there is room.
//! * A manifest that can't be written leaves the old one, and the change is tried again. What fails after its rename
//!   leaves the outcome in doubt and ends the handle: no file is removed that either manifest lists.
//! * Damage below a single value is answered to whoever reads it; a sealed segment's contents are not verified on
//!   opening (that is what [`check()`] is for), and the cleaner leaves a damaged segment as it is.
//! * Where opening has to read a segment, a record with a wrong checksum is passed over if it is certain that it is a
//!   put: its frame was synced, the lengths and checksums of the frame's records fit together, and its length is none
//!   that a removal has. The index points at it, and whoever reads it finds out. No hint is written of such a segment.
//! * Any other damage is refused: a lost removal would let a message come back. [`Salvage`] writes what is readable to
//!   a new store (salvage.rs); [`check()`] and it read over damage (survey.rs, examine.rs).
//!
//! # Backups
//! [`LocalStore::pin`] notes the segments of one commit and keeps their files, [`write_backup`] links and copies them
//! while the store works, [`restore`] makes a data directory of them (backup/mod.rs). A file that shares its bytes
//! with a backup is never written to again.
//!
//! The version in all headers is raised when yesterday's program could misread today's files; the manifest has a
//! version of its own. `fixtures/` holds a directory of each version that today's program must open.

mod backup;
mod check;
mod cleaner;
mod descriptors;
mod directory;
mod examine;
mod fields;
mod figures;
mod filesystem;
mod format;
mod frame;
mod handover;
mod hint;
mod keeper;
mod leftovers;
mod manifest;
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
mod state;
#[cfg(any(test, feature = "testing"))]
mod stepped;
mod store;
mod survey;
mod walk;
mod warm;
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
pub use filesystem::{File, Filesystem, Lock, OpenDirectory, RealFilesystem};
pub use options::LocalOptions;
pub use salvage::Salvage;
pub use scrub::ScrubDamage;
#[cfg(any(test, feature = "testing"))]
pub use stepped::{DiskUse, SteppedStore};
pub use store::LocalStore;
pub use survey::{Damage, DamageKind};

#[cfg(test)]
mod tests;
