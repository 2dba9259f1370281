//! The order of a copy, and a cursor over one partition.

use std::collections::VecDeque;

use super::RetryPolicy;
use crate::{DamagedEntry, Entry, Error, Key, Lease, Page, PartitionId, Space};

/// The catalogue comes last: until it is copied, the values copied so far belong to no entity.
pub(super) fn rank(space: Space, partition: PartitionId) -> (bool, Space, PartitionId) {
    let is_catalogue = space == Space::Meta && partition == PartitionId(0);
    (is_catalogue, space, partition)
}

/// The number at which to resume in a partition when everything up to `done` is copied; `None`: the partition is
/// complete.
pub(super) fn resume_at(done: Option<Key>, space: Space, partition: PartitionId) -> Option<u64> {
    let Some(done) = done else { return Some(0) };
    match rank(space, partition).cmp(&rank(done.space, done.partition)) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => done.number.checked_add(1),
        std::cmp::Ordering::Greater => Some(0),
    }
}

/// Reads one partition of one space.
pub(super) struct Cursor<'a> {
    lease: &'a Lease,
    retries: RetryPolicy<'a>,
    space: Space,
    partition: PartitionId,
    next: Option<u64>,
    entries: VecDeque<Entry>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(
        lease: &'a Lease,
        retries: RetryPolicy<'a>,
        space: Space,
        partition: PartitionId,
        from: u64,
    ) -> Self {
        Self { lease, retries, space, partition, next: Some(from), entries: VecDeque::new() }
    }

    /// The next page. If the device fails to read it, the read is repeated for a while.
    pub(super) async fn page(&mut self) -> Result<Option<Page>, Error> {
        let Some(from) = self.next else { return Ok(None) };
        let (lease, space, partition) = (self.lease, self.space, self.partition);
        let scan = || async move {
            let page = lease.scan(space, partition, from).await?;
            match page.damaged.iter().find(|one| one.error.is_transient()) {
                Some(one) => Err(one.error.clone()),
                None => Ok(page),
            }
        };
        let page = match self.retries.ask(scan).await {
            // The value remains unreadable; scanning lists it as damaged.
            Err(Error::Unreadable { .. }) => lease.scan(space, partition, from).await?,
            answer => answer?,
        };
        self.next = page.next;
        Ok(Some(page))
    }

    /// The next entry without consuming it, or the damaged entry in its place.
    pub(super) async fn peek(&mut self) -> Result<Result<Option<&Entry>, DamagedEntry>, Error> {
        while self.entries.is_empty() {
            let Some(page) = self.page().await? else { break };
            if let Some(damaged) = page.damaged.into_iter().next() {
                return Ok(Err(damaged));
            }
            self.entries = page.entries.into();
        }
        Ok(Ok(self.entries.front()))
    }

    /// Consumes the entry returned by [`Self::peek`].
    pub(super) fn take(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }
}
