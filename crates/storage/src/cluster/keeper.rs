//! The background task that keeps the log small: drops dead bodies, copies live bodies out of mostly dead rows, writes
//! checkpoints and trims.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use std::pin::pin;
use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::sync::oneshot;

use super::log::{RecordPlace, Slice};
use super::part::{Bound, Mark};
use super::record::{Copy, FrameRead, Position, read_frame};
use super::recovery::pause_before;
use super::reserve::Reserve;
use super::rows::Row;
use super::shard::closed;
use super::shared::Shared;
use super::writer::{MaintenanceWrite, Request, Written};
use crate::{Epoch, Error};

/// Most rows dropped by one call.
const DROPPED_MAX: usize = 1024;
/// Bytes of a row that are read at a time and copied in one record.
const COPIED_BYTES: u32 = 1 << 20;
/// A row is copied when less than one part in `LIVE_PART` is alive.
const LIVE_PART: u64 = 2;
/// The same fraction while the shard is full, when copying is worthwhile even for little garbage.
const LIVE_PART_FULL: (u64, u64) = (7, 8);

/// State of the task; see the module.
struct Keeper {
    shared: Arc<Shared>,
    /// Weak, so that this task does not keep the writer alive after the shard's handle is dropped.
    requests: WeakUnboundedSender<Request>,
    /// Rows that can't be copied because they are damaged.
    damaged: BTreeSet<RecordPlace>,
    /// Rows that were sparse in the previous round.
    sparse: BTreeSet<RecordPlace>,
    /// After a complete checkpoint, the trim that is still to be done: the checkpoint's first record, and the bytes of
    /// heads before it.
    trim: Option<(RecordPlace, u64)>,
    reserve: Reserve,
    /// The epoch of the last request to drop bodies.
    epoch: Epoch,
}

/// Runs until the lease is lost.
pub(super) async fn run(shared: Arc<Shared>, requests: WeakUnboundedSender<Request>) {
    let epoch = shared.epoch();
    let mut keeper = Keeper {
        shared,
        requests,
        damaged: BTreeSet::new(),
        sparse: BTreeSet::new(),
        trim: None,
        reserve: Reserve::default(),
        epoch,
    };
    while keeper.shared.cause().is_none() {
        keeper.wait().await;
        if let Err(error) = keeper.round().await {
            keeper.note(&error);
        }
    }
}

impl Keeper {
    async fn wait(&self) {
        let round = self.shared.environment.pause(self.shared.options.round_pause);
        let bell = pin!(self.shared.keeper_bell.notified());
        match select(round, bell).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    /// Every failed step is repeated in the next round. If another epoch owns the log, the writer finds out whether it
    /// is its own newer epoch, in which it has seized the log again.
    fn note(&self, error: &Error) {
        match error {
            _ if self.shared.cause().is_some() => {}
            Error::Fenced { .. } => {
                if let Some(requests) = self.requests.upgrade() {
                    // A failed send means that the writer has ended and knows the cause already.
                    let _ = requests.send(Request::Doubt(self.epoch));
                }
            }
            _ => tracing::info!(shard = self.shared.shard.0, %error, "the cleaning of the log is postponed"),
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        if self.shared.cause().is_some() {
            return Ok(());
        }
        if let Err(error) = self.reserve.round(&self.shared).await {
            self.note(&error);
        }
        self.drop_dead().await?;
        self.trim().await?;
        // Both steps use room before they free any; the reserve for removals must not be spent on them.
        let has_room = !self.shared.is_refused();
        if self.is_checkpoint_due() && (has_room || self.is_checkpoint_small()) {
            self.checkpoint().await?;
        }
        if has_room {
            self.clean().await?;
        }
        self.shared.announce();
        Ok(())
    }

    /// Drops all bodies that are dead at this point.
    async fn drop_dead(&mut self) -> Result<(), Error> {
        let dead = self.shared.account().dead.clone();
        for rows in dead.chunks(DROPPED_MAX) {
            let places: Vec<RecordPlace> = rows.iter().map(|row| row.place).collect();
            self.epoch = self.shared.epoch();
            self.shared.log.drop_bodies(self.epoch, places).await?;
            let mut account = self.shared.account();
            // Only this task removes entries from the list, and always from its front.
            account.dead.drain(..rows.len());
            account.dead_bytes -= rows.iter().map(|row| row.total_bytes).sum::<u64>();
            drop(account);
            self.shared.announce();
        }
        Ok(())
    }

    async fn trim(&mut self) -> Result<(), Error> {
        let Some((before, bytes)) = self.trim else { return Ok(()) };
        self.epoch = self.shared.epoch();
        self.shared.log.trim(self.epoch, before).await?;
        self.shared.account().trimmed_bytes = bytes;
        self.trim = None;
        self.shared.announce();
        Ok(())
    }

    fn is_checkpoint_due(&self) -> bool {
        let options = &self.shared.options;
        let is_full = self.shared.is_full();
        let account = self.shared.account();
        let read_again = account.appended_bytes - account.checkpoint_at_bytes;
        let grown = read_again.saturating_sub(account.checkpoint_bytes);
        // On a full shard, a checkpoint frees room if most heads are about removed messages.
        let bytes = if is_full { options.part_bytes as u64 } else { options.checkpoint_bytes };
        let records = account.applied.0 - account.checkpoint_at.0.min(account.applied.0);
        grown >= bytes.max(account.checkpoint_bytes)
            || records >= options.checkpoint_records.max(2 * account.checkpoint_records)
    }

    /// Whether the checkpoint is so small, because little is alive, that it takes little of the reserve.
    fn is_checkpoint_small(&self) -> bool {
        let part = self.shared.state().part(Bound::START, self.shared.options.part_bytes);
        part.to == Bound::End
    }

    /// Has all parts of a checkpoint written, then its mark. Before the mark, drops every body that is in no part
    /// because it is dead: an owner that starts reading at the mark would not know of it.
    async fn checkpoint(&mut self) -> Result<(), Error> {
        let mut from = Bound::START;
        let mut begins = None;
        let mut bytes = 0;
        while let Bound::Key(_) = from {
            let written = self.with_retries(|| MaintenanceWrite::Part(from)).await?;
            begins.get_or_insert((written.place, written.bytes_before));
            bytes += written.heads_bytes;
            from = written.next;
            self.shared.environment.pause(self.shared.options.part_pause).await;
        }
        let Some((place, bytes_before)) = begins else { return Ok(()) };
        self.drop_dead().await?;
        let mark = self.with_retries(|| MaintenanceWrite::Mark(Mark { begins: place, bytes })).await?;
        {
            let mut account = self.shared.account();
            account.checkpoint_at_bytes = bytes_before;
            account.checkpoint_at = place;
            account.checkpoint_bytes = bytes;
            account.checkpoint_records = mark.place.0 - place.0;
        }
        tracing::debug!(shard = self.shared.shard.0, bytes, "checkpoint");
        self.trim = Some((place, bytes_before));
        self.trim().await
    }

    /// Has a record written; repeats the attempt if the log could not be reached, but not if it has no room, since dead
    /// bodies must be dropped first then.
    async fn with_retries(&self, write: impl Fn() -> MaintenanceWrite) -> Result<Written, Error> {
        let mut attempt = 0;
        loop {
            match self.write_maintenance(write()).await {
                Err(Error::Unavailable { .. })
                    if self.shared.cause().is_none() && !self.shared.is_refused() =>
                {
                    attempt += 1;
                }
                result => return result,
            }
            let pause: Duration = pause_before(attempt);
            self.shared.environment.pause(pause).await;
        }
    }

    async fn write_maintenance(&self, maintenance: MaintenanceWrite) -> Result<Written, Error> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.upgrade().ok_or_else(closed)?;
        requests.send(Request::MaintenanceWrite(maintenance, reply)).map_err(|_| closed())?;
        drop(requests);
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Copies live bodies out of mostly dead rows, up to the limit of bytes read in a round.
    async fn clean(&mut self) -> Result<(), Error> {
        let mut left = self.shared.options.clean_bytes_per_round;
        let mut copies = Vec::new();
        for row in self.sparse_rows() {
            let Some(after) = left.checked_sub(row.total_bytes.min(left)).filter(|_| left > 0) else { break };
            left = after;
            self.collect(row, &mut copies).await?;
        }
        self.write_copies(&mut copies).await
    }

    /// Rows worth copying, those with the most garbage first. While there is room, a row must have been sparse for a
    /// whole round: most messages are removed soon, and their row is then empty without a copy.
    fn sparse_rows(&mut self) -> Vec<Row> {
        let is_full = self.shared.is_full();
        let (part, of) = if is_full { LIVE_PART_FULL } else { (1, LIVE_PART) };
        let is_sparse = |row: &Row| {
            let live = row.total_bytes - row.dead_bytes();
            live * of < row.total_bytes * part && !self.damaged.contains(&row.place)
        };
        let mut rows: Vec<Row> = self.shared.state().rows.in_order().filter(is_sparse).collect();
        let sparse = rows.iter().map(|row| row.place).collect();
        let before = std::mem::replace(&mut self.sparse, sparse);
        rows.retain(|row| is_full || before.contains(&row.place));
        rows.sort_by_key(|row| std::cmp::Reverse(row.dead_bytes()));
        rows
    }

    /// Reads a row and collects copies of its live frames. Writes them when they reach the size of one record.
    async fn collect(&mut self, row: Row, copies: &mut Vec<Copy>) -> Result<(), Error> {
        let total = u32::try_from(row.total_bytes).unwrap_or(u32::MAX);
        let (mut offset, mut len) = (0, COPIED_BYTES);
        while offset < total {
            let slice = Slice { place: row.place, offset, len: len.min(total - offset) };
            let read = self.shared.log.bodies(vec![slice]).await?.pop().flatten();
            // The row is gone, because everything in it died in the meantime.
            let Some(read) = read else { return Ok(()) };
            match self.take_frames(row.place, offset, &read, copies) {
                Taken::Bytes(bytes) => (offset, len) = (offset + bytes, COPIED_BYTES),
                Taken::Needs(bytes) if bytes > slice.len && bytes <= total - offset => len = bytes,
                Taken::Needs(_) => {
                    let error =
                        self.shared.corrupt(row.place, offset, "the bodies of the record are damaged");
                    tracing::error!(%error, "damaged live data can't be moved and stays where it is");
                    self.damaged.insert(row.place);
                    return Ok(());
                }
            }
            if copied_bytes(copies) >= COPIED_BYTES as usize {
                self.write_copies(copies).await?;
            }
        }
        Ok(())
    }

    /// Processes the frames in `read`, which begins at `offset` of the row.
    fn take_frames(&self, place: RecordPlace, offset: u32, read: &Bytes, copies: &mut Vec<Copy>) -> Taken {
        let state = self.shared.state();
        let mut taken = 0_u32;
        loop {
            let rest = read.slice(taken as usize..);
            match read_frame(&rest) {
                FrameRead::Whole(frame, len) => {
                    let from = Position { place, offset: offset + taken };
                    if state.stored(frame.key).is_some_and(|stored| stored.position == from) {
                        copies.push(Copy { key: frame.key, value: frame.value, from });
                    }
                    taken += len;
                }
                _ if taken > 0 => return Taken::Bytes(taken),
                FrameRead::Partial(len) => return Taken::Needs(len),
                FrameRead::Damaged => return Taken::Needs(u32::MAX),
            }
        }
    }

    async fn write_copies(&self, copies: &mut Vec<Copy>) -> Result<(), Error> {
        if !copies.is_empty() {
            self.write_maintenance(MaintenanceWrite::Copy(std::mem::take(copies))).await?;
        }
        Ok(())
    }
}

/// Result of reading from a row.
enum Taken {
    /// Complete frames with this total length in bytes.
    Bytes(u32),
    /// No complete frame: the first one needs this many bytes, or it is damaged.
    Needs(u32),
}

fn copied_bytes(copies: &[Copy]) -> usize {
    copies.iter().map(|copy| copy.value.len()).sum()
}
