//! Records of one or two numbers.

use peeklock_storage::PartitionId;

use super::read_version_1;
use crate::runtime::SetBack;
use crate::{MessageKey, SequenceNumber, Timestamp};

pub(in crate::stored) fn read_next_partition(bytes: &[u8]) -> Result<PartitionId, String> {
    read_version_1(bytes).map(PartitionId)
}

pub(in crate::stored) fn read_set_back(bytes: &[u8]) -> Result<SetBack, String> {
    let (from_ms, to_ms) = read_version_1(bytes)?;
    Ok(SetBack { from: Timestamp(from_ms), to: Timestamp(to_ms) })
}

pub(in crate::stored) fn read_counters(bytes: &[u8]) -> Result<SequenceNumber, String> {
    read_version_1(bytes).map(SequenceNumber)
}

pub(in crate::stored) fn read_last_use(bytes: &[u8]) -> Result<Timestamp, String> {
    read_version_1(bytes).map(Timestamp)
}

pub(in crate::stored) fn read_remembered_id(bytes: &[u8]) -> Result<(Timestamp, MessageKey), String> {
    let (at_ms, key): (u64, [u8; 16]) = read_version_1(bytes)?;
    let key = u128::from_be_bytes(key);
    Ok((Timestamp(at_ms), MessageKey::from_halves([(key >> 64) as u64, key as u64])))
}
