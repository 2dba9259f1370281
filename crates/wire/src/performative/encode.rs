//! Encoding performatives and SASL frames: every list in full length, explicit nulls for absent fields.

use bytes::{BufMut, BytesMut};

use super::{
    Attach, Begin, Detach, Disposition, Error, Flow, Open, Performative, ReceiverSettleMode, Role, SaslFrame,
    SenderSettleMode, Transfer,
};
use crate::code::descriptor;
use crate::write;

impl Performative {
    /// Appends the performative without frame header.
    pub(crate) fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Transfer(transfer) => transfer.encode(output),
            Self::Disposition(disposition) => disposition.encode(output),
            Self::Flow(flow) => flow.encode(output),
            Self::Open(open) => open.encode(output),
            Self::Begin(begin) => begin.encode(output),
            Self::Attach(attach) => attach.encode(output),
            Self::Detach(detach) => detach.encode(output),
            Self::End(error) => encode_ending(descriptor::END, error.as_ref(), output),
            Self::Close(error) => encode_ending(descriptor::CLOSE, error.as_ref(), output),
        }
    }
}

impl SaslFrame {
    /// Appends the frame body.
    pub(crate) fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Mechanisms(mechanisms) => {
                write::composite(descriptor::SASL_MECHANISMS, 1, output, |output| {
                    write::symbol_array(mechanisms, output);
                });
            }
            Self::Init { mechanism, initial_response, hostname } => {
                write::composite(descriptor::SASL_INIT, 3, output, |output| {
                    write::symbol(mechanism, output);
                    write::optional(initial_response.as_deref(), write::binary, output);
                    write::optional(hostname.as_deref(), write::string, output);
                });
            }
            Self::Challenge(challenge) => {
                write::composite(descriptor::SASL_CHALLENGE, 1, output, |output| {
                    write::binary(challenge, output);
                });
            }
            Self::Response(response) => {
                write::composite(descriptor::SASL_RESPONSE, 1, output, |output| {
                    write::binary(response, output);
                });
            }
            Self::Outcome { code, additional_data } => {
                write::composite(descriptor::SASL_OUTCOME, 2, output, |output| {
                    write::ubyte(*code, output);
                    write::optional(additional_data.as_deref(), write::binary, output);
                });
            }
        }
    }
}

impl Error {
    /// Appends all three fields: Python reads them by index without checking.
    pub(crate) fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::ERROR, 3, output, |output| {
            write::symbol(&self.condition, output);
            write::optional(self.description.as_deref(), write::string, output);
            write::fields(&self.info, output);
        });
    }
}

impl Transfer {
    pub(crate) fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::TRANSFER, 11, output, |output| {
            write::uint(self.handle, output);
            write::optional(self.delivery_id, write::uint, output);
            write::optional(self.delivery_tag.as_deref(), write::binary, output);
            write::optional(self.message_format, write::uint, output);
            write::optional(self.settled, write::boolean, output);
            write::boolean(self.more, output);
            write::optional(self.rcv_settle_mode, receiver_settle_mode, output);
            write::optional(self.state.as_deref(), super::DeliveryState::encode, output);
            output.put_slice(&[self.resume, self.aborted, self.batchable].map(write::boolean_code));
        });
    }
}

impl Disposition {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::DISPOSITION, 6, output, |output| {
            role(self.role, output);
            write::uint(self.first, output);
            write::optional(self.last, write::uint, output);
            write::boolean(self.settled, output);
            write::optional(self.state.as_ref(), super::DeliveryState::encode, output);
            write::boolean(self.batchable, output);
        });
    }
}

impl Flow {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::FLOW, 11, output, |output| {
            write::optional(self.next_incoming_id, write::uint, output);
            write::uint(self.incoming_window, output);
            write::uint(self.next_outgoing_id, output);
            write::uint(self.outgoing_window, output);
            write::optional(self.handle, write::uint, output);
            write::optional(self.delivery_count, write::uint, output);
            write::optional(self.link_credit, write::uint, output);
            write::optional(self.available, write::uint, output);
            write::boolean(self.drain, output);
            write::boolean(self.echo, output);
            write::fields(&self.properties, output);
        });
    }
}

impl Open {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::OPEN, 10, output, |output| {
            write::string(&self.container_id, output);
            write::optional(self.hostname.as_deref(), write::string, output);
            write::optional(self.max_frame_size, write::uint, output);
            write::optional(self.channel_max, write::ushort, output);
            write::optional(self.idle_time_out_ms, write::uint, output);
            write::null(output); // outgoing-locales
            write::null(output); // incoming-locales
            write::symbols(&self.offered_capabilities, output);
            write::symbols(&self.desired_capabilities, output);
            write::fields(&self.properties, output);
        });
    }
}

impl Begin {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::BEGIN, 8, output, |output| {
            write::optional(self.remote_channel, write::ushort, output);
            write::uint(self.next_outgoing_id, output);
            write::uint(self.incoming_window, output);
            write::uint(self.outgoing_window, output);
            write::optional(self.handle_max, write::uint, output);
            write::null(output); // offered-capabilities
            write::null(output); // desired-capabilities
            write::fields(&self.properties, output);
        });
    }
}

impl Attach {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::ATTACH, 14, output, |output| {
            write::string(&self.name, output);
            write::uint(self.handle, output);
            role(self.role, output);
            sender_settle_mode(self.snd_settle_mode, output);
            receiver_settle_mode(self.rcv_settle_mode, output);
            write::optional(self.source.as_ref(), super::Terminus::encode_source, output);
            write::optional(self.target.as_ref(), super::Target::encode, output);
            write::optional(self.resumes.then_some(()), |(), output| write::empty_map(output), output); // unsettled
            write::null(output); // incomplete-unsettled
            write::optional(self.initial_delivery_count, write::uint, output);
            write::optional(self.max_message_size, write::ulong, output);
            write::symbols(&self.offered_capabilities, output);
            write::symbols(&self.desired_capabilities, output);
            write::fields(&self.properties, output);
        });
    }
}

impl Detach {
    fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::DETACH, 3, output, |output| {
            write::uint(self.handle, output);
            write::boolean(self.closed, output);
            write::optional(self.error.as_ref(), Error::encode, output);
        });
    }
}

fn encode_ending(code: u8, error: Option<&Error>, output: &mut BytesMut) {
    write::composite(code, 1, output, |output| write::optional(error, Error::encode, output));
}

fn role(role: Role, output: &mut BytesMut) {
    write::boolean(role == Role::Receiver, output);
}

fn sender_settle_mode(mode: SenderSettleMode, output: &mut BytesMut) {
    let code = match mode {
        SenderSettleMode::Unsettled => 0,
        SenderSettleMode::Settled => 1,
        SenderSettleMode::Mixed => 2,
    };
    write::ubyte(code, output);
}

fn receiver_settle_mode(mode: ReceiverSettleMode, output: &mut BytesMut) {
    let code = match mode {
        ReceiverSettleMode::First => 0,
        ReceiverSettleMode::Second => 1,
    };
    write::ubyte(code, output);
}
