//! Protocol headers (part 2.2) and SASL (part 5.3), both roles.

use bytes::{Buf, Bytes, BytesMut};

use super::condition::{self, error};
use super::connection::{Connection, EndedBy, Phase};
use super::{Config, Event};
use crate::wire::frame::decode_sasl;
use crate::wire::performative::SaslFrame;

/// Protocol ids of part 2.2 and 5.3.1; 2 would be TLS.
pub(super) const PROTOCOL_AMQP: u8 = 0;
pub(super) const PROTOCOL_SASL: u8 = 3;

const OUTCOME_OK: u8 = 0;
const OUTCOME_AUTH: u8 = 1;

/// Steps of an authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SaslPhase {
    /// Server: waiting for init.
    Init,
    /// Server: waiting for the upper layer.
    Deciding,
    /// Client: waiting for the mechanisms.
    Mechanisms,
    /// Client: waiting for the outcome.
    Outcome,
}

impl Connection {
    /// Answers [`Event::Authenticate`].
    pub fn sasl_outcome(&mut self, accepted: bool) {
        if self.phase != Phase::Sasl(SaslPhase::Deciding) {
            return;
        }
        if accepted {
            self.outbox.sasl(&SaslFrame::Outcome { code: OUTCOME_OK, additional_data: None });
            self.phase = Phase::AmqpHeader;
        } else {
            self.refuse_authentication("authentication failed");
        }
    }

    /// Client: writes the first bytes.
    pub(super) fn start_handshake(&mut self) {
        if self.config.sasl_mechanisms.is_empty() {
            self.outbox.header(PROTOCOL_AMQP);
            self.outbox.open = true;
        } else {
            self.outbox.header(PROTOCOL_SASL);
        }
    }

    /// Reads a protocol header; returns whether there was one.
    pub(super) fn take_header(&mut self, input: &mut BytesMut) -> bool {
        let Some(&header) = input.first_chunk::<8>() else { return false };
        input.advance(8);
        let id = match header {
            [b'A', b'M', b'Q', b'P', id, 1, 0, 0] => Some(id),
            _ => None,
        };
        let after_sasl = self.phase == Phase::AmqpHeader;
        if self.is_client {
            self.header_answered(id, after_sasl);
        } else {
            self.header_offered(id, after_sasl);
        }
        true
    }

    fn header_offered(&mut self, id: Option<u8>, after_sasl: bool) {
        let sasl_offered = !self.config.sasl_mechanisms.is_empty() && !after_sasl;
        let plain_allowed = after_sasl || !sasl_offered || self.config.sasl_optional;
        match id {
            Some(PROTOCOL_SASL) if sasl_offered => {
                self.outbox.header(PROTOCOL_SASL);
                let mechanisms = self.config.sasl_mechanisms.iter().map(|name| name.as_str().into());
                self.outbox.sasl(&SaslFrame::Mechanisms(mechanisms.collect()));
                self.phase = Phase::Sasl(SaslPhase::Init);
            }
            Some(PROTOCOL_AMQP) if plain_allowed => {
                self.outbox.header(PROTOCOL_AMQP);
                self.outbox.open = true;
                self.phase = Phase::Opening;
            }
            _ => {
                self.outbox.header(supported_protocol(&self.config, sasl_offered));
                self.finish(
                    Some(error(condition::FRAMING_ERROR, "unsupported protocol header")),
                    EndedBy::Us,
                );
            }
        }
    }

    fn header_answered(&mut self, id: Option<u8>, after_sasl: bool) {
        let expected =
            if after_sasl || self.config.sasl_mechanisms.is_empty() { PROTOCOL_AMQP } else { PROTOCOL_SASL };
        if id != Some(expected) {
            self.finish(
                Some(error(condition::FRAMING_ERROR, "the peer wants another protocol")),
                EndedBy::Peer,
            );
        } else if expected == PROTOCOL_SASL {
            self.phase = Phase::Sasl(SaslPhase::Mechanisms);
        } else {
            self.phase = Phase::Opening;
        }
    }

    /// Handles a SASL frame body.
    pub(super) fn on_sasl_frame(&mut self, phase: SaslPhase, body: Bytes) {
        let frame = match decode_sasl(body) {
            Ok(frame) => frame,
            Err(reason) => return self.refuse_authentication(&reason.to_string()),
        };
        // Not the frame itself: it may hold a password.
        tracing::trace!(target: "peeklock_amqp::frames", ?phase, "sasl in");
        match (phase, frame) {
            (SaslPhase::Init, SaslFrame::Init { mechanism, initial_response, .. }) => {
                let offered = self.config.sasl_mechanisms.iter().any(|name| **name == *mechanism);
                if offered {
                    self.phase = Phase::Sasl(SaslPhase::Deciding);
                    let mechanism = String::from(mechanism);
                    self.events.push_back(Event::Authenticate { mechanism, initial_response });
                } else {
                    self.refuse_authentication("the chosen SASL mechanism is not offered");
                }
            }
            (SaslPhase::Mechanisms, SaslFrame::Mechanisms(offered)) => self.choose_mechanism(&offered),
            (SaslPhase::Outcome, SaslFrame::Outcome { code: OUTCOME_OK, .. }) => {
                self.outbox.header(PROTOCOL_AMQP);
                self.outbox.open = true;
                self.phase = Phase::AmqpHeader;
            }
            (SaslPhase::Outcome, SaslFrame::Outcome { code, .. }) => {
                let reason = format!("the peer refused the authentication, code {code}");
                self.finish(Some(error(condition::UNAUTHORIZED_ACCESS, reason)), EndedBy::Peer);
            }
            _ => self.refuse_authentication("unexpected SASL frame"),
        }
    }

    fn choose_mechanism(&mut self, offered: &[crate::wire::Str]) {
        let ours = self.config.sasl_mechanisms.iter();
        let mut common = ours.filter(|name| offered.iter().any(|other| **other == ***name));
        let Some(mechanism) = common.next() else {
            let reason = "the peer offers no common SASL mechanism";
            return self.finish(Some(error(condition::UNAUTHORIZED_ACCESS, reason)), EndedBy::Us);
        };
        self.outbox.sasl(&SaslFrame::Init {
            mechanism: mechanism.as_str().into(),
            initial_response: None,
            hostname: Some(self.hostname.clone()),
        });
        self.phase = Phase::Sasl(SaslPhase::Outcome);
    }

    /// Ends a connection that is still authenticating; a server sends an outcome first.
    fn refuse_authentication(&mut self, reason: &str) {
        if !self.is_client {
            self.outbox.sasl(&SaslFrame::Outcome { code: OUTCOME_AUTH, additional_data: None });
        }
        self.finish(Some(error(condition::UNAUTHORIZED_ACCESS, reason)), EndedBy::Us);
    }
}

/// The header with which a server answers one that it does not support.
fn supported_protocol(config: &Config, sasl_offered: bool) -> u8 {
    if sasl_offered || (!config.sasl_mechanisms.is_empty() && !config.sasl_optional) {
        PROTOCOL_SASL
    } else {
        PROTOCOL_AMQP
    }
}
