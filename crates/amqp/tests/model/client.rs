//! A client that follows the specification, and checks after every exchange that the broker does.

use std::collections::BTreeMap;

use peeklock_amqp::wire::performative::{
    Attach, Begin, Detach, Flow, Performative, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};

use super::link::{Link, Phase, Receives, Sends, Sent, Session, Side};
use super::messages::{Messages, Place};
use super::pipe::{Broker, Pipe};
use super::step::{Setup, Step};
use super::transacting::Transaction;

/// Number of sessions at a time.
const SESSIONS_MAX: usize = 3;
/// Number of links at a time.
const LINKS_MAX: usize = 8;

pub(crate) struct Client<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) pipe: Pipe,
    pub(crate) setup: Setup,
    pub(crate) messages: Messages,
    /// All sessions and links that ever existed.
    pub(crate) sessions: Vec<Session>,
    pub(crate) links: Vec<Link>,
    /// All transactions that were ever declared.
    pub(crate) transactions: Vec<Transaction>,
    /// The broker's channels.
    pub(crate) channels: BTreeMap<u16, usize>,
    /// Whether bytes are collected.
    is_corked: bool,
}

impl<'a> Client<'a> {
    pub(crate) async fn new(broker: &'a Broker, setup: Setup, messages: Messages) -> Self {
        let pipe = broker.connect(setup.frame_bytes_max).await;
        let (sessions, links, transactions, channels) = Default::default();
        Self { broker, pipe, setup, messages, sessions, links, transactions, channels, is_corked: false }
    }

    pub(crate) async fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            self.take(step).await;
            if !self.is_corked {
                self.rest().await;
            }
        }
        self.is_corked = false;
        self.rest().await;
    }

    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Begin => self.begin(),
            Step::End(session) => self.end(session),
            Step::AttachReceiver { session, deletes, second, credit, drain } => {
                if let Some(link) = self.attach_receiver(session, deletes, second, "q") {
                    self.credit(link, credit, drain);
                }
            }
            Step::AttachSender { session } => self.attach_sender(session),
            Step::AttachCoordinator { session } => self.attach_coordinator(session),
            Step::Declare { link } => self.declare(link),
            Step::Discharge { transaction, fail } => self.discharge(transaction, fail),
            Step::Detach { link, again } => self.detach(link, again),
            Step::Credit { link, credit, drain } => {
                if let Some(link) = self.pick_link(link, |link| link.receives().is_some()) {
                    self.credit(link, credit, drain);
                }
            }
            Step::Window { session, frames } => {
                if let Some(session) = self.pick_session(session) {
                    self.open_window(session, frames);
                }
            }
            Step::Send { link, bytes, settled, batch, frames_now, work } => {
                self.send(link, (bytes, settled, batch), frames_now, work);
            }
            Step::SendMore { link, frames } => self.send_more(link, frames),
            Step::Abort { link } => self.abort(link),
            Step::Settle { session, first, count, verdict, settled } => {
                self.settle(session, (first, count), verdict, settled);
            }
            Step::SettleStaged { session, delivery, has_state } => {
                self.settle_staged(session, delivery, has_state);
            }
            Step::SettleWork { session, delivery, verdict, transaction } => {
                self.settle_work(session, delivery, verdict, transaction);
            }
            Step::Forget { session, first } => self.forget(session, first),
            Step::Pause { ms } => self.pause(ms).await,
            Step::Read(is_reading) => self.pipe.is_reading = is_reading,
            Step::Cork(is_corked) => self.is_corked = is_corked,
        }
    }

    pub(crate) async fn pause(&mut self, ms: u64) {
        self.rest().await;
        let mut left = ms;
        while left > 0 {
            let part = left.min(5_000);
            left -= part;
            self.broker.clock.advance(part);
            self.pipe.heartbeat();
            self.messages.time_passed(self.broker.now_ms());
            self.rest().await;
        }
    }

    /// Ends the connection without a word; what the broker has sent is lost.
    pub(crate) async fn hang_up(mut self) -> Messages {
        for key in 0..self.links.len() {
            if self.links[key].phase != Phase::Gone {
                self.forget_link(key);
            }
        }
        self.messages
    }

    pub(crate) fn pick_session(&self, number: u8) -> Option<usize> {
        let open: Vec<usize> = (0..self.sessions.len()).filter(|&key| !self.sessions[key].is_ended).collect();
        (!open.is_empty()).then(|| open[usize::from(number) % open.len()])
    }

    pub(crate) fn pick_link(&mut self, number: u8, suits: impl Fn(&mut Link) -> bool) -> Option<usize> {
        let suits = |link: &mut Link| link.is_ours() && suits(link);
        let keys: Vec<usize> = (0..self.links.len()).filter(|&key| suits(&mut self.links[key])).collect();
        (!keys.is_empty()).then(|| keys[usize::from(number) % keys.len()])
    }

    pub(crate) fn begin(&mut self) {
        let used: Vec<u16> = self.sessions.iter().filter(|s| !s.is_ended).map(|s| s.channel).collect();
        if used.len() == SESSIONS_MAX {
            return;
        }
        let channel = (0..).find(|channel| !used.contains(channel)).expect("a channel");
        let next_outgoing_id = if self.setup.wraps { u32::MAX - 20 } else { 0 };
        let window = self.setup.window;
        let begin =
            Begin { next_outgoing_id, incoming_window: window, outgoing_window: 1_000, ..Begin::default() };
        self.pipe.say(channel, Performative::Begin(begin), b"");
        self.sessions.push(Session {
            channel,
            is_ended: false,
            next_incoming_id: None,
            next_outgoing_id,
            next_delivery_id: if self.setup.wraps { u32::MAX - 3 } else { 0 },
            window,
            window_max: window,
            next_from_broker: None,
            unsettled: BTreeMap::new(),
            sent: BTreeMap::new(),
        });
    }

    fn end(&mut self, number: u8) {
        let Some(session) = self.pick_session(number) else { return };
        for key in 0..self.links.len() {
            if self.links[key].session == session && self.links[key].phase != Phase::Gone {
                self.forget_link(key);
                self.links[key].phase = Phase::Gone;
            }
        }
        self.pipe.say(self.sessions[session].channel, Performative::End(None), b"");
        self.sessions[session].is_ended = true;
    }

    /// What follows from the end of a link for messages.
    pub(crate) fn forget_link(&mut self, key: usize) {
        let link = &mut self.links[key];
        let session = &mut self.sessions[link.session];
        match &mut link.side {
            Side::Sends(side) => {
                if let Some(rest) = side.partial.take() {
                    rest.messages.iter().for_each(|&id| self.messages.set(id, Place::Gone));
                }
            }
            Side::Receives(side) => {
                // Another link may have used up the window in which removed messages were to be sent.
                let is_shut = session.window == 0 || side.partial.is_some();
                let may_be_leaving = self.is_corked || self.pipe.skipped_reading || is_shut;
                if side.deletes && may_be_leaving {
                    self.messages.perhaps_lost();
                }
            }
        }
        session.unsettled.retain(|_, delivery| delivery.link != key);
        let (gone, left) =
            std::mem::take(&mut session.sent).into_iter().partition(|(_, sent)| sent.link == key);
        session.sent = left;
        let gone: BTreeMap<u32, Sent> = gone;
        for sent in gone.into_values() {
            self.messages.stored(&sent.messages, sent.is_valid);
        }
        self.roll_back_of(key);
    }

    pub(crate) fn attach_receiver(
        &mut self,
        session: u8,
        deletes: bool,
        second: bool,
        address: &str,
    ) -> Option<usize> {
        let session = self.pick_session(session)?;
        let side = Side::Receives(Receives { deletes, ..Receives::default() });
        let key = self.add_link(session, side, None)?;
        self.say_attach(key, second, address);
        Some(key)
    }

    fn attach_sender(&mut self, session: u8) {
        let Some(session) = self.pick_session(session) else { return };
        let delivery_count = if self.setup.wraps { u32::MAX - 1 } else { 0 };
        let side = Sends { delivery_count, credit: 0, is_doomed: false, coordinates: false, partial: None };
        if let Some(key) = self.add_link(session, Side::Sends(side), None) {
            self.say_attach(key, false, "q");
        }
    }

    pub(crate) fn add_link(&mut self, session: usize, side: Side, name: Option<String>) -> Option<usize> {
        let ours = |link: &&Link| link.is_ours();
        if self.links.iter().filter(ours).count() == LINKS_MAX {
            return None;
        }
        let used: Vec<u32> =
            self.links.iter().filter(ours).filter(|l| l.session == session).map(|l| l.handle).collect();
        let handle = (0..).find(|handle| !used.contains(handle)).expect("a handle");
        let key = self.links.len();
        let name = name.unwrap_or_else(|| format!("link-{key}"));
        self.links.push(Link {
            session,
            name,
            handle,
            is_answered: false,
            their_handle: None,
            phase: Phase::Asked,
            side,
        });
        Some(key)
    }

    pub(crate) fn say_attach(&mut self, key: usize, second: bool, address: &str) {
        let link = &self.links[key];
        let node = Terminus { address: Some(address.into()), ..Terminus::default() };
        let target = match &link.side {
            Side::Sends(side) if side.coordinates => Target::Coordinator(Vec::new()),
            _ => Target::Node(node.clone()),
        };
        let (role, deletes, count) = match &link.side {
            Side::Receives(side) => (Role::Receiver, side.deletes, None),
            Side::Sends(side) => (Role::Sender, false, Some(side.delivery_count)),
        };
        let attach = Attach {
            name: link.name.as_str().into(),
            handle: link.handle,
            role,
            snd_settle_mode: if deletes { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            rcv_settle_mode: if second { ReceiverSettleMode::Second } else { ReceiverSettleMode::First },
            source: Some(node),
            target: Some(target),
            resumes: false,
            initial_delivery_count: count,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        };
        let channel = self.sessions[link.session].channel;
        self.pipe.say(channel, Performative::Attach(Box::new(attach)), b"");
    }

    /// Detaches, and attaches again at once with the same name and handle if so asked.
    fn detach(&mut self, number: u8, again: bool) {
        let Some(key) = self.pick_link(number, |_| true) else { return };
        let (session, handle) = (self.links[key].session, self.links[key].handle);
        if self.links[key].receives().is_none() {
            self.forget_link(key);
        } else {
            self.sessions[session].unsettled.retain(|_, delivery| delivery.link != key);
        }
        self.links[key].phase = Phase::Detached;
        let detach = Detach { handle, closed: true, error: None };
        self.pipe.say(self.sessions[session].channel, Performative::Detach(detach), b"");
        if !again {
            return;
        }
        let wraps = self.setup.wraps;
        let side = match &self.links[key].side {
            Side::Receives(side) => Side::Receives(Receives { deletes: side.deletes, ..Receives::default() }),
            Side::Sends(side) => {
                let (delivery_count, coordinates) = (if wraps { u32::MAX } else { 0 }, side.coordinates);
                Side::Sends(Sends { delivery_count, credit: 0, is_doomed: false, coordinates, partial: None })
            }
        };
        let name = Some(self.links[key].name.clone());
        if let Some(key) = self.add_link(session, side, name) {
            self.say_attach(key, false, "q");
        }
    }

    pub(crate) fn credit(&mut self, key: usize, credit: u32, drain: bool) {
        let link = &mut self.links[key];
        let (session, handle) = (link.session, link.handle);
        let has_attached = link.phase == Phase::Attached;
        let Some(side) = link.receives() else { return };
        side.credit = credit;
        side.credit_max = side.credit_max.max(credit);
        side.is_draining = drain;
        side.drains += u32::from(drain);
        let mut flow = self.session_flow(session);
        let Some(side) = self.links[key].receives() else { return };
        flow.handle = Some(handle);
        flow.delivery_count = has_attached.then_some(side.delivery_count);
        flow.link_credit = Some(credit);
        flow.drain = drain;
        self.pipe.say(self.sessions[session].channel, Performative::Flow(flow), b"");
    }

    fn session_flow(&self, session: usize) -> Flow {
        let session = &self.sessions[session];
        Flow {
            next_incoming_id: session.next_incoming_id,
            incoming_window: session.window,
            next_outgoing_id: session.next_outgoing_id,
            outgoing_window: 1_000,
            ..Flow::default()
        }
    }

    pub(crate) fn open_window(&mut self, key: usize, frames: u32) {
        let session = &mut self.sessions[key];
        session.window = frames;
        session.window_max = session.window_max.max(frames);
        let flow = self.session_flow(key);
        self.pipe.say(self.sessions[key].channel, Performative::Flow(flow), b"");
    }
}
