//! The Service Bus dialect: connects endpoint and engine.
//!
//! [`ServiceBus`] makes one [`ConnectionHandler`] per connection. It turns events of the endpoint into commands of the
//! engine, and the engine's answers into deliveries, dispositions and responses; it never blocks and keeps only the
//! state needed to match the two.

mod answer;
mod attach;
mod attempts;
mod authorization;
mod awaited;
mod browsing;
mod bus;
mod cbs;
mod clock_text;
mod config;
mod early;
mod entities;
mod envelope;
mod errors;
mod examining;
mod holds;
mod idle;
mod joined_sends;
mod kept_attach;
mod links;
mod lock_token;
mod management;
mod outbox;
mod pending;
mod presence;
mod receiver;
mod receiving;
mod relay;
mod removal;
mod requests;
mod resolve;
mod revocation;
pub mod sasl;
mod selector_filter;
mod sending;
mod session_filter;
mod settlement;
mod subscribing;
mod temporary;
#[cfg(test)]
mod tests;
mod transactions;
mod watching;
mod withdrawal;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_access::Failures;
use peeklock_budget::throttle::{Bucket, Throttles};
use peeklock_connections::Register;
use peeklock_engine::runtime::{Mailbox, Output, PartitionHandle};
use peeklock_engine::{Command, QueueId, ReceiverId, Refusal, Timestamp};
use peeklock_message::copy_blocks::CopyBlocks;
use peeklock_message::{delivery, rule_properties, submission};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};
use rustc_hash::FxHashMap;
use slab::Slab;

pub use bus::ServiceBus;
pub use config::{CAPABILITIES, DialectConfig, IdleLimits, TransactionLimits};
pub use entities::{Entities, Hold};
pub use errors::{Fault, condition};
pub use transactions::{JointStep, Place};

use crate::RefusalMetrics;
use crate::endpoint::{Connection, Event, LinkId, NowMs};
use crate::server::{Application, Peer, Unanswered};
use crate::wire::Str;
use crate::wire::performative::{Error, Open};
use attempts::PendingAttempts;
use authorization::Authorization;
use awaited::AwaitedAttaches;
use delivery::Encoder;
use early::EarlyRequests;
use entities::Entity;
use errors::Tracker;
use examining::Examinations;
use holds::Held;
use idle::IdleWatch;
use links::{Completions, Link, ReplyTo, ResponseLink};
use outbox::Outbox;
use pending::Pending;
use presence::Watched;
use receiver::Receiver;
use requests::Parked;
use revocation::RevocationWatch;
use sending::Transfer;
use subscribing::Client;
use transactions::Transactions;
use watching::Watchers;

/// Maximum number of tokens in one joined command.
const COMPLETIONS_MAX: usize = 1024;

/// Closed receivers remembered for deliveries that were already under way.
const CLOSED_RECEIVERS_MAX: usize = 1024;

/// The logic of one connection. Ids of links and receivers are assigned here, so no peer can make their hashes collide.
pub struct ConnectionHandler {
    entities: Arc<dyn Entities>,
    config: Arc<DialectConfig>,
    outbox: Outbox,
    /// Memory for messages of this turn that have to be re-encoded.
    copy_blocks: CopyBlocks,
    random: StdRng,
    peer: Peer,
    authorization: Authorization,
    revocation: RevocationWatch,
    failures: Arc<Failures>,
    /// Authentication attempts that are delayed.
    attempts: PendingAttempts,
    /// The broker's host name as sent by the client, for error texts.
    hostname: Str,
    client: Client,
    /// Entities and subscriptions that links keep in existence.
    holds: FxHashMap<LinkId, Held>,
    links: FxHashMap<LinkId, Link>,
    response_links: Vec<ResponseLink>,
    receivers: FxHashMap<ReceiverId, Receiver>,
    /// The receiver that holds each session of a queue or subscription, by the key of the session id.
    sessions: HashMap<(QueueId, Arc<str>), ReceiverId>,
    watchers: Watchers,
    /// Receivers to process after a transmission.
    busy: Vec<ReceiverId>,
    /// Browsers whose last page is being written.
    browsing: Vec<LinkId>,
    closed_receivers: VecDeque<(ReceiverId, Arc<Entity>)>,
    examinations: Examinations,
    /// Unsettled deliveries of all receivers.
    unsettled: usize,
    /// Indexed by request tag.
    pending: Slab<Pending>,
    /// Consecutive completions of this turn, not yet submitted.
    completions: Option<Completions>,
    unanswered: Unanswered,
    /// Management requests that wait for room for their answers.
    parked: VecDeque<Parked>,
    /// Management requests that wait for the link for their answers.
    early: EarlyRequests,
    /// Attaches to management nodes that wait for a token.
    awaited: AwaitedAttaches,
    /// See [`Self::keep_attach`].
    kept_excess_bytes: usize,
    /// Bytes that may wait for the peer in total, including expected answers.
    room_bytes: usize,
    encoder: Encoder,
    responses: u64,
    transactions: Transactions,
    /// Time of the connection at the last call.
    now: NowMs,
    /// The entities' time at a time of the connection: read at most once per turn.
    reading: Option<(NowMs, Timestamp)>,
    /// The latest time to check for deliveries that have waited too long to be sent.
    withdrawal_due: Option<NowMs>,
    idle: IdleWatch,
    throttles: Throttles,
    bucket: Option<Bucket>,
    register: Register,
    watched: Watched,
    metrics: RefusalMetrics,
}

impl ConnectionHandler {
    fn new(bus: &ServiceBus, peer: Peer, mailbox: Mailbox) -> Self {
        let ServiceBus { entities, access, config, failures, throttles, register, metrics } = bus.clone();
        let (authorization, idle) = (Authorization::new(access), IdleWatch::new(config.idle));
        let random = match config.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            // Ids need not be secret: a fixed seed when the system has no randomness is harmless.
            None => {
                StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|_| StdRng::seed_from_u64(entities.now().0))
            }
        };
        Self {
            peer,
            revocation: RevocationWatch::new(authorization.changes()),
            authorization,
            failures,
            attempts: PendingAttempts::default(),
            entities,
            config,
            outbox: Outbox::new(mailbox),
            copy_blocks: CopyBlocks::default(),
            random,
            hostname: "localhost".into(),
            client: Client::default(),
            holds: FxHashMap::default(),
            links: FxHashMap::default(),
            response_links: Vec::new(),
            receivers: FxHashMap::default(),
            sessions: HashMap::new(),
            watchers: Watchers::default(),
            busy: Vec::new(),
            browsing: Vec::new(),
            closed_receivers: VecDeque::new(),
            examinations: Examinations::default(),
            unsettled: 0,
            pending: Slab::new(),
            completions: None,
            unanswered: Unanswered::default(),
            parked: VecDeque::new(),
            early: EarlyRequests::default(),
            awaited: AwaitedAttaches::default(),
            kept_excess_bytes: 0,
            room_bytes: usize::MAX,
            encoder: Encoder::default(),
            responses: 0,
            transactions: Transactions::default(),
            now: 0,
            reading: None,
            withdrawal_due: None,
            idle,
            bucket: throttles.connection(),
            throttles,
            register,
            watched: Watched::default(),
            metrics,
        }
    }

    fn opened(&mut self, open: &Open) {
        if let Some(hostname) = open.hostname.as_deref().filter(|hostname| !hostname.is_empty()) {
            self.hostname = authorization::excerpt(hostname).into();
        }
        self.client = Client::of(&open.container_id, &open.properties);
        self.enter(open);
    }

    fn tracker(&mut self) -> Tracker {
        let metrics = self.metrics.clone();
        Tracker { tracking_id: self.random.random(), at: self.entities.now(), metrics }
    }

    /// Submits a command and stores how to handle its answer.
    #[inline]
    fn ask(&mut self, partition: &PartitionHandle, command: Command, pending: Pending) {
        let tag = self.expect(pending);
        self.outbox.add(partition, Some(tag), command);
    }

    /// Stores how to handle an answer; returns the tag that it will have.
    fn expect(&mut self, pending: Pending) -> u64 {
        u64::try_from(self.pending.insert(pending)).unwrap_or(u64::MAX)
    }

    /// Submits a command whose answer is not needed.
    fn tell(&mut self, partition: &PartitionHandle, command: Command) {
        self.outbox.add(partition, None, command);
    }

    fn handle(&mut self, event: Event, connection: &mut Connection) {
        match event {
            Event::Authenticate { mechanism, initial_response } => {
                self.authenticate(&mechanism, initial_response.as_deref(), connection);
            }
            Event::Opened(open) => self.opened(&open),
            Event::Attach { link, session, attach } => self.attach(link, session, *attach, connection),
            Event::Message { id, settled, message_format, state, payload, .. } => {
                let delivery = (!settled).then_some(id);
                let transfer = Transfer { link: id.link, delivery, message_format, state, payload };
                self.message(&transfer, connection);
            }
            Event::Refused { txn_id, error } => self.transfer_refused(&txn_id, error),
            Event::Credit { link, limit, drain } => self.credit(link, limit, drain, connection),
            Event::Disposition { link, first, tags, state, settled } => {
                self.disposition(receiving::Disposition { link, first, tags, settled }, state, connection);
            }
            Event::Ending { link, closed } => self.ending(link, closed, connection),
            Event::Detached { link, .. } => self.detached(link),
            Event::SessionEnded { session } => self.session_ended(session),
            // Only for initiators and for settlement in two steps.
            Event::Settled { .. } | Event::Updated { .. } | Event::Drained { .. } => {}
            Event::Closed { .. } => {
                self.handle_all_waiting_events(connection);
                self.close();
            }
        }
    }
}

impl Application for ConnectionHandler {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, now: NowMs) {
        self.now = now;
        self.idle.note(&event, now);
        if let Some(event) = self.in_order(event) {
            self.handle(event, connection);
        }
    }

    fn handle_output(&mut self, output: Output, connection: &mut Connection, now: NowMs) {
        self.now = now;
        match output {
            Output::Response { tag, response } => self.answered(tag, response, connection),
            Output::Delivery(delivery) => self.deliver(delivery, connection),
            Output::Examine { receiver, messages } => self.examine(receiver, messages),
            Output::Drained { receiver } => self.drained(receiver, connection),
            Output::ReceiverClosed { receiver, refusal } => {
                self.receiver_closed(receiver, refusal, connection);
            }
        }
    }

    fn end_of_turn(&mut self, connection: &mut Connection, now: NowMs) {
        self.continue_examinations();
        self.handle_waiting_events(connection);
        self.answer_awaited_by_transfer(connection);
        self.submit_completions();
        self.update_authorization(connection, now);
        self.answer_watchers(connection, now);
        self.outbox.submit_commands();
    }

    fn handle_timeout(&mut self, connection: &mut Connection, now: NowMs) {
        self.now = now;
        self.conclude_due_attempts(connection, now);
        self.refuse_early(connection, now);
        self.refuse_awaited(connection, now);
        self.authorization_due(connection, now);
        self.expire_transactions(now);
        self.withdraw_late(connection, now);
        self.cut_closing(connection, now);
        self.end_idle(connection, now);
    }

    fn poll_deadline(&self) -> Option<NowMs> {
        let deadlines = [
            self.revocation.deadline(),
            self.attempts.deadline(),
            self.early.deadline(),
            self.awaited.deadline(),
            self.transactions.deadline(),
            self.withdrawal_due,
            self.watched.deadline(),
            self.idle.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (changed, asked) = (self.poll_change(context), self.watched.poll(context));
        if changed.is_ready() || asked.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn after_transmit(&mut self, connection: &mut Connection) {
        self.carry_out_parked(connection);
        self.process_receivers(connection);
        self.process_browsers(connection);
        self.outbox.submit_commands();
    }

    fn submit_commands(&mut self) {
        self.outbox.submit_commands();
        self.copy_blocks.clear();
    }

    fn is_busy(&self) -> bool {
        self.examinations.are_paused()
    }

    fn set_room(&mut self, bytes: usize) {
        self.room_bytes = bytes;
    }

    fn memory_short(&mut self) -> Error {
        self.tracker().error(&Fault::Refused(Refusal::MemoryShort))
    }

    fn give_up_kept(&mut self) {
        self.give_up_transactions();
    }

    fn is_unauthenticated(&self) -> bool {
        self.authorization.is_unauthenticated()
    }

    fn unanswered(&self) -> Unanswered {
        let waiting = self.transactions.waiting();
        let kept_bytes = self.transactions.kept_bytes();
        let messages = self.unanswered.messages + waiting;
        let bytes = self.unanswered.bytes + self.transactions.committing_bytes() + self.awaited.bytes();
        self.attempts.unanswered(Unanswered { messages, bytes, kept_bytes, ..self.unanswered })
    }
}
