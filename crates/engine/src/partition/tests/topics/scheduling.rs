use super::super::rig::{deliveries, message};
use super::rig::{Rig, TOPIC, label, labelled, options, rule, with_sessions};
use crate::partition::step::{COPIES_PER_CALL_MAX, TIMERS_PER_CALL_MAX};
use crate::{
    Command, EntityStatus, Event, Filter, MessageState, NewMessage, ReceiveMode, Refusal, SequenceNumber,
    Settlement, SubQueue, SubscriptionOptions, TopicOptions,
};

fn scheduled(rig: &Rig, delay_ms: u64, message: NewMessage) -> NewMessage {
    NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(delay_ms)), ..message }
}

/// azure-service-bus 352: clients have no other way to find them.
#[test]
fn browsing_a_topic_shows_only_its_scheduled_messages() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    rig.send(message("now"));
    rig.send(scheduled(&rig, 1_000, message("later")));
    rig.send(scheduled(&rig, 2_000, message("latest")));
    let views = rig.peek(TOPIC, SubQueue::Main);
    let shown: Vec<_> = views.iter().map(|view| (view.sequence_number, view.state, view.queue)).collect();
    let scheduled = |number| (SequenceNumber(number), MessageState::Scheduled, TOPIC);
    assert_eq!(shown, [scheduled(2), scheduled(3)]);
    rig.done(Command::CancelScheduled { numbers: vec![shown[0].0] }).unwrap();
    assert_eq!(rig.peek(TOPIC, SubQueue::Main).len(), 1);
    assert_eq!(rig.peek(TOPIC, SubQueue::DeadLetter), []);
    rig.advance(2_000);
    assert_eq!(rig.peek(TOPIC, SubQueue::Main), []);
    assert_eq!(rig.peek(queue, SubQueue::Main).len(), 2);
    rig.change_options(TopicOptions { status: EntityStatus::ReceiveDisabled, ..TopicOptions::default() });
    assert_eq!(rig.try_peek(TOPIC, SubQueue::Main), Err(Refusal::EntityDisabled));
}

#[test]
fn a_scheduled_message_rests_on_the_topic_until_its_time_has_come() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    assert_eq!(rig.send(scheduled(&rig, 1_000, message("later"))), 1);
    assert_eq!(rig.counts(queue), (0, 0));
    assert!(rig.peek(queue, SubQueue::Main).is_empty());
    let counts = rig.partition.counts();
    assert_eq!((counts.scheduled, counts.active, counts.size_bytes), (1, 0, 5));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(1_000)));
    rig.send(message("now"));
    rig.advance(1_000);
    let published = rig.events.iter().find_map(|event| match event {
        Event::Published(published) => {
            Some((published.number.0, published.scheduled, published.content.clone()))
        }
        _ => None,
    });
    assert_eq!(published, Some((3, Some(SequenceNumber(1)), None)));
    assert_eq!(rig.partition.counts().scheduled, 0);
    let views = rig.peek(queue, SubQueue::Main);
    let numbers: Vec<_> = views.iter().map(|view| (view.sequence_number.0, view.body.0)).collect();
    assert_eq!(numbers, [(1, 2), (2, 1)], "appended as if it were sent now, its content where it was");
    assert_eq!(views[1].enqueued_at, rig.now);
    assert_eq!(rig.send(message("next")), 4);
}

#[test]
fn rules_are_asked_when_it_is_published_even_after_a_restart() {
    let mut rig = Rig::plain();
    let [x, y] = ["x", "y"].map(|of| rig.subscribe_to(of, label(of)));
    rig.send(scheduled(&rig, 1_000, labelled("for x", "x")));
    rig.send(scheduled(&rig, 1_000, labelled("for y", "y")));
    rig.restart();
    let late = rig.subscribe("late");
    rig.done(Command::AddRule { queue: y, rule: rule("all", Filter::True) }).unwrap();
    rig.advance(1_000);
    assert_eq!([x, y, late].map(|queue| rig.waiting(queue)), [vec![1], vec![1, 2], vec![1, 2]]);
    let record = rig.partition.state.record(late, SubQueue::Main, SequenceNumber(1)).unwrap();
    assert_eq!(record.extra().unwrap().rule_properties, None, "copies need no facts any more");
}

#[test]
fn a_scheduled_message_without_a_matching_rule_is_deleted_with_its_body() {
    let mut rig = Rig::plain();
    rig.subscribe_to("x", label("x"));
    rig.send(scheduled(&rig, 1_000, labelled("for y", "y")));
    assert_eq!(rig.bodies(), 1);
    rig.advance(1_000);
    let gone: Vec<_> = rig.events.iter().flat_map(Event::removed_bodies).collect();
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (0, 0));
    assert_eq!(gone, [&crate::BodyRef(1)]);
    assert_eq!(rig.send(message("next")), 3, "its second number is not given out again");
}

#[test]
fn s9_s16_life_begins_when_it_is_published() {
    let topic = TopicOptions { default_message_time_to_live_ms: Some(5_000), ..TopicOptions::default() };
    let mut rig = Rig::new(topic);
    let wide = rig.subscribe("wide");
    let options = SubscriptionOptions { default_message_time_to_live_ms: Some(2_000), ..options() };
    let narrow = rig.try_subscribe("narrow", options, Vec::new()).unwrap();
    rig.send(scheduled(&rig, 60_000, NewMessage { time_to_live_ms: Some(9_000), ..message("x") }));
    rig.restart();
    rig.advance(60_000);
    for (queue, life_ms) in [(wide, 5_000), (narrow, 2_000)] {
        let view = rig.peek(queue, SubQueue::Main).pop().unwrap();
        assert_eq!((view.time_to_live_ms, view.expires_at), (Some(life_ms), rig.now.plus_ms(life_ms)));
    }
}

#[test]
fn cancelling_works_by_number_as_long_as_it_is_scheduled() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe("a");
    for delay_ms in [1_000, 2_000] {
        rig.send(scheduled(&rig, delay_ms, message("x")));
    }
    let cancel = |number| Command::CancelScheduled { numbers: vec![SequenceNumber(number)] };
    rig.done(cancel(1)).unwrap();
    assert_eq!(rig.bodies(), 1);
    assert_eq!(rig.done(cancel(1)), Err(Refusal::ScheduledNotFound(1)));
    rig.advance(2_000);
    assert_eq!(rig.waiting(queue), [2]);
    assert_eq!(rig.done(cancel(2)), Err(Refusal::ScheduledNotFound(2)));
}

#[test]
fn sessions_are_kept_and_missing_ones_noticed_when_it_is_published() {
    let mut rig = Rig::plain();
    let sessions = rig.try_subscribe("sessions", with_sessions(), Vec::new()).unwrap();
    rig.send(scheduled(&rig, 10, message("without")));
    rig.send(scheduled(&rig, 10, NewMessage { session_id: Some("s".into()), ..message("with") }));
    rig.restart();
    rig.advance(10);
    assert_eq!(rig.counts(sessions), (1, 1));
    let record = rig.partition.state.record(sessions, SubQueue::Main, SequenceNumber(2)).unwrap();
    assert_eq!(record.extra().unwrap().session_id.as_deref(), Some("s"));
}

#[test]
fn publishing_of_due_messages_is_bounded_by_copies() {
    const SUBSCRIPTIONS: usize = 100;
    let mut rig = Rig::plain();
    rig.checks = false;
    for number in 0..SUBSCRIPTIONS {
        rig.subscribe(&number.to_string());
    }
    for _ in 0..200 {
        rig.send(scheduled(&rig, 10, message("x")));
    }
    rig.advance(10);
    let at_once = COPIES_PER_CALL_MAX.div_ceil(SUBSCRIPTIONS) as u64;
    assert_eq!(rig.partition.counts().scheduled, 200 - at_once);
    assert!(rig.partition.next_deadline().unwrap() <= rig.now, "the rest follows in the next calls");
    for _ in 0..4 {
        rig.advance(0);
    }
    assert_eq!(rig.partition.counts().scheduled, 0);
    rig.checks = true;
    rig.advance(0);
}

#[test]
fn a_queue_stores_no_facts() {
    let mut rig = super::super::rig::Rig::new(super::super::rig::options());
    let later = rig.now.plus_ms(10);
    rig.send(NewMessage { scheduled_enqueue_time: Some(later), ..labelled("x", "x") });
    let record = rig.partition.state.entity.messages.get(SubQueue::Main).get(SequenceNumber(1)).unwrap();
    assert_eq!(record.extra().unwrap().rule_properties, None);
}

/// Rules that match nothing take time as well.
#[test]
fn messages_with_slow_rules_are_published_over_several_calls() {
    const MESSAGES: usize = 1_000;
    let mut rig = Rig::plain();
    rig.checks = false;
    let expression = (0..60).map(|number| format!("a <> 'x{number}'")).collect::<Vec<_>>().join(" AND ");
    let queue = rig.subscribe_to("slow", Filter::sql(&expression, Vec::new()).unwrap());
    let label = scheduled(&rig, 1_000, labelled("x", "no property a"));
    rig.try_send(vec![label; MESSAGES]).unwrap();
    rig.advance(1_000);
    assert!((1..MESSAGES as u64).contains(&rig.partition.counts().scheduled), "some are left");
    let mut calls = 1;
    while rig.partition.counts().scheduled > 0 {
        rig.advance(0);
        calls += 1;
    }
    assert!(calls < 20, "{calls}");
    assert_eq!(rig.counts(queue), (0, 0));
}

#[test]
fn a_call_makes_a_bounded_number_of_postponed_messages_available_in_however_many_subscriptions() {
    const EACH: usize = 600;
    const DELAY_MS: u64 = 5_000;
    let mut rig = Rig::plain();
    rig.checks = false;
    let queues = ["a", "b", "c"].map(|name| rig.subscribe(name));
    rig.try_send(vec![message("x"); EACH]).unwrap();
    for queue in queues {
        let receiver = rig.open(queue, SubQueue::Main, ReceiveMode::PeekLock);
        let taken = deliveries(rig.credit(receiver, EACH as u64, false));
        let tokens = taken.iter().map(|(_, _, lock)| lock.unwrap().token).collect();
        let settlement = Settlement::Postpone { modify: Vec::new(), until: rig.now.plus_ms(DELAY_MS) };
        rig.ask(Command::Settle { queue, tokens, settlement });
    }
    let mut freed = 0;
    rig.now = rig.now.plus_ms(DELAY_MS);
    while rig.partition.next_deadline().is_some_and(|at| at <= rig.now) {
        rig.advance(0);
        assert!((1..=TIMERS_PER_CALL_MAX).contains(&rig.events.len()), "{} events", rig.events.len());
        freed += rig.events.len();
    }
    assert_eq!(freed, queues.len() * EACH);
}
