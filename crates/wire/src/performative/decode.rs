//! Decoding performatives and SASL frames. Missing trailing fields are nulls, unknown ones are ignored.

use super::{
    Attach, Begin, Detach, Disposition, Error, Flow, Open, Performative, ReceiverSettleMode, Role, SaslFrame,
    SenderSettleMode, Tag, Transfer,
};
use crate::DecodeError;
use crate::code::{descriptor, format};
use crate::read::{ListReader, Reader, Result};

/// More than the 32 octets of part 2.7.5: the older Java client (`com.microsoft.azure:azure-servicebus`) writes a UUID as
/// text, which has 36, and its tests run against Service Bus.
const DELIVERY_TAG_BYTES_MAX: usize = 128;

impl Performative {
    /// Reads one performative; the bytes after it stay unread.
    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let code = reader.descriptor()?;
        let mut list = reader.list()?;
        Ok(match code {
            Some(descriptor::TRANSFER) => Self::Transfer(transfer(&mut list)?),
            Some(descriptor::DISPOSITION) => Self::Disposition(disposition(&mut list)?),
            Some(descriptor::FLOW) => Self::Flow(flow(&mut list)?),
            Some(descriptor::OPEN) => Self::Open(open(&mut list)?),
            Some(descriptor::BEGIN) => Self::Begin(begin(&mut list)?),
            Some(descriptor::ATTACH) => Self::Attach(Box::new(attach(&mut list)?)),
            Some(descriptor::DETACH) => Self::Detach(detach(&mut list)?),
            Some(descriptor::END) => Self::End(list.optional(Error::decode)?),
            Some(descriptor::CLOSE) => Self::Close(list.optional(Error::decode)?),
            _ => return Err(unknown("performative", code)),
        })
    }
}

impl SaslFrame {
    /// Reads one SASL frame body.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let code = reader.descriptor()?;
        let mut list = reader.list()?;
        Ok(match code {
            Some(descriptor::SASL_MECHANISMS) => {
                Self::Mechanisms(list.required("sasl-server-mechanisms", Reader::symbols)?)
            }
            Some(descriptor::SASL_INIT) => Self::Init {
                mechanism: list.required("mechanism", Reader::text)?.into(),
                initial_response: list.optional(Reader::binary)?,
                hostname: list.optional(Reader::text)?.map(Into::into),
            },
            Some(descriptor::SASL_CHALLENGE) => Self::Challenge(list.required("challenge", Reader::binary)?),
            Some(descriptor::SASL_RESPONSE) => Self::Response(list.required("response", Reader::binary)?),
            Some(descriptor::SASL_OUTCOME) => Self::Outcome {
                code: list.required("code", Reader::u8)?,
                additional_data: list.optional(Reader::binary)?,
            },
            _ => return Err(unknown("SASL frame", code)),
        })
    }
}

impl Error {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        reader.expect_descriptor(descriptor::ERROR)?;
        let mut list = reader.list()?;
        Ok(Self {
            condition: list.required("condition", Reader::text)?.into(),
            description: list.optional(Reader::text)?.map(Into::into),
            info: list.or_default(Reader::fields)?,
        })
    }
}

#[cold]
pub(crate) fn unknown(what: &str, code: Option<u8>) -> DecodeError {
    match code {
        Some(code) => DecodeError::new(format!("descriptor {code:#04x} is not a {what}")),
        None => DecodeError::new(format!("an unknown descriptor where a {what} belongs")),
    }
}

/// The last fields of nearly every transfer, if they are written: no settle mode, no state, false, false, false.
const USUAL_END: [u8; 5] = [format::NULL, format::NULL, format::FALSE, format::FALSE, format::FALSE];

#[inline(always)]
fn transfer(list: &mut ListReader<'_>) -> Result<Transfer> {
    let mut transfer = Transfer {
        handle: list.required_uint("handle")?,
        delivery_id: list.uint()?,
        delivery_tag: list.optional(delivery_tag)?,
        message_format: list.uint()?,
        settled: list.boolean()?,
        more: list.boolean()?.unwrap_or_default(),
        ..Transfer::default()
    };
    if list.ends_with(&USUAL_END) || list.ends_with_nulls() {
        return Ok(transfer);
    }
    transfer.rcv_settle_mode = list.optional(receiver_settle_mode)?;
    transfer.state = list.optional(super::DeliveryState::decode)?.map(Box::new);
    transfer.resume = list.boolean()?.unwrap_or_default();
    transfer.aborted = list.boolean()?.unwrap_or_default();
    transfer.batchable = list.boolean()?.unwrap_or_default();
    Ok(transfer)
}

fn delivery_tag(reader: &mut Reader<'_>) -> Result<Tag> {
    match reader.binary_view()? {
        tag if tag.len() > DELIVERY_TAG_BYTES_MAX => {
            Err(DecodeError::new(format!("a delivery-tag of {} bytes", tag.len())))
        }
        tag => Ok(Tag::from_slice(tag)),
    }
}

#[inline(always)]
fn disposition(list: &mut ListReader<'_>) -> Result<Disposition> {
    Ok(Disposition {
        role: list.required_boolean("role").map(role)?,
        first: list.required_uint("first")?,
        last: list.uint()?,
        settled: list.boolean()?.unwrap_or_default(),
        state: list.optional(super::DeliveryState::decode)?,
        batchable: list.boolean()?.unwrap_or_default(),
    })
}

#[inline(always)]
fn flow(list: &mut ListReader<'_>) -> Result<Flow> {
    Ok(Flow {
        next_incoming_id: list.optional(Reader::u32)?,
        incoming_window: list.required("incoming-window", Reader::u32)?,
        next_outgoing_id: list.required("next-outgoing-id", Reader::u32)?,
        outgoing_window: list.required("outgoing-window", Reader::u32)?,
        handle: list.optional(Reader::u32)?,
        delivery_count: list.optional(Reader::u32)?,
        link_credit: list.optional(Reader::u32)?,
        available: list.optional(Reader::u32)?,
        drain: list.or_default(Reader::boolean)?,
        echo: list.or_default(Reader::boolean)?,
        properties: list.or_default(Reader::fields)?,
    })
}

#[inline(never)]
fn open(list: &mut ListReader<'_>) -> Result<Open> {
    let container_id = list.required("container-id", Reader::text)?.into();
    let hostname = list.optional(Reader::text)?.map(Into::into);
    let max_frame_size = list.optional(Reader::u32)?;
    let channel_max = list.optional(Reader::u16)?;
    let idle_time_out_ms = list.optional(Reader::u32)?;
    list.ignore()?; // outgoing-locales
    list.ignore()?; // incoming-locales
    Ok(Open {
        container_id,
        hostname,
        max_frame_size,
        channel_max,
        idle_time_out_ms,
        offered_capabilities: list.or_default(Reader::symbols)?,
        desired_capabilities: list.or_default(Reader::symbols)?,
        properties: list.or_default(Reader::fields)?,
    })
}

#[inline(never)]
fn begin(list: &mut ListReader<'_>) -> Result<Begin> {
    let mut begin = Begin {
        remote_channel: list.optional(Reader::u16)?,
        next_outgoing_id: list.required("next-outgoing-id", Reader::u32)?,
        incoming_window: list.required("incoming-window", Reader::u32)?,
        outgoing_window: list.required("outgoing-window", Reader::u32)?,
        handle_max: list.optional(Reader::u32)?,
        properties: Vec::new(),
    };
    list.ignore()?; // offered-capabilities
    list.ignore()?; // desired-capabilities
    begin.properties = list.or_default(Reader::fields)?;
    Ok(begin)
}

#[inline(never)]
fn attach(list: &mut ListReader<'_>) -> Result<Attach> {
    let mut attach = Attach {
        name: list.required("name", Reader::text)?.into(),
        handle: list.required("handle", Reader::u32)?,
        role: list.required_boolean("role").map(role)?,
        snd_settle_mode: list.or_default(sender_settle_mode)?,
        rcv_settle_mode: list.or_default(receiver_settle_mode)?,
        source: list.optional(super::Terminus::decode_source)?,
        target: list.optional(super::Target::decode)?,
        resumes: list.optional(Reader::skip)?.is_some(),
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    };
    list.ignore()?; // incomplete-unsettled
    attach.initial_delivery_count = list.optional(Reader::u32)?;
    attach.max_message_size = list.optional(Reader::u64)?;
    attach.offered_capabilities = list.or_default(Reader::symbols)?;
    attach.desired_capabilities = list.or_default(Reader::symbols)?;
    attach.properties = list.or_default(Reader::fields)?;
    Ok(attach)
}

#[inline(never)]
fn detach(list: &mut ListReader<'_>) -> Result<Detach> {
    Ok(Detach {
        handle: list.required("handle", Reader::u32)?,
        closed: list.or_default(Reader::boolean)?,
        error: list.optional(Error::decode)?,
    })
}

fn role(is_receiver: bool) -> Role {
    if is_receiver { Role::Receiver } else { Role::Sender }
}

fn sender_settle_mode(reader: &mut Reader<'_>) -> Result<SenderSettleMode> {
    match reader.u8()? {
        0 => Ok(SenderSettleMode::Unsettled),
        1 => Ok(SenderSettleMode::Settled),
        2 => Ok(SenderSettleMode::Mixed),
        mode => Err(DecodeError::new(format!("snd-settle-mode {mode}"))),
    }
}

fn receiver_settle_mode(reader: &mut Reader<'_>) -> Result<ReceiverSettleMode> {
    match reader.u8()? {
        0 => Ok(ReceiverSettleMode::First),
        1 => Ok(ReceiverSettleMode::Second),
        mode => Err(DecodeError::new(format!("rcv-settle-mode {mode}"))),
    }
}
