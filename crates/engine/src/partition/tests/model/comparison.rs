//! A partition and a [`Model`] that carry out the same history, and the client's view of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use peeklock_storage::Batch;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::rig::{ID, QUEUE};
use super::draft::{Move, Options};
use super::histories::History;
use super::stored::Store;
use super::{Model, Rule, Seen, SeenState};
use crate::partition::queue::Queue;
use crate::partition::{Counts, Outputs, Partition, persist, sessions};
use crate::{
    Command, CreditLimit, Effect, EntityOptions, LockToken, MessageView, QueueId, QueueOptions, Refusal,
    Reply, RequestId, SequenceNumber, Timestamp, TopicOptions,
};

/// Number of commands sent to an ended entity before it is created again.
const REFUSED_AFTER_THE_END: usize = 3;

/// Both, and the client's view.
pub(in crate::partition::tests) struct Comparison {
    pub(super) partition: Partition,
    pub(super) model: Model,
    broken: Option<Rule>,
    pub(super) random: StdRng,
    store: Store,
    pub(super) outputs: Outputs,
    pub(super) now: u64,
    last_request: u64,
    pub(super) last_receiver: u64,
    pub(super) last_queue: u64,
    /// Locks, with their queues.
    pub(super) tokens: Vec<(QueueId, LockToken)>,
    /// Tokens of sessions, with the session ids.
    pub(super) session_tokens: Vec<(String, LockToken)>,
    /// Messages and bytes received by each receiver, since limits count from the opening.
    pub(super) got: BTreeMap<u64, CreditLimit>,
    /// The messages that receivers with a selector are to examine.
    pub(super) asked: BTreeMap<u64, Vec<SequenceNumber>>,
    refused: usize,
}

impl Comparison {
    pub(in crate::partition::tests) fn new(options: &EntityOptions, seed: u64, broken: Option<Rule>) -> Self {
        Self {
            partition: Partition::new(QUEUE, options.clone()),
            model: Model::new(options.clone(), broken),
            broken,
            random: StdRng::seed_from_u64(seed),
            store: Store::new(options),
            outputs: Outputs::default(),
            now: 1000,
            last_request: 0,
            last_receiver: 0,
            last_queue: QUEUE.0,
            tokens: Vec::new(),
            session_tokens: Vec::new(),
            got: BTreeMap::new(),
            asked: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Carries out a history; an error describes the difference between the two.
    pub(in crate::partition::tests) fn run(
        (options, moves, seed): &History,
        broken: Option<Rule>,
    ) -> Result<(), String> {
        let mut comparison = Self::new(options, *seed, broken);
        for one in moves {
            comparison.carry_out(one)?;
        }
        comparison.end_turn()
    }

    fn carry_out(&mut self, one: &Move) -> Result<(), String> {
        if self.model.ended {
            self.refused += 1;
            if self.refused > REFUSED_AFTER_THE_END {
                self.begin_anew();
            }
        }
        match one {
            Move::Wait(ms) => {
                let deadline = self.partition.next_deadline();
                self.now += ms;
                let events = self.outputs.events.len();
                self.compare(Command::Tick)?;
                let nothing = self.outputs.effects.is_empty() && self.outputs.events.len() == events;
                if deadline.is_none_or(|at| at.0 > self.now) && !nothing {
                    return Err(format!("something happened before {deadline:?}"));
                }
                Ok(())
            }
            Move::Pass(ms) => {
                self.now += ms;
                Ok(())
            }
            Move::SetOptions(options) => {
                let options = Arc::new(self.changed(options));
                self.compare(Command::ChangeOptions { options })
            }
            Move::EndTurn => self.end_turn(),
            Move::Restart => {
                self.end_turn()?;
                if self.model.ended {
                    self.begin_anew();
                    return Ok(());
                }
                self.partition = self.store.restore(&self.model.options);
                self.model.restart();
                self.got.clear();
                self.compare_entities(&Command::Tick)
            }
            Move::Unit(moves) => self.compare_unit(moves),
            other => {
                let command = self.command(other);
                self.compare(command)
            }
        }
    }

    /// Creates the entity again after it ended and was deleted.
    fn begin_anew(&mut self) {
        let options = self.model.options.clone();
        self.partition = Partition::new(QUEUE, options.clone());
        self.store = Store::new(&options);
        self.model = Model::new(options, self.broken);
        self.outputs.events.clear();
        self.got.clear();
        self.refused = 0;
    }

    /// Changed options; immutable ones stay.
    fn changed(&self, to: &Options) -> EntityOptions {
        match &self.model.options {
            EntityOptions::Queue(queue) => QueueOptions {
                requires_duplicate_detection: queue.requires_duplicate_detection,
                kept: queue.kept.clone(),
                ..to.queue(queue.requires_session)
            }
            .into(),
            EntityOptions::Topic(topic) => TopicOptions {
                requires_duplicate_detection: topic.requires_duplicate_detection,
                kept: topic.kept.clone(),
                ..to.topic()
            }
            .into(),
        }
    }

    /// Lets both handle a command.
    pub(super) fn compare(&mut self, command: Command) -> Result<(), String> {
        self.outputs.effects.clear();
        let now = Timestamp(self.now);
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.partition.handle(now, &mut self.random, Some(request), command.clone(), &mut self.outputs);
        let effects = comparable(&self.outputs.effects);
        self.remember(&effects);
        let tokens = tokens_of(&effects);
        let tokens = (tokens, session_tokens_of(&effects));
        let mut expected = self.model.handle(self.now, request, command.clone(), tokens);
        let mut got = effects;
        if !matches!(&self.model.options, EntityOptions::Queue(queue) if !queue.requires_session) {
            told_of_the_end(&mut got);
            told_of_the_end(&mut expected);
            // The order between different receivers is not guaranteed.
            got.sort_by_key(audience);
            expected.sort_by_key(audience);
        }
        equal("effects", &command, &got, &expected)?;
        if self.partition.next_deadline().is_some_and(|at| at <= now) {
            return Err(format!("something is left over after {command:?}"));
        }
        self.compare_entities(&command)
    }

    pub(super) fn compare_entities(&self, command: &Command) -> Result<(), String> {
        if self.model.ended {
            return Ok(());
        }
        equal("messages", command, &self.messages(), &self.model.messages())?;
        equal("counts", command, &self.counts(), &self.model.counts())?;
        equal("states", command, &self.session_states(), &self.model.session_states())
    }

    /// Updates the view of the receivers.
    fn remember(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Examine { receiver, views } = effect {
                let numbers = views.iter().map(|view| view.sequence_number).collect();
                assert_eq!(self.asked.insert(receiver.0, numbers), None, "one question at a time");
            }
            if let Effect::Deliver { receiver, view, .. } = effect {
                let bytes = self.bytes_of(view);
                let got = self.got.entry(receiver.0).or_default();
                got.messages += 1;
                got.bytes += bytes;
            }
        }
        self.session_tokens.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Reply { reply: Reply::Opened(Ok(Some(accepted))), .. } => {
                Some((accepted.id.to_string(), accepted.token?))
            }
            _ => None,
        }));
        self.tokens.extend(tokens_of(effects).into_iter().map(|((queue, _), token)| (QueueId(queue), token)));
    }

    /// Length of a delivered message's body, which is in this turn's events or in the store.
    fn bytes_of(&self, view: &MessageView) -> u64 {
        let mut stored = self.outputs.events.iter().filter_map(crate::Event::stored_body);
        let recent = stored.find(|(body, _)| *body == view.body).map(|(_, content)| content.len());
        recent.or_else(|| self.store.content_bytes(view.body.0)).unwrap_or(0) as u64
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        let state = &self.partition.state;
        std::iter::once(&state.entity).chain(state.subscriptions.values())
    }

    fn messages(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for queue in self.queues() {
            let all = queue.all_messages();
            seen.extend(all.map(|(number, one)| {
                let mut view = one.view(queue.id, number);
                mask_failure(&mut view);
                (view, one.session_id().map(|id| Arc::clone(id.text())))
            }));
        }
        seen.sort_by_key(|(view, _)| (view.queue, view.sequence_number));
        seen
    }

    fn counts(&self) -> Vec<(QueueId, Counts)> {
        let subscriptions = self.partition.subscription_ids().into_iter();
        let subscriptions = subscriptions.map(|id| (id, self.partition.subscription_counts(id).unwrap()));
        std::iter::once((QUEUE, self.partition.counts())).chain(subscriptions).collect()
    }

    fn session_states(&self) -> Vec<SeenState> {
        let of = |queue: &Queue| {
            let (id, states) = (queue.id, sessions::tests::states(queue));
            states.into_iter().map(move |(session, _, bytes, at)| (id, session, bytes, at))
        };
        self.queues().flat_map(of).collect()
    }

    /// Stores the events and checks that the stored data restores to the present state; the model determines which uses are
    /// stored.
    fn end_turn(&mut self) -> Result<(), String> {
        let mut batch = Batch::new();
        persist(ID, &self.outputs.events, &mut batch);
        self.outputs.events.clear();
        self.store.write(batch);
        if self.model.ended {
            return Ok(());
        }
        if self.broken.is_none() {
            // This takes long, and is independent of the model.
            self.store.check(&self.partition);
        }
        let used = self.queues().map(|queue| (queue.id, queue.used_at_stored)).collect();
        equal("stored uses", &Command::Tick, &used, &self.model.stored_uses())
    }
}

/// The recipient of an effect. Each recipient gets its effects in order.
const fn audience(effect: &Effect) -> (u8, u64) {
    match effect {
        Effect::Reply { request, .. } => (0, request.0),
        Effect::Deliver { receiver, .. }
        | Effect::Examine { receiver, .. }
        | Effect::Drained { receiver }
        | Effect::ReceiverClosed { receiver, .. } => (1, receiver.0),
        Effect::Ended(_) => (2, 0),
    }
}

/// When the whole entity ends, other reasons for closing at the same time are irrelevant.
fn told_of_the_end(effects: &mut [Effect]) {
    if !effects.iter().any(|effect| matches!(effect, Effect::Ended(_))) {
        return;
    }
    for effect in effects {
        if let Effect::ReceiverClosed { refusal, .. } = effect {
            *refusal = Refusal::EntityDeleted;
        }
    }
}

/// The texts of some refusals are for people; the model ignores them.
pub(super) fn mask(refusal: &mut Refusal) {
    match refusal {
        Refusal::InvalidArgument(text) => text.clear(),
        Refusal::NotAllowed(text) => *text = "",
        _ => {}
    }
}

fn comparable(effects: &[Effect]) -> Vec<Effect> {
    let mut effects = effects.to_vec();
    for effect in &mut effects {
        if let Effect::Deliver { view, .. } = effect {
            mask_failure(view);
        }
        if let Effect::Examine { views, .. } = effect {
            views.iter_mut().for_each(mask_failure);
        }
        let Effect::Reply { reply, .. } = effect else { continue };
        match reply {
            // Which of its spellings a session has in answers is only guaranteed for requests by id.
            Reply::Opened(Ok(Some(accepted))) => accepted.id = accepted.id.to_ascii_lowercase().into(),
            Reply::Sessions(Ok(ids)) => {
                ids.iter_mut().for_each(|id| *id = id.to_ascii_lowercase().into());
            }
            Reply::Received(Ok(received)) => received.iter_mut().for_each(|(view, _)| mask_failure(view)),
            Reply::Sent(Err(refusal))
            | Reply::Done(Err(refusal))
            | Reply::Renewed(Err(refusal))
            | Reply::Deleted(Err(refusal))
            | Reply::Received(Err(refusal))
            | Reply::Opened(Err(refusal))
            | Reply::Sessions(Err(refusal))
            | Reply::Rules(Err(refusal)) => mask(refusal),
            Reply::SentEach(results) => {
                results.iter_mut().filter_map(|one| one.as_mut().err()).for_each(mask);
            }
            Reply::Settled(failures) => failures.iter_mut().for_each(|failure| mask(&mut failure.refusal)),
            _ => {}
        }
    }
    effects
}

/// The description of a rule's failure is for people as well.
fn mask_failure(view: &mut MessageView) {
    let Some(why) = &view.dead_letter else { return };
    let reason = why.reason.as_deref();
    if [crate::Failure::FILTER, crate::Failure::ACTION].map(Some).contains(&reason) {
        let masked = crate::DeadLetter { description: Some("".into()), ..crate::DeadLetter::clone(why) };
        view.dead_letter = Some(masked.into());
    }
}

/// Locks in effects, by queue and message.
fn tokens_of(effects: &[Effect]) -> BTreeMap<(u64, SequenceNumber), LockToken> {
    let mut tokens = BTreeMap::new();
    let mut note = |view: &MessageView, lock: &Option<crate::Lock>| {
        if let Some(lock) = lock {
            tokens.insert((view.queue.0, view.sequence_number), lock.token);
        }
    };
    for effect in effects {
        match effect {
            Effect::Deliver { view, lock, .. } => note(view, lock),
            Effect::Reply { reply: Reply::Received(Ok(received)), .. } => {
                received.iter().for_each(|(view, lock)| note(view, lock));
            }
            _ => {}
        }
    }
    tokens
}

/// Session lock tokens in effects, by the request that they answer.
fn session_tokens_of(effects: &[Effect]) -> BTreeMap<RequestId, LockToken> {
    let tokens = effects.iter().filter_map(|effect| match effect {
        Effect::Reply { request, reply: Reply::Opened(Ok(Some(accepted))) } => {
            Some((*request, accepted.token?))
        }
        _ => None,
    });
    tokens.collect()
}

pub(super) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    command: &impl std::fmt::Debug,
    got: &T,
    expected: &T,
) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what} after {command:?}\n     got {got:#?}\nexpected {expected:#?}"))
}
