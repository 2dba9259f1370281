//! Source, target and coordinator (parts 3.5.3, 3.5.4, 4.5.1).

use bytes::BytesMut;

use super::decode::unknown;
use super::{Target, Terminus};
use crate::code::descriptor;
use crate::read::{ListReader, Reader, Result};
use crate::{Value, write};

impl Terminus {
    pub(super) fn decode_source(reader: &mut Reader<'_>) -> Result<Self> {
        reader.expect_descriptor(descriptor::SOURCE)?;
        let mut list = reader.list()?;
        let mut source = Self::decode_common(&mut list)?;
        source.distribution_mode = list.optional(Reader::text)?.map(Into::into);
        source.filter = list.or_default(Reader::fields)?;
        source.default_outcome = list.or_default(Reader::value)?;
        source.outcomes = list.or_default(Reader::symbols)?;
        source.capabilities = list.or_default(Reader::symbols)?;
        Ok(source)
    }

    /// The seven fields that sources and targets begin with.
    fn decode_common(list: &mut ListReader<'_>) -> Result<Self> {
        Ok(Self {
            address: list.optional(Reader::text)?.map(Into::into),
            durable: list.or_default(Reader::u32)?,
            expiry_policy: list.optional(Reader::text)?.map(Into::into),
            timeout_s: list.or_default(Reader::u32)?,
            dynamic: list.or_default(Reader::boolean)?,
            dynamic_node_properties: list.or_default(Reader::fields)?,
            ..Self::default()
        })
    }

    pub(super) fn encode_source(&self, output: &mut BytesMut) {
        write::composite(descriptor::SOURCE, 11, output, |output| {
            self.encode_common(output);
            write::optional(self.distribution_mode.as_deref(), write::symbol, output);
            write::fields(&self.filter, output);
            Value::encode(&self.default_outcome, output);
            write::symbols(&self.outcomes, output);
            write::symbols(&self.capabilities, output);
        });
    }

    fn encode_common(&self, output: &mut BytesMut) {
        write::optional(self.address.as_deref(), write::string, output);
        write::uint(self.durable, output);
        write::optional(self.expiry_policy.as_deref(), write::symbol, output);
        write::uint(self.timeout_s, output);
        write::boolean(self.dynamic, output);
        write::fields(&self.dynamic_node_properties, output);
    }
}

impl Target {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let code = reader.descriptor()?;
        let mut list = reader.list()?;
        match code {
            Some(descriptor::TARGET) => {
                let mut target = Terminus::decode_common(&mut list)?;
                target.capabilities = list.or_default(Reader::symbols)?;
                Ok(Self::Node(target))
            }
            Some(descriptor::COORDINATOR) => Ok(Self::Coordinator(list.or_default(Reader::symbols)?)),
            _ => Err(unknown("target", code)),
        }
    }

    pub(super) fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Node(target) => write::composite(descriptor::TARGET, 7, output, |output| {
                target.encode_common(output);
                write::symbols(&target.capabilities, output);
            }),
            Self::Coordinator(capabilities) => {
                write::composite(descriptor::COORDINATOR, 1, output, |output| {
                    write::symbols(capabilities, output);
                });
            }
        }
    }
}
