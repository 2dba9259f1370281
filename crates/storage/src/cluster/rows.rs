//! Rows, the bodies of one record each, and how many of their bytes are alive.

use std::collections::BTreeMap;

use super::log::RecordPlace;

/// Bytes added per live value, approximately the header of its frame.
const FRAME_BYTES: u64 = 12;

/// The bodies of one record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) place: RecordPlace,
    /// Bytes stored.
    pub(super) total_bytes: u64,
    /// Bytes of the live values, with their approximate headers.
    live_bytes: u64,
}

impl Row {
    /// Bytes freed by dropping the row, less those of the copy of its live values.
    pub(super) const fn dead_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.live_bytes)
    }
}

/// All rows that are alive or not known to be dropped. The index refers to a row by a small number, so that a position
/// takes 32 bits however long the log is; numbers are reused.
#[derive(Debug)]
pub(super) struct Rows {
    /// By row number; number 0 is never used.
    rows: Vec<Option<Row>>,
    free: Vec<u32>,
    by_place: BTreeMap<RecordPlace, u32>,
    /// Rows that lost their last live value since the last sweep; they may have gained one since.
    emptied: Vec<u32>,
    /// Bytes of all rows.
    total_bytes: u64,
    /// Bytes of the live values in them, with their approximate headers.
    live_bytes: u64,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            rows: vec![None],
            free: Vec::new(),
            by_place: BTreeMap::new(),
            emptied: Vec::new(),
            total_bytes: 0,
            live_bytes: 0,
        }
    }
}

impl Rows {
    /// The number of the row of this record; created if unknown.
    pub(super) fn open(&mut self, place: RecordPlace, total_bytes: u64) -> u32 {
        if let Some(id) = self.by_place.get(&place) {
            return *id;
        }
        let row = Some(Row { place, total_bytes, live_bytes: 0 });
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.rows.get_mut(id as usize) {
                    *slot = row;
                }
                id
            }
            None => {
                self.rows.push(row);
                u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.by_place.insert(place, id);
        self.emptied.push(id);
        self.total_bytes += total_bytes;
        id
    }

    pub(super) fn get(&self, id: u32) -> Option<Row> {
        self.rows.get(id as usize).copied().flatten()
    }

    pub(super) fn id_of(&self, place: RecordPlace) -> Option<u32> {
        self.by_place.get(&place).copied()
    }

    /// Records a live value of this length in the row.
    pub(super) fn live(&mut self, id: u32, len: u32) {
        if let Some(Some(row)) = self.rows.get_mut(id as usize) {
            let bytes = u64::from(len) + FRAME_BYTES;
            row.live_bytes += bytes;
            self.live_bytes += bytes;
        }
    }

    /// Records that a value of this length in the row is dead.
    pub(super) fn dead(&mut self, id: u32, len: u32) {
        if let Some(Some(row)) = self.rows.get_mut(id as usize) {
            let bytes = (u64::from(len) + FRAME_BYTES).min(row.live_bytes);
            row.live_bytes -= bytes;
            self.live_bytes -= bytes;
            if row.live_bytes == 0 {
                self.emptied.push(id);
            }
        }
    }

    /// Removes the rows without live values and returns them.
    pub(super) fn sweep(&mut self) -> Vec<Row> {
        let mut swept = Vec::new();
        for id in std::mem::take(&mut self.emptied) {
            let Some(slot) = self.rows.get_mut(id as usize) else { continue };
            if let Some(row) = *slot
                && row.live_bytes == 0
            {
                *slot = None;
                self.by_place.remove(&row.place);
                self.free.push(id);
                self.total_bytes -= row.total_bytes;
                swept.push(row);
            }
        }
        swept
    }

    /// Bytes of all rows known.
    pub(super) const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes of the live values, with their approximate headers.
    pub(super) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// All rows in the order of their places.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Row> + '_ {
        self.by_place.values().filter_map(|id| self.get(*id))
    }
}
