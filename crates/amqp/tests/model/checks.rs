//! What the broker sends, and what must hold when it has nothing more to send.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::performative::{
    Attach, DeliveryState, Detach, Disposition, Flow, Performative, Role, Transfer,
};

use super::client::Client;
use super::link::{Delivery, Expected, Partial, Phase, Purpose, Side, distance};
use super::messages::{Place, Verdict, decode};

impl Verdict {
    pub(crate) fn state(self) -> DeliveryState {
        let modified = |undeliverable_here| DeliveryState::Modified {
            delivery_failed: true,
            undeliverable_here,
            message_annotations: Vec::new(),
        };
        match self {
            Self::Complete => DeliveryState::Accepted,
            Self::Release => DeliveryState::Released,
            Self::Abandon => modified(false),
            Self::Defer => modified(true),
            Self::DeadLetter => DeliveryState::Rejected(None),
        }
    }
}

impl Client<'_> {
    /// Lets the broker come to rest and checks that it has done all it can.
    pub(crate) async fn rest(&mut self) {
        loop {
            for (channel, performative, payload) in self.pipe.exchange().await {
                self.hear(channel, performative, &payload);
            }
            if !self.pipe.is_reading || self.pipe.has_ended {
                return;
            }
            let shut: Vec<usize> = (0..self.sessions.len())
                .filter(|&key| !self.sessions[key].is_ended && self.sessions[key].window == 0)
                .collect();
            if !self.setup.reopens || shut.is_empty() {
                break;
            }
            shut.into_iter().for_each(|key| self.open_window(key, self.setup.window));
        }
        self.check_rest();
    }

    fn check_rest(&mut self) {
        let (mut is_any_shut, mut is_any_hungry) = (false, false);
        for session in &mut self.sessions {
            session.window_max = session.window;
            assert!(session.sent.is_empty(), "deliveries {:?} are not answered", session.sent.keys());
            let waiting: Vec<_> = session.unsettled.iter().filter(|(_, d)| !d.verdicts.is_empty()).collect();
            assert!(waiting.is_empty(), "{} dispositions are not answered", waiting.len());
            let committed = session.unsettled.values().filter(|delivery| delivery.is_committed).count();
            assert_eq!(committed, 0, "deliveries of a committed transaction are not settled");
        }
        for (key, link) in self.links.iter_mut().enumerate() {
            let window = self.sessions[link.session].window;
            if link.phase == Phase::Gone {
                continue;
            }
            assert_ne!(link.phase, Phase::Asked, "the attach of link {key} is not answered");
            assert!(link.phase != Phase::Detached || window == 0, "the detach of link {key} is not answered");
            let Side::Receives(side) = &mut link.side else { continue };
            is_any_shut |= window == 0;
            // What is received and deleted is sent even if its credit is taken back, once it is removed; it may wait for
            // the window.
            if window > 0 || !side.deletes {
                side.credit_max = side.credit;
            }
            (side.drains, side.drains_answered) = (u32::from(side.is_draining), 0);
            if window > 0 {
                assert!(!side.is_draining, "the drain of link {key} is not answered");
                assert!(side.partial.is_none(), "a delivery on link {key} is not complete");
                is_any_hungry |= side.credit > 0;
            }
        }
        let available = self.messages.in_place(Place::Available);
        if is_any_hungry && !is_any_shut {
            assert!(available.is_empty(), "{available:?} are not delivered although there is credit");
        }
    }

    fn hear(&mut self, channel: u16, performative: Performative, payload: &Bytes) {
        if let Performative::Open(_) = performative {
            return;
        }
        if let Performative::Begin(begin) = &performative {
            let ours = begin.remote_channel.expect("an answer");
            let key = self.sessions.iter().position(|s| s.channel == ours && s.next_incoming_id.is_none());
            let key = key.expect("a session that waits for it");
            self.sessions[key].next_incoming_id = Some(begin.next_outgoing_id);
            assert!(self.channels.insert(channel, key).is_none());
            return;
        }
        let key = *self.channels.get(&channel).unwrap_or_else(|| panic!("no session for {performative:?}"));
        match performative {
            Performative::End(error) => {
                assert!(self.sessions[key].is_ended && error.is_none(), "{error:?}");
                self.channels.remove(&channel);
            }
            Performative::Attach(attach) => self.attached(key, &attach),
            Performative::Detach(detach) => self.detached(key, &detach),
            Performative::Flow(flow) => self.flowed(key, &flow),
            Performative::Transfer(transfer) => self.transferred(key, &transfer, payload),
            Performative::Disposition(disposition) => self.answered(key, &disposition),
            other => panic!("{other:?}"),
        }
    }

    fn attached(&mut self, session: usize, attach: &Attach) {
        let is_it = |link: &super::link::Link| {
            link.session == session
                && !link.is_answered
                && *link.name == *attach.name
                && matches!(link.side, Side::Receives(_)) == (attach.role == Role::Sender)
        };
        let key = self.links.iter().position(is_it).expect("a link that waits for it");
        let is_refused = attach.source.is_none() || attach.target.is_none();
        assert!(!is_refused || !self.links[key].is_ours(), "link {key} is refused");
        let handle = attach.handle;
        assert!(self.link_of(session, handle).is_none(), "handle {handle} is in use");
        let link = &mut self.links[key];
        (link.is_answered, link.their_handle) = (true, Some(handle));
        if link.phase == Phase::Asked {
            link.phase = Phase::Attached;
        }
        if let Some(side) = link.receives() {
            side.delivery_count = attach.initial_delivery_count.expect("a count");
        }
    }

    /// The link with a handle of the broker.
    fn link_of(&self, session: usize, handle: u32) -> Option<usize> {
        self.links.iter().position(|link| {
            link.session == session
                && link.their_handle == Some(handle)
                && (link.phase != Phase::Gone || self.sessions[session].is_ended)
        })
    }

    fn detached(&mut self, session: usize, detach: &Detach) {
        let Some(key) = self.link_of(session, detach.handle) else {
            panic!("no link for {detach:?}");
        };
        let is_ended = self.sessions[session].is_ended;
        let link = &mut self.links[key];
        if link.phase == Phase::Attached && !is_ended {
            let error = detach.error.as_ref().expect("a reason");
            assert_eq!(&*error.condition, "amqp:link:message-size-exceeded", "{error:?}");
            let answer = Detach { handle: link.handle, closed: true, error: None };
            self.pipe.say(self.sessions[session].channel, Performative::Detach(answer), b"");
            self.forget_link(key);
        }
        self.links[key].phase = Phase::Gone;
        self.links[key].their_handle = None;
    }

    fn flowed(&mut self, session: usize, flow: &Flow) {
        let state = &self.sessions[session];
        if let Some(arrived) = flow.next_incoming_id {
            assert!(
                arrived.wrapping_sub(state.next_outgoing_id) == 0
                    || distance(arrived, state.next_outgoing_id) > 0
            );
        }
        let Some(handle) = flow.handle else { return };
        let key = self.link_of(session, handle).expect("a link");
        let count = flow.delivery_count.expect("a count");
        match &mut self.links[key].side {
            Side::Sends(side) => {
                let on_the_way = distance(count, side.delivery_count);
                side.credit = flow.link_credit.unwrap_or(0).saturating_sub(on_the_way);
            }
            Side::Receives(side) => {
                let given_back = distance(side.delivery_count, count);
                side.delivery_count = side.delivery_count.wrapping_add(given_back);
                side.credit = side.credit.saturating_sub(given_back);
                if !flow.drain {
                    return;
                }
                assert_eq!(flow.link_credit, Some(0), "an answer to a drain returns all credit");
                assert!(side.drains_answered < side.drains, "a drain of link {key} is answered twice");
                side.drains_answered += 1;
                if side.is_draining && side.credit == 0 {
                    side.is_draining = false;
                }
            }
        }
    }

    fn transferred(&mut self, session: usize, transfer: &Transfer, payload: &Bytes) {
        let key = self.link_of(session, transfer.handle).expect("a link");
        let state = &mut self.sessions[session];
        assert!(state.window_max > 0, "a transfer outside the window");
        state.window = state.window.saturating_sub(1);
        state.window_max -= 1;
        state.next_incoming_id = state.next_incoming_id.map(|id| id.wrapping_add(1));
        let Side::Receives(side) = &mut self.links[key].side else { panic!("{transfer:?}") };
        if let Some(partial) = &mut side.partial {
            assert!(transfer.delivery_id.is_none_or(|id| id == partial.delivery_id));
            partial.payload.extend_from_slice(payload);
        } else {
            assert!(side.credit_max > 0, "a delivery beyond the credit of link {key}");
            side.credit_max -= 1;
            side.credit = side.credit.saturating_sub(1);
            side.delivery_count = side.delivery_count.wrapping_add(1);
            let delivery_id = transfer.delivery_id.expect("a delivery-id");
            assert!(
                state.next_from_broker.is_none_or(|next| next == delivery_id),
                "delivery-ids are consecutive"
            );
            state.next_from_broker = Some(delivery_id.wrapping_add(1));
            let settled = transfer.settled.unwrap_or_default();
            assert_eq!(settled, side.deletes);
            side.partial = Some(Partial { delivery_id, settled, payload: BytesMut::from(&payload[..]) });
        }
        if !transfer.more
            && let Some(partial) = side.partial.take()
        {
            self.delivered(session, key, partial);
        }
    }

    fn delivered(&mut self, session: usize, link: usize, partial: Partial) {
        let Partial { delivery_id, settled, payload } = partial;
        let (message, until) = decode(&payload.freeze());
        let until = until.filter(|_| !settled);
        assert!(settled || until.is_some());
        let number = self.messages.delivered(message, until);
        if !settled && self.links[link].phase == Phase::Attached {
            let verdicts = VecDeque::new();
            let delivery = Delivery { link, message, number, verdicts, work: None, is_committed: false };
            self.sessions[session].unsettled.insert(delivery_id, delivery);
        }
    }

    fn answered(&mut self, session: usize, disposition: &Disposition) {
        let state = disposition.state.as_ref().expect("a state");
        let last = disposition.last.unwrap_or(disposition.first);
        let mut id = disposition.first;
        loop {
            match disposition.role {
                Role::Receiver => {
                    assert!(disposition.settled);
                    self.send_answered(session, id, state);
                }
                Role::Sender => match state {
                    DeliveryState::Transactional { txn_id, outcome } => {
                        let outcome = outcome.as_deref().expect("an outcome");
                        self.work_answered((session, id), txn_id, outcome, disposition.settled);
                    }
                    _ => {
                        assert!(disposition.settled);
                        self.verdict_answered(session, id, state);
                    }
                },
            }
            if id == last {
                return;
            }
            id = id.wrapping_add(1);
        }
    }

    fn send_answered(&mut self, session: usize, id: u32, state: &DeliveryState) {
        let Some(sent) = self.sessions[session].sent.remove(&id) else { return };
        let state = match (sent.purpose, state) {
            (Purpose::Work(number), DeliveryState::Transactional { txn_id, outcome }) => {
                assert_eq!(self.transactions[number].id.as_ref(), Some(txn_id));
                let outcome = outcome.as_deref().expect("an outcome");
                if self.transactions[number].may_refuse() && matches!(outcome, DeliveryState::Rejected(_)) {
                    return;
                }
                outcome
            }
            (Purpose::Declare(number), DeliveryState::Declared { txn_id }) => {
                self.transactions[number].id = Some(txn_id.clone());
                return;
            }
            (Purpose::Message | Purpose::Discharge, state) => state,
            other => panic!("{other:?}"),
        };
        match state {
            DeliveryState::Accepted => assert!(sent.is_valid, "a message that is too large is accepted"),
            DeliveryState::Rejected(Some(error)) => assert!(!sent.is_valid, "{error:?}"),
            other => panic!("{other:?}"),
        }
        self.messages.stored(&sent.messages, sent.is_valid);
    }

    fn verdict_answered(&mut self, session: usize, id: u32, state: &DeliveryState) {
        let Some(delivery) = self.sessions[session].unsettled.remove(&id) else { return };
        let expected = delivery.verdicts.back().filter(|expected| expected.work.is_none());
        let Expected { verdict, is_accepted: holds, .. } = expected.expect("a disposition of ours");
        let holds = *holds;
        let is_error = matches!(state, DeliveryState::Rejected(Some(_)));
        assert_eq!(holds, !is_error, "message {} is {verdict:?}, answered by {state:?}", delivery.message);
        if holds {
            assert_eq!(std::mem::discriminant(state), std::mem::discriminant(&verdict.state()));
        }
    }
}
