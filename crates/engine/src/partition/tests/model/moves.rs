//! Converts moves of a history to commands, given the present state.

use std::sync::Arc;

use bytes::Bytes;

use super::super::rig::QUEUE;
use super::super::topics::sql::sql;
use super::comparison::Comparison;
use super::draft::{Draft, FilterDraft, LockDraft, Move, RuleDraft, SessionRequestDraft, Verb};
use super::sql::{ACTIONS, CONDITIONS};
use crate::{
    Command, CorrelationFilter, CreditLimit, DeadLetter, Filter, LockToken, MessageKey, NewMessage,
    PartitionKey, Property, PropertyValue, QueueId, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions,
    RuleProperties, Selector, SequenceNumber, SessionLock, SessionRequest, Settlement, SqlAction, SubQueue,
    Timestamp,
};

const KEYS: [&str; 3] = ["k", "l", "m"];
/// The pick for which a number with the wrong partition is used.
const WRONG_PARTITION: usize = 3;
/// The deferred message of a queue for which this applies.
const WRONGLY_DEFERRED: usize = 1;
const NAMES: [&str; 3] = ["a", "b", "c"];
const RULE_NAMES: [&str; 5] = ["$Default", "$default", "x", "X", "#"];
const LABELS: [&str; 3] = ["red", "RED", "blue"];
const IDS: [&str; 3] = ["", "a", "A"];
const SESSIONS: [&str; 4] = ["", "a", "A", "b"];
/// The id of no queue.
const UNKNOWN: QueueId = QueueId(5);
/// Errors in a declaration.
const NEW_NUMBER: u8 = 1;
const OTHER_KIND: u8 = 2;
const OTHER_NAME: u8 = 3;

impl Comparison {
    pub(super) fn command(&mut self, one: &Move) -> Command {
        match one {
            Move::Send(drafts) => {
                Command::Send { messages: drafts.iter().map(|draft| self.message(draft)).collect() }
            }
            Move::SendEach(drafts) => {
                Command::SendEach { messages: drafts.iter().map(|draft| self.message(draft)).collect() }
            }
            Move::KeepUndelivered(drafts) => Command::KeepUndelivered {
                messages: drafts.iter().map(|draft| self.message(draft)).collect(),
                why: DeadLetter { reason: Some("refused".into()), description: None }.into(),
            },
            Move::Cancel(picks) => {
                let next = self.partition.state.entity.next_number.0;
                let number = |pick: &usize| {
                    let number = SequenceNumber(next.saturating_sub(*pick as u64));
                    self.model.shown(QUEUE, number, *pick == WRONG_PARTITION)
                };
                Command::CancelScheduled { numbers: picks.iter().map(number).collect() }
            }
            Move::Open { queue, sub_queue, mode, requested, wrongly, after_ms } => {
                self.now += after_ms;
                let source = QueuePath { queue: self.queue(*queue), sub_queue: *sub_queue };
                let needs_session = *sub_queue == SubQueue::Main && self.requires_session(source.queue);
                let session = (needs_session != *wrongly).then(|| self.requested(requested));
                let options = ReceiverOptions { source, mode: *mode };
                Command::OpenReceiver { receiver: self.new_receiver(), options, session }
            }
            Move::Watch(queue) => {
                Command::Watch { watcher: self.new_receiver(), queue: self.queue(*queue), sends: true }
            }
            Move::Credit { pick, messages, bytes, drain } => {
                let receiver = self.receiver(*pick);
                let got = self.got.get(&receiver.0).copied().unwrap_or_default();
                let limit = CreditLimit {
                    messages: got.messages + messages,
                    bytes: got.bytes.saturating_add(*bytes),
                };
                Command::Credit { receiver, limit, drain: *drain }
            }
            Move::Select(pick) => self.select(*pick),
            Move::Examined(pick, bits) => self.examined(*pick, *bits),
            Move::Close(pick) => Command::CloseReceiver { receiver: self.receiver(*pick) },
            Move::Settle(picks, verb, modify) => {
                let (queue, tokens) = self.picked_tokens(picks);
                Command::Settle {
                    queue,
                    tokens: tokens.into(),
                    settlement: settlement(*verb, *modify, self.now),
                }
            }
            Move::Renew(picks) => {
                let (queue, tokens) = self.picked_tokens(picks);
                Command::RenewLocks { queue, tokens }
            }
            Move::ReceiveDeferred { picks, queue, sub_queue, mode, receiver } => {
                self.receive_deferred(picks, (*queue, *sub_queue), *mode, *receiver)
            }
            Move::Peek { from, count_max, bytes_max, queue, sub_queue, session } => Command::Peek {
                from: self.model.somewhere(*from),
                count_max: *count_max,
                bytes_max: *bytes_max,
                source: QueuePath { queue: self.queue(*queue), sub_queue: *sub_queue },
                session: session.map(|session| SESSIONS[session].into()),
            },
            other => self.rarer_command(other),
        }
    }

    fn rarer_command(&mut self, one: &Move) -> Command {
        match one {
            Move::DeleteMessages { queue, sub_queue, count_max, before_ms, receiver } => {
                let receiver = receiver.map(|pick| self.receiver(pick));
                let home = receiver
                    .and_then(|receiver| self.partition.state.receiver_queues.get(&receiver))
                    .copied();
                let queue = home.unwrap_or_else(|| self.queue(*queue));
                Command::DeleteMessages {
                    source: QueuePath { queue, sub_queue: *sub_queue },
                    count_max: *count_max,
                    enqueued_until: Timestamp(self.now - before_ms),
                    receiver,
                }
            }
            Move::Act { picks, queue, sub_queue, action } => self.act(picks, (*queue, *sub_queue), *action),
            Move::RenewSession(pick) => Command::RenewSessionLock { receiver: self.receiver(*pick) },
            Move::GetState(pick) => Command::GetSessionState { receiver: self.receiver(*pick) },
            Move::SetState(pick, state) => {
                let state = state.map(|length| Bytes::from(vec![7; length]));
                Command::SetSessionState { receiver: self.receiver(*pick), state }
            }
            Move::ListSessions { queue, updated_before, skip, top } => {
                let updated_since = updated_before.map(|ms| Timestamp(self.now - ms));
                Command::ListSessions { queue: self.queue(*queue), updated_since, skip: *skip, top: *top }
            }
            Move::Declare { intent, name, options, rules, wrong } => {
                let known = self.partition.subscriptions().find(|known| &*known.name == NAMES[*name]);
                let queue = known.map(|known| known.queue).filter(|_| *wrong != NEW_NUMBER);
                let queue = queue.unwrap_or_else(|| {
                    self.last_queue += 1;
                    QueueId(self.last_queue)
                });
                let requires_session = (NAMES[*name] == "b") != (*wrong == OTHER_KIND);
                let name = if *wrong == OTHER_NAME { NAMES[(name + 1) % NAMES.len()] } else { NAMES[*name] };
                let rules = rules.iter().map(rule).collect();
                let options = options.subscription(requires_session);
                Command::DeclareSubscription { intent: *intent, queue, name: name.into(), options, rules }
            }
            Move::Delete(queue) => Command::DeleteSubscription { queue: self.queue(*queue) },
            Move::AddRule(queue, draft) => Command::AddRule { queue: self.queue(*queue), rule: rule(draft) },
            Move::ReplaceRule(queue, draft) => {
                Command::ReplaceRule { queue: self.queue(*queue), rule: rule(draft) }
            }
            Move::EndEntity => Command::EndEntity,
            Move::RemoveRule(queue, name) => {
                Command::RemoveRule { queue: self.queue(*queue), name: RULE_NAMES[*name].into() }
            }
            Move::ListRules { queue, skip, top } => {
                Command::ListRules { queue: self.queue(*queue), skip: *skip, top: *top }
            }
            _ => Command::Tick,
        }
    }

    /// The holder of a session can't have a selector.
    fn select(&self, pick: usize) -> Command {
        let receiver = self.receiver(pick);
        let state = &self.partition.state;
        let open = state.source_of(receiver).and_then(|queue| Some((queue, queue.receivers.get(receiver)?)));
        match open {
            Some((queue, open))
                if queue.policy.requires_session && open.options.source.sub_queue == SubQueue::Main =>
            {
                Command::Tick
            }
            _ => Command::Select { receiver },
        }
    }

    fn examined(&mut self, pick: usize, bits: u8) -> Command {
        let receiver = self.receiver(pick);
        let asked = self.asked.remove(&receiver.0).unwrap_or_default();
        let matching = asked.into_iter().enumerate().filter(|(at, _)| bits >> (at % 8) & 1 == 1);
        Command::Examined { receiver, matching: matching.map(|(_, number)| number).collect() }
    }

    fn message(&self, draft: &Draft) -> NewMessage {
        let user = draft.user.map(|(upper, value)| {
            let name = if upper { "SIZE" } else { "size" };
            (name.into(), PropertyValue::Integer(value))
        });
        let rule_properties = RuleProperties {
            label: draft.label.map(|label| LABELS[label].into()),
            user: user.into_iter().collect(),
            session_id: draft.session.map(|session| SESSIONS[session].into()),
            ..RuleProperties::default()
        };
        let (session, id) = (draft.session.map(|session| SESSIONS[session]), draft.id.map(|id| IDS[id]));
        let (message_key, partition_key) = if self.model.options.is_partitioned() {
            let key = draft.key.map(|key| KEYS[key]);
            let id = id.filter(|_| self.model.options.requires_duplicate_detection());
            PartitionKey::of_message(session, key, id)
        } else {
            (id.map(MessageKey::of), None)
        };
        NewMessage {
            content: Bytes::from(vec![7; draft.bytes]),
            time_to_live_ms: draft.time_to_live_ms,
            scheduled_enqueue_time: draft.delay_ms.map(|ms| Timestamp(self.now + ms)),
            session_id: session.map(Into::into),
            header_bytes: draft.header_bytes,
            rule_properties: Some(Arc::new(rule_properties)),
            reserved_number: None,
            origin: None,
            message_key,
            partition_key,
        }
    }

    fn requested(&self, requested: &SessionRequestDraft) -> SessionRequest {
        let id =
            requested.id.map(|id| SESSIONS.get(id).map_or_else(|| "x".repeat(129), |id| (*id).to_owned()));
        let (id, lock) = match requested.lock {
            LockDraft::Exclusive => (id, SessionLock::Exclusive),
            LockDraft::NonExclusive => (id, SessionLock::NonExclusive),
            LockDraft::TakeOver(pick) => {
                let known = self.session_tokens.iter().rev().nth(pick);
                let token = known.map_or(LockToken(5), |(_, token)| *token);
                (id.map(|id| known.map_or(id, |(session, _)| session.clone())), SessionLock::TakeOver(token))
            }
        };
        SessionRequest { id: id.map(Into::into), wait_until: Timestamp(self.now + requested.wait_ms), lock }
    }

    const fn new_receiver(&mut self) -> ReceiverId {
        self.last_receiver += 1;
        ReceiverId(self.last_receiver)
    }

    /// An open receiver, counted from the latest, otherwise one that is not open.
    fn receiver(&self, pick: usize) -> ReceiverId {
        let open = self.partition.state.receiver_queues.keys().rev().nth(pick).copied();
        open.unwrap_or(ReceiverId(self.last_receiver.saturating_sub(pick as u64)))
    }

    /// A queue or subscription; rarely the topic itself, or an unknown id.
    pub(super) fn queue(&self, pick: usize) -> QueueId {
        let subscriptions = self.partition.subscription_ids();
        match pick {
            0 => UNKNOWN,
            1 => QUEUE,
            _ => subscriptions.get(pick % subscriptions.len().max(1)).copied().unwrap_or(QUEUE),
        }
    }

    pub(super) fn requires_session(&self, queue: QueueId) -> bool {
        self.partition.state.queue(queue).is_some_and(|queue| queue.policy.requires_session)
    }

    fn receive_deferred(
        &self,
        picks: &[usize],
        (queue, sub_queue): (usize, SubQueue),
        mode: ReceiveMode,
        receiver: Option<usize>,
    ) -> Command {
        let receiver = receiver.map(|pick| self.receiver(pick));
        let home = receiver.and_then(|receiver| self.partition.state.receiver_queues.get(&receiver)).copied();
        let queue = home.unwrap_or_else(|| self.queue(queue));
        let messages = self.model.messages();
        let deferred = messages
            .iter()
            .map(|(view, _)| view)
            .filter(|view| view.queue == queue && view.state == crate::MessageState::Deferred);
        let mut choice: Vec<_> = deferred
            .enumerate()
            .map(|(at, view)| self.model.shown(queue, view.sequence_number, at == WRONGLY_DEFERRED))
            .collect();
        // And one that is not deferred.
        choice.push(self.partition.state.entity.next_number);
        let numbers = picks.iter().map(|pick| choice[pick % choice.len()]).collect();
        Command::ReceiveDeferred {
            numbers,
            source: QueuePath { queue, sub_queue },
            mode,
            receiver,
            bytes_max: usize::MAX,
        }
    }

    /// Locks, and the queue of the first.
    fn picked_tokens(&self, picks: &[usize]) -> (QueueId, Vec<LockToken>) {
        let pick = |pick: &usize| self.tokens.iter().rev().nth(*pick).copied();
        let picked: Vec<_> = picks.iter().map(|one| pick(one).unwrap_or((QUEUE, LockToken(5)))).collect();
        let queue = picked.first().map_or(QUEUE, |(queue, _)| *queue);
        (queue, picked.into_iter().map(|(_, token)| token).collect())
    }
}

fn rule(RuleDraft { name, filter, action }: &RuleDraft) -> crate::Rule {
    let filter = match filter {
        FilterDraft::Sql(number) => sql(CONDITIONS[*number].0),
        FilterDraft::True => Filter::True,
        FilterDraft::False => Filter::False,
        FilterDraft::Correlation(label, size) => Filter::Correlation(Box::new(CorrelationFilter {
            label: label.map(|label| LABELS[label].into()),
            user: size.iter().map(|size| ("Size".into(), PropertyValue::Integer(*size))).collect(),
            ..CorrelationFilter::default()
        })),
        FilterDraft::Selector(label, size) => {
            let text = match label {
                Some(label) => format!("JMSType = '{}'", LABELS[*label]),
                None => format!("size = {size}"),
            };
            Filter::Selector(Box::new(Selector::new(&text).unwrap()))
        }
    };
    let action = action.map(|number| SqlAction::new(ACTIONS[number].0, Vec::new()).unwrap());
    crate::Rule { name: RULE_NAMES[*name].into(), filter, action, created_at: Timestamp::default() }
}

fn settlement(verb: Verb, modify: Option<(u8, usize)>, now: u64) -> Settlement {
    let property = |(name, bytes): (u8, usize)| Property {
        name: format!("p{name}").into(),
        value: vec![name; bytes].into(),
    };
    let modify: Vec<_> = modify.map(property).into_iter().collect();
    match verb {
        Verb::Complete => Settlement::Complete,
        Verb::Abandon => Settlement::Abandon { modify },
        Verb::Postpone(ms) => Settlement::Postpone { modify, until: Timestamp(now + ms) },
        Verb::Defer => Settlement::Defer { modify },
        Verb::DeadLetter => {
            let why = DeadLetter { reason: Some("why".into()), description: None };
            Settlement::DeadLetter { why: why.into(), modify }
        }
        Verb::Release => Settlement::Release,
    }
}
