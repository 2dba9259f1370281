use super::super::rig::message;
use super::rig::{Rig, TOPIC, options, rule, with_sessions};
use crate::partition::step::EXPIRIES_PER_CALL_MAX;
use crate::{
    Command, CreditLimit, Filter, Intent, LockToken, QueueId, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Refusal, Reply, SequenceNumber, Settlement, SubQueue, SubscriptionOptions,
};

fn declare(queue: QueueId, name: &str, options: SubscriptionOptions) -> Command {
    Command::DeclareSubscription {
        intent: Intent::Declare,
        queue,
        name: name.into(),
        options,
        rules: Vec::new(),
    }
}

#[test]
fn options_change_and_rules_stay() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe_to("Eu", Filter::False);
    let changed = SubscriptionOptions { lock_duration_ms: 7, max_delivery_count: 3, ..options() };
    rig.done(Command::DeclareSubscription {
        intent: Intent::Declare,
        queue,
        name: "eu".into(),
        options: changed.clone(),
        rules: vec![rule("new", Filter::True)],
    })
    .unwrap();
    for _ in 0..2 {
        let known = rig.partition.subscription(queue).unwrap();
        assert_eq!((&*known.name, &known.options), ("Eu", &changed));
        assert_eq!(known.rules[0].filter, Filter::False);
        rig.restart();
    }
    rig.done(Command::AddRule { queue, rule: rule("all", Filter::True) }).unwrap();
    rig.send(message("x"));
    rig.take_one(queue).unwrap();
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(7)), "new locks have the new length");
}

#[test]
fn declaring_unchanged_options_is_no_event() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    rig.done(declare(queue, "A", options())).unwrap();
    assert!(rig.events.is_empty());
}

#[test]
fn the_expected_state_decides() {
    let mut rig = Rig::plain();
    let with = |rig: &mut Rig, intent, queue, name: &str, max_delivery_count| {
        let options = SubscriptionOptions { max_delivery_count, ..options() };
        let (name, rules) = (name.into(), Vec::new());
        rig.done(Command::DeclareSubscription { intent, queue: QueueId(queue), name, options, rules })
    };
    assert_eq!(with(&mut rig, Intent::Update, 90, "a", 1), Err(Refusal::EntityDeleted));
    with(&mut rig, Intent::Create, 90, "a", 1).unwrap();
    // The second declaration has a different id for it.
    let exists = Err(Refusal::SubscriptionExists("A".into()));
    assert_eq!(with(&mut rig, Intent::Create, 91, "A", 2), exists);
    assert_eq!(with(&mut rig, Intent::Create, 90, "A", 2), exists);
    with(&mut rig, Intent::Update, 90, "A", 3).unwrap();
    with(&mut rig, Intent::Declare, 91, "A", 4).unwrap();
    assert_eq!(rig.partition.subscription_count(), 1);
    let known = rig.partition.subscription(QueueId(90)).unwrap();
    assert_eq!((&*known.name, known.options.max_delivery_count), ("a", 4));
}

#[test]
fn contradictory_declarations_of_subscriptions_are_refused() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    for command in
        [declare(queue, "a", with_sessions()), declare(queue, "b", options()), declare(TOPIC, "b", options())]
    {
        assert!(matches!(rig.done(command.clone()), Err(Refusal::InvalidArgument(_))), "{command:?}");
    }
    assert_eq!(rig.partition.subscription_count(), 1);
}

#[test]
fn a_topic_itself_can_not_be_read_from() {
    let mut rig = Rig::plain();
    let source = QueuePath::main(TOPIC);
    let receiver = ReceiverId(1);
    let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
    let opened = rig.ask(Command::OpenReceiver { receiver, options, session: None });
    let deferred = rig.ask(Command::ReceiveDeferred {
        numbers: vec![SequenceNumber(1)],
        source,
        mode: ReceiveMode::PeekLock,
        receiver: None,
        bytes_max: usize::MAX,
    });
    let Reply::Opened(Err(Refusal::NotAllowed(text))) = opened else { panic!("{opened:?}") };
    assert!(text.contains("one of its subscriptions"), "{text}");
    assert_eq!(deferred, Reply::Received(Err(Refusal::NotAllowed(text))));
    let token = LockToken(1);
    assert_eq!(rig.settle(TOPIC, token, Settlement::Complete), Err(Refusal::MessageLockLost));
}

#[test]
fn a_queue_has_no_subscriptions() {
    let mut rig = super::super::rig::Rig::new(super::super::rig::options());
    let queue = super::super::rig::QUEUE;
    for command in [
        declare(QueueId(99), "a", options()),
        declare(queue, "a", options()),
        Command::DeleteSubscription { queue },
        Command::AddRule { queue, rule: rule("r", Filter::True) },
        Command::RemoveRule { queue, name: "r".into() },
    ] {
        let reply = rig.ask(command.clone());
        assert!(matches!(reply, Reply::Done(Err(Refusal::NotAllowed(_)))), "{command:?}: {reply:?}");
    }
    let reply = rig.ask(Command::ListRules { queue, skip: 0, top: 1 });
    assert!(matches!(reply, Reply::Rules(Err(Refusal::NotAllowed(_)))), "{reply:?}");
}

/// As many subscriptions as a topic may have, with deadlines; a command for one processes only that one.
#[test]
fn a_command_looks_after_the_subscriptions_it_touches_and_no_others() {
    const SUBSCRIPTIONS: usize = 2_000;
    let mut rig = Rig::plain();
    rig.checks = false;
    let queues: Vec<QueueId> = (0..SUBSCRIPTIONS).map(|number| rig.subscribe(&number.to_string())).collect();
    for life_ms in [1_000, 2_000] {
        rig.send(super::super::rig::with_ttl("x", life_ms));
    }
    for queue in &queues {
        let receiver = rig.open(*queue, SubQueue::Main, ReceiveMode::PeekLock);
        let limit = CreditLimit { messages: 1, bytes: 0 };
        rig.handle(None, Command::Credit { receiver, limit, drain: false });
    }
    let state = &rig.partition.state;
    assert_eq!(state.deadlines_listed(), SUBSCRIPTIONS, "each has a listener and something that expires");
    let before = state.times_processed;
    rig.advance(999);
    assert_eq!(rig.partition.state.times_processed, before, "nothing is due");
    let receiver = rig.open(queues[1_234], SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 2, false);
    assert_eq!(rig.partition.state.times_processed, before + 2, "one for each of two commands");
    assert_eq!(rig.partition.state.deadlines_listed(), SUBSCRIPTIONS - 1);
    rig.advance(1);
    assert_eq!(rig.partition.state.times_processed, before + 2 + SUBSCRIPTIONS - 1, "all others are due");
    assert_eq!(rig.counts(queues[1_234]), (2, 0), "locked ones do not expire (S-5)");
    let left: u64 = queues.iter().map(|queue| rig.counts(*queue).0).sum();
    assert_eq!(left, 2 * SUBSCRIPTIONS as u64 - EXPIRIES_PER_CALL_MAX as u64, "work is bounded");
    rig.advance(0);
    let left: u64 = queues.iter().map(|queue| rig.counts(*queue).0).sum();
    assert_eq!(left, SUBSCRIPTIONS as u64 + 1);
}
