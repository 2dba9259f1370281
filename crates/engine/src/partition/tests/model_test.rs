//! Random histories, carried out by the partition and by [`Model`], compared after every command: effects, all
//! messages as readers see them, counts; at the end of every turn also what is stored. Deliveries feed the commands
//! that follow. Failures shrink; proptest prints the history.

use bytes::Bytes;
use peeklock_storage::Batch;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRng, TestRunner};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::histories::{Draft, History, Move, Verb, histories};
use super::model::{Model, Rule};
use super::rig::{ID, QUEUE, Store, check_invariants, path};
use crate::partition::{Outputs, Partition, persist};
use crate::{
    Command, CreditLimit, DeadLetter, Effect, LockToken, MessageView, NewMessage, Property, QueueOptions,
    ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, Settlement, SubQueue, Timestamp,
};

/// Both, and what a user would remember.
struct Comparison {
    partition: Partition,
    model: Model,
    random: StdRng,
    store: Store,
    outputs: Outputs,
    now: u64,
    tokens: Vec<LockToken>,
    last_receiver: u64,
    /// What each receiver got so far, since limits count from the opening.
    got: std::collections::BTreeMap<u64, CreditLimit>,
}

impl Comparison {
    fn new(options: &QueueOptions, seed: u64, broken: Option<Rule>) -> Self {
        Self {
            partition: Partition::new(QUEUE, options.clone()),
            model: Model::new(options.clone(), broken),
            random: StdRng::seed_from_u64(seed),
            store: Store::default(),
            outputs: Outputs::default(),
            now: 1000,
            tokens: Vec::new(),
            last_receiver: 0,
            got: std::collections::BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, one: &Move) -> Result<(), String> {
        match one {
            Move::Wait(ms) => {
                self.now += ms;
                self.compare(Command::Tick)
            }
            Move::SetOptions(options) => {
                self.partition.set_options(options.clone());
                self.model.options = options.clone();
                Ok(())
            }
            Move::EndTurn => {
                self.end_turn();
                Ok(())
            }
            Move::Restart => {
                self.end_turn();
                self.partition = self.store.restore(self.model.options.clone().into());
                self.model.restart();
                self.got.clear();
                Ok(())
            }
            other => {
                let command = self.command(other);
                self.compare(command)
            }
        }
    }

    fn command(&mut self, one: &Move) -> Command {
        match one {
            Move::Send(drafts) => {
                Command::Send { messages: drafts.iter().map(|draft| self.message(draft)).collect() }
            }
            Move::Cancel(picks) => Command::CancelScheduled { numbers: self.numbers(picks) },
            Move::Open(sub_queue, mode) => {
                self.last_receiver += 1;
                let options = ReceiverOptions { source: path(*sub_queue), mode: *mode };
                Command::OpenReceiver { receiver: ReceiverId(self.last_receiver), options, session: None }
            }
            Move::Credit { pick, messages, bytes, drain } => {
                let receiver = self.last_receiver.saturating_sub(*pick as u64);
                let got = self.got.get(&receiver).copied().unwrap_or_default();
                let limit = CreditLimit {
                    messages: got.messages + messages,
                    bytes: got.bytes.saturating_add(*bytes),
                };
                Command::Credit { receiver: ReceiverId(receiver), limit, drain: *drain }
            }
            Move::Close(pick) => {
                let receiver = ReceiverId(self.last_receiver.saturating_sub(*pick as u64));
                Command::CloseReceiver { receiver }
            }
            Move::Settle(picks, verb, modify) => {
                let tokens = self.picked_tokens(picks).into();
                Command::Settle { queue: QUEUE, tokens, settlement: settlement(*verb, *modify) }
            }
            Move::Renew(picks) => Command::RenewLocks { queue: QUEUE, tokens: self.picked_tokens(picks) },
            Move::ReceiveDeferred(picks, sub_queue, mode) => {
                let numbers = self.deferred_numbers(picks);
                Command::ReceiveDeferred { numbers, source: path(*sub_queue), mode: *mode, receiver: None }
            }
            Move::Peek { from, count_max, bytes_max, sub_queue } => Command::Peek {
                from: SequenceNumber(*from),
                count_max: *count_max,
                bytes_max: *bytes_max,
                source: path(*sub_queue),
                session: None,
            },
            Move::Wait(_) | Move::SetOptions(_) | Move::EndTurn | Move::Restart => Command::Tick,
        }
    }

    fn message(&self, draft: &Draft) -> NewMessage {
        NewMessage {
            content: Bytes::from(vec![7; draft.bytes]),
            time_to_live_ms: draft.time_to_live_ms,
            scheduled_enqueue_time: draft.delay_ms.map(|ms| Timestamp(self.now + ms)),
            session_id: None,
            header_bytes: 0,
            facts: None,
        }
    }

    /// Numbers of the latest messages.
    fn numbers(&self, picks: &[usize]) -> Vec<SequenceNumber> {
        let next = self.partition.state.entity.next_number.0;
        picks.iter().map(|pick| SequenceNumber(next.saturating_sub(*pick as u64))).collect()
    }

    /// Numbers of messages that are deferred, and one that is none.
    fn deferred_numbers(&self, picks: &[usize]) -> Vec<SequenceNumber> {
        let views = self.model.views();
        let deferred = views.iter().filter(|view| view.state == crate::MessageState::Deferred);
        let mut choice: Vec<_> = deferred.map(|view| view.sequence_number).collect();
        choice.push(self.partition.state.entity.next_number);
        picks.iter().map(|pick| choice[pick % choice.len()]).collect()
    }

    fn picked_tokens(&self, picks: &[usize]) -> Vec<LockToken> {
        let pick = |pick: &usize| self.tokens.iter().rev().nth(*pick).copied().unwrap_or(LockToken(5));
        picks.iter().map(pick).collect()
    }

    /// Lets both handle a command.
    fn compare(&mut self, command: Command) -> Result<(), String> {
        self.outputs.effects.clear();
        let now = Timestamp(self.now);
        let request = Some(RequestId(1));
        self.partition.handle(now, &mut self.random, request, command.clone(), &mut self.outputs);
        let effects = comparable(&self.outputs.effects);
        let tokens = tokens_of(&effects);
        self.tokens.extend(&tokens);
        for effect in &effects {
            if let Effect::Deliver { receiver, view, .. } = effect {
                let bytes = self.bytes_of(view);
                let got = self.got.entry(receiver.0).or_default();
                got.messages += 1;
                got.bytes += bytes;
            }
        }
        let expected = self.model.handle(self.now, command.clone(), tokens);
        equal("effects", &command, &effects, &expected)?;
        equal("messages", &command, &self.views(), &self.model.views())
    }

    /// Length of a delivered message's content: it is in this turn's events or in the store.
    fn bytes_of(&self, view: &MessageView) -> u64 {
        let mut stored = self.outputs.events.iter().filter_map(crate::Event::stored_body);
        let recent = stored.find(|(body, _)| *body == view.body).map(|(_, content)| content.len());
        let key = (peeklock_storage::Space::Body, view.body.0);
        recent.or_else(|| Some(self.store.0.get(&key)?.len())).unwrap_or(0) as u64
    }

    fn views(&self) -> Vec<MessageView> {
        let mut views = Vec::new();
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter, SubQueue::TransferDeadLetter] {
            let all = self.partition.state.entity.messages.get(sub_queue).range(SequenceNumber(0));
            views.extend(all.map(|(number, record)| record.view(QUEUE, number)));
        }
        views.sort_by_key(|view| view.sequence_number);
        views
    }

    fn end_turn(&mut self) {
        let mut batch = Batch::new();
        persist(ID, &self.outputs.events, &mut batch);
        self.outputs.events.clear();
        self.store.write(batch);
        check_invariants(&self.partition, &self.store);
    }
}

fn settlement(verb: Verb, modify: Option<(u8, u8)>) -> Settlement {
    let property = |(name, value): (u8, u8)| Property {
        name: format!("p{name}").into(),
        value: Bytes::from(vec![value]),
    };
    let modify: Vec<_> = modify.map(property).into_iter().collect();
    match verb {
        Verb::Complete => Settlement::Complete,
        Verb::Abandon => Settlement::Abandon { modify },
        Verb::Defer => Settlement::Defer { modify },
        Verb::DeadLetter => {
            let why = DeadLetter { reason: Some("why".into()), description: None };
            Settlement::DeadLetter { why: why.into(), modify }
        }
        Verb::Release => Settlement::Release,
    }
}

/// The texts of refused arguments are for people; the model does not know them.
fn comparable(effects: &[Effect]) -> Vec<Effect> {
    fn mask<T>(result: &mut Result<T, Refusal>) {
        if let Err(Refusal::InvalidArgument(text)) = result {
            text.clear();
        }
    }
    let mut effects = effects.to_vec();
    for effect in &mut effects {
        if let Effect::Reply { reply, .. } = effect {
            match reply {
                Reply::Sent(result) => mask(result),
                Reply::Done(result) => mask(result),
                Reply::Renewed(result) => mask(result),
                Reply::Received(result) => mask(result),
                Reply::Opened(result) => mask(result),
                _ => {}
            }
        }
    }
    effects
}

fn tokens_of(effects: &[Effect]) -> Vec<LockToken> {
    let mut tokens = Vec::new();
    for effect in effects {
        match effect {
            Effect::Deliver { lock, .. } => tokens.extend(lock.map(|lock| lock.token)),
            Effect::Reply { reply: Reply::Received(Ok(received)), .. } => {
                tokens.extend(received.iter().filter_map(|(_, lock)| lock.map(|lock| lock.token)));
            }
            _ => {}
        }
    }
    tokens
}

fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    command: &Command,
    got: &T,
    expected: &T,
) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what} after {command:?}\n     got {got:#?}\nexpected {expected:#?}"))
}

fn run((options, moves, seed): &History, broken: Option<Rule>) -> Result<(), String> {
    let mut comparison = Comparison::new(options, *seed, broken);
    for one in moves {
        comparison.carry_out(one)?;
    }
    comparison.end_turn();
    Ok(())
}

/// `PROPTEST_CASES` sets how many histories, `PROPTEST_RNG_SEED` repeats a run.
#[test]
fn the_partition_does_what_the_model_does() {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(rand::make_rng::<StdRng>().next_u64());
    }
    let seed = config.rng_seed;
    let outcome =
        TestRunner::new(config).run(&histories(), |history| run(&history, None).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("PROPTEST_RNG_SEED: {seed:?}\n{failure}");
    }
}

/// The comparison would be worth nothing if it could not fail.
#[test]
fn every_broken_rule_is_noticed() {
    const HISTORIES_MAX: usize = 1000;
    for rule in Rule::ALL {
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        let noticed = (0..HISTORIES_MAX).any(|_| {
            let history = histories().new_tree(&mut runner).unwrap().current();
            run(&history, Some(rule)).is_err()
        });
        assert!(noticed, "{rule:?}: the partition and a model without this rule agree");
    }
}
