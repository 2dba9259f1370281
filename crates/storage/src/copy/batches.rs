//! Writes to the target: batches within its limits, several of them under way at a time.

use std::collections::VecDeque;

use bytes::Bytes;

use super::marker::{MARKER, Marker};
use super::{CopyError, CopyOptions, CopyProgress, CopyStage};
use crate::{Batch, Commit, Key, Lease, Limits};

/// Most values in one batch.
const BATCH_VALUES_MAX: usize = 4_096;

/// Writer of the target; see the module.
pub(super) struct Batches {
    target: Lease,
    batch_bytes: usize,
    under_way_max: usize,
    limits: Limits,
    batch: Batch,
    under_way: VecDeque<Commit>,
    /// The marker for the values put so far.
    marker: Marker,
}

impl Batches {
    pub(super) fn new(target: Lease, options: &CopyOptions, marker: Marker) -> Self {
        let limits = target.limits();
        let room = limits.batch_bytes_max.saturating_sub(marker.encode().len());
        Self {
            batch_bytes: options.batch_bytes.min(room),
            under_way_max: options.batches_under_way.max(1),
            limits,
            target,
            batch: Batch::new(),
            under_way: VecDeque::new(),
            marker,
        }
    }

    pub(super) fn progress(&self) -> CopyProgress {
        let Marker { values, bytes, .. } = self.marker;
        CopyProgress { stage: CopyStage::Copying, values, bytes }
    }

    /// Adds a value; keys must come in the order of the copy.
    pub(super) async fn put(&mut self, key: Key, value: Bytes) -> Result<(), CopyError> {
        self.make_room(key, value.len()).await?;
        self.marker.last = Some(key);
        self.marker.values += 1;
        self.marker.bytes += value.len() as u64;
        self.add(key, Some(value)).await
    }

    /// Corrects a value that differs; the marker stays unchanged.
    pub(super) async fn correct(&mut self, key: Key, value: Option<Bytes>) -> Result<(), CopyError> {
        self.make_room(key, value.as_ref().map_or(0, Bytes::len)).await?;
        self.add(key, value).await
    }

    /// Sends the current batch if `bytes` more don't fit.
    async fn make_room(&mut self, key: Key, bytes: usize) -> Result<(), CopyError> {
        let bytes_max = self.limits.value_bytes_max.min(self.limits.batch_bytes_max);
        if bytes > bytes_max {
            return Err(CopyError::TooLarge { key, bytes, bytes_max });
        }
        let is_full =
            self.batch.value_bytes() + bytes > self.batch_bytes || self.batch.len() >= BATCH_VALUES_MAX;
        if is_full && !self.batch.is_empty() { self.flush().await } else { Ok(()) }
    }

    async fn add(&mut self, key: Key, value: Option<Bytes>) -> Result<(), CopyError> {
        match value {
            Some(value) => self.batch.put(key, value),
            None => self.batch.delete(key),
        }
        if self.batch.value_bytes() <= self.batch_bytes {
            return Ok(());
        }
        // A large value fills a batch alone, without room for the marker, which must not become durable before the
        // value.
        self.settle().await?;
        self.send().await?;
        self.settle().await
    }

    /// Sends the current batch, with the marker.
    async fn flush(&mut self) -> Result<(), CopyError> {
        self.batch.put(MARKER, self.marker.encode());
        self.send().await
    }

    async fn send(&mut self) -> Result<(), CopyError> {
        let batch = std::mem::take(&mut self.batch);
        self.under_way.push_back(self.target.submit(batch));
        while self.under_way.len() >= self.under_way_max {
            self.await_first().await?;
        }
        Ok(())
    }

    async fn await_first(&mut self) -> Result<(), CopyError> {
        match self.under_way.pop_front() {
            Some(commit) => commit.await.map_err(CopyError::Target),
            None => Ok(()),
        }
    }

    /// Waits until everything sent is durable.
    pub(super) async fn settle(&mut self) -> Result<(), CopyError> {
        while !self.under_way.is_empty() {
            self.await_first().await?;
        }
        Ok(())
    }

    /// Sends the last batch and waits until everything is durable.
    pub(super) async fn finish(mut self) -> Result<(), CopyError> {
        self.flush().await?;
        self.settle().await
    }
}
