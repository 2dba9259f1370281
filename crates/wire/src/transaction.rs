//! Requests of a transaction controller to a coordinator (part 4.5): the bodies `declare` and `discharge`.

use bytes::{Bytes, BytesMut};

use crate::code::descriptor;
use crate::message::Sections;
use crate::performative::unknown;
use crate::read::{Reader, Result};
use crate::{DecodeError, Value, write};

/// Part 4.5.8: a transaction-id has at most 32 octets.
pub const TXN_ID_BYTES_MAX: usize = 32;

/// A message sent on a link to a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    /// Requests a new transaction (part 4.5.2).
    Declare {
        /// Names a distributed transaction; null for a local one.
        global_id: Value,
    },
    /// Ends a transaction (part 4.5.3).
    Discharge {
        /// The transaction's id; at most [`TXN_ID_BYTES_MAX`] bytes.
        txn_id: Bytes,
        /// Whether it is rolled back; false where the field is missing or null.
        fail: bool,
    },
}

impl Control {
    /// Reads an encoded message.
    ///
    /// # Errors
    /// [`DecodeError`] for another body, a `discharge` without `txn-id`, or a `txn-id` longer than
    /// [`TXN_ID_BYTES_MAX`].
    pub fn decode(message: &Bytes) -> Result<Self> {
        let sections = Sections::split(message)?;
        let mut reader = Reader::new(&sections.body);
        if reader.is_empty() || reader.descriptor()? != Some(descriptor::AMQP_VALUE) {
            return Err(DecodeError::new("a message to a coordinator whose body is not an amqp-value"));
        }
        let code = reader.descriptor()?;
        let mut list = reader.list()?;
        match code {
            Some(descriptor::DECLARE) => Ok(Self::Declare { global_id: list.or_default(Reader::value)? }),
            Some(descriptor::DISCHARGE) => {
                let txn_id = list.required("txn-id", decode_txn_id)?;
                Ok(Self::Discharge { txn_id, fail: list.or_default(Reader::boolean)? })
            }
            _ => Err(unknown("declare or discharge", code)),
        }
    }

    /// The message, its lists at full length.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut output = BytesMut::new();
        write::described(descriptor::AMQP_VALUE, &mut output);
        match self {
            Self::Declare { global_id } => write::composite(descriptor::DECLARE, 1, &mut output, |output| {
                Value::encode(global_id, output);
            }),
            Self::Discharge { txn_id, fail } => {
                write::composite(descriptor::DISCHARGE, 2, &mut output, |output| {
                    write::binary(txn_id, output);
                    write::boolean(*fail, output);
                });
            }
        }
        output.freeze()
    }
}

/// Reads a transaction-id.
pub(crate) fn decode_txn_id(reader: &mut Reader<'_>) -> Result<Bytes> {
    match reader.binary()? {
        id if id.len() > TXN_ID_BYTES_MAX => Err(DecodeError::new(format!("a txn-id of {} bytes", id.len()))),
        id => Ok(id),
    }
}
