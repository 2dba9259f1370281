//! Delivery states (parts 3.4 and 4.5).

use bytes::BytesMut;

use super::decode::unknown;
use super::{DeliveryState, Error};
use crate::DecodeError;
use crate::code::{descriptor, format};
use crate::read::{Reader, Result};
use crate::transaction::decode_txn_id;
use crate::write;

/// The state of nearly every disposition.
const USUAL_ACCEPTED: [u8; 4] =
    [format::DESCRIBED, format::SMALL_ULONG, descriptor::ACCEPTED, format::LIST_0];

impl DeliveryState {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.take_if_next(&USUAL_ACCEPTED) {
            return Ok(Self::Accepted);
        }
        match reader.descriptor()? {
            Some(descriptor::TRANSACTIONAL_STATE) => {
                let mut list = reader.list()?;
                let txn_id = list.required("txn-id", decode_txn_id)?;
                let outcome = list.optional(Self::decode_outcome)?.map(Box::new);
                Ok(Self::Transactional { txn_id, outcome })
            }
            Some(descriptor::DECLARED) => {
                Ok(Self::Declared { txn_id: reader.list()?.required("txn-id", decode_txn_id)? })
            }
            code => Self::decode_plain(code, reader),
        }
    }

    /// Reads the outcome of a transactional state, which can't be transactional itself (part 4.5.8), so nothing can
    /// nest.
    fn decode_outcome(reader: &mut Reader<'_>) -> Result<Self> {
        let code = reader.descriptor()?;
        Self::decode_plain(code, reader)
    }

    fn decode_plain(code: Option<u8>, reader: &mut Reader<'_>) -> Result<Self> {
        let mut list = reader.list()?;
        Ok(match code {
            Some(descriptor::ACCEPTED) => Self::Accepted,
            Some(descriptor::RELEASED) => Self::Released,
            Some(descriptor::REJECTED) => Self::Rejected(list.optional(Error::decode)?),
            Some(descriptor::MODIFIED) => Self::Modified {
                delivery_failed: list.or_default(Reader::boolean)?,
                undeliverable_here: list.or_default(Reader::boolean)?,
                message_annotations: list.or_default(Reader::fields)?,
            },
            Some(descriptor::RECEIVED) => Self::Received {
                section_number: list.required("section-number", Reader::u32)?,
                section_offset: list.required("section-offset", Reader::u64)?,
            },
            Some(descriptor::TRANSACTIONAL_STATE | descriptor::DECLARED) => {
                return Err(DecodeError::new("a transactional state as the outcome of another"));
            }
            _ => return Err(unknown("delivery state", code)),
        })
    }

    pub(crate) fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Accepted => write::empty_composite(descriptor::ACCEPTED, output),
            Self::Released => write::empty_composite(descriptor::RELEASED, output),
            Self::Rejected(error) => write::composite(descriptor::REJECTED, 1, output, |output| {
                write::optional(error.as_ref(), Error::encode, output);
            }),
            Self::Modified { delivery_failed, undeliverable_here, message_annotations } => {
                write::composite(descriptor::MODIFIED, 3, output, |output| {
                    write::boolean(*delivery_failed, output);
                    write::boolean(*undeliverable_here, output);
                    write::fields(message_annotations, output);
                });
            }
            Self::Received { section_number, section_offset } => {
                write::composite(descriptor::RECEIVED, 2, output, |output| {
                    write::uint(*section_number, output);
                    write::ulong(*section_offset, output);
                });
            }
            Self::Declared { txn_id } => write::composite(descriptor::DECLARED, 1, output, |output| {
                write::binary(txn_id, output);
            }),
            Self::Transactional { txn_id, outcome } => {
                write::composite(descriptor::TRANSACTIONAL_STATE, 2, output, |output| {
                    write::binary(txn_id, output);
                    write::optional(outcome.as_deref(), Self::encode, output);
                });
            }
        }
    }
}
