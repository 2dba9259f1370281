use super::*;
use crate::servicebus::tests::harness::plain_attach;
use crate::wire::performative::Role;

/// An attach that requests everything.
fn demanding(role: Role) -> Attach {
    let terminus = || Terminus {
        address: Some("q".into()),
        durable: 2,
        expiry_policy: Some("never".into()),
        timeout_s: 60,
        capabilities: vec!["queue".into(), "topic".into(), "shared".into()],
        ..Terminus::default()
    };
    let source = Terminus {
        default_outcome: Value::described(Value::ULong(0x27), Value::List(Vec::new())),
        outcomes: vec!["amqp:accepted:list".into(), "test:other:list".into(), "amqp:modified:list".into()],
        ..terminus()
    };
    Attach {
        source: Some(source),
        target: Some(Target::Node(terminus())),
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        offered_capabilities: vec!["mine".into()],
        desired_capabilities: vec!["yours".into()],
        ..plain_attach("link", role, "", "")
    }
}

fn target(reply: Attach) -> Terminus {
    match reply.target {
        Some(Target::Node(target)) => target,
        other => panic!("{other:?}"),
    }
}

/// The fields of our terminus in the answer: durable, expiry policy, time-out, capabilities.
fn promised(terminus: &Terminus) -> (u32, Option<&str>, u32, Vec<&str>) {
    let Terminus { durable, expiry_policy, timeout_s, capabilities, .. } = terminus;
    (*durable, expiry_policy.as_deref(), *timeout_s, capabilities.iter().map(|name| &**name).collect())
}

#[test]
fn a_sender_is_promised_a_settlement_in_one_step_and_nothing_that_outlives_the_link() {
    let asked = demanding(Role::Sender);
    let reply = to_sender(asked.clone(), Some(Kind::Queue));
    assert_eq!(reply.rcv_settle_mode, ReceiverSettleMode::First);
    assert_eq!(reply.snd_settle_mode, asked.snd_settle_mode, "the sender's own affair");
    assert_eq!(reply.source, asked.source, "the sender's own end");
    assert!(reply.offered_capabilities.is_empty() && reply.desired_capabilities.is_empty());
    let target = target(reply);
    assert_eq!(target.address.as_deref(), Some("q"));
    assert_eq!(promised(&target), (0, Some("link-detach"), 0, vec!["queue"]));
}

#[test]
fn a_receiver_is_promised_the_outcomes_that_there_are() {
    let asked = demanding(Role::Receiver);
    let reply = to_receiver(asked.clone(), Kind::Subscription);
    assert_eq!(
        (reply.snd_settle_mode, reply.rcv_settle_mode),
        (SenderSettleMode::Unsettled, ReceiverSettleMode::Second)
    );
    assert_eq!(reply.target, asked.target, "the receiver's own end");
    let source = reply.source.unwrap();
    assert_eq!(promised(&source), (0, Some("link-detach"), 0, Vec::new()));
    assert_eq!(*source.outcomes, ["amqp:accepted:list".into(), "amqp:modified:list".into()]);
    let released = Value::described(Value::ULong(0x26), Value::List(Vec::new()));
    assert_eq!(source.default_outcome, released, "the outcome of settling without one");
}

#[test]
fn responses_are_promised_settled() {
    let reply = to_reader_of_responses(demanding(Role::Receiver));
    assert_eq!(reply.snd_settle_mode, SenderSettleMode::Settled);
    let source = reply.source.unwrap();
    assert_eq!((source.outcomes.len(), source.default_outcome), (0, Value::Null));
}

#[test]
fn unrequested_features_are_not_announced() {
    for reply in [
        to_sender(plain_attach("s", Role::Sender, "c", "q"), Some(Kind::Queue)),
        to_receiver(plain_attach("r", Role::Receiver, "q", "c"), Kind::Queue),
    ] {
        let asked = plain_attach("x", reply.role, "q", "q");
        let (source, target) = (reply.source.clone().unwrap(), target(reply));
        for (terminus, asked) in [(source, asked.source.unwrap()), (target.clone(), target)] {
            assert_eq!(terminus, Terminus { address: terminus.address.clone(), ..asked });
        }
    }
}

#[test]
fn a_coordinator_offers_its_capabilities() {
    let capabilities =
        ["amqp:local-transactions", "amqp:distributed-transactions", "amqp:multi-txns-per-ssn"];
    let coordinator = Target::Coordinator(capabilities.iter().map(|name| (*name).into()).collect());
    let attach = Attach { target: Some(coordinator), ..plain_attach("c", Role::Sender, "c", "") };
    let Some(Target::Coordinator(offered)) = to_sender(attach, None).target else { panic!("a coordinator") };
    assert_eq!(*offered, [capabilities[0].into(), capabilities[2].into()]);
}

#[test]
fn batches_are_bounded_where_messages_may_be_larger() {
    for (message_bytes_max, expected) in
        [(262_144, 262_144), (1_048_576, 1_048_576), (104_857_600, 1_048_576)]
    {
        let mut reply = plain_attach("s", Role::Receiver, "c", "q");
        reply.properties = vec![(MAX_BATCH_SIZE.into(), Value::Int(5))];
        limit_batches(&mut reply, message_bytes_max);
        assert_eq!(reply.properties, [(MAX_BATCH_SIZE.into(), Value::Long(expected))]);
    }
}

#[test]
fn a_receiver_has_the_maximum_size_it_declares_except_pythons() {
    let attach = |max_message_size, is_sdk: bool| {
        let name = (RECEIVER_NAME.into(), Value::String("SBReceiver-1".into()));
        let properties = if is_sdk { vec![name] } else { Vec::new() };
        Attach { max_message_size, properties, ..plain_attach("r", Role::Receiver, "q", "c") }
    };
    for (max_message_size, is_sdk, expected) in [
        (None, false, None),
        (Some(0), false, None),
        (Some(1_048_576), false, Some(1_048_576)),
        (Some(1_048_576), true, None),
        (Some(65_536), true, Some(65_536)),
    ] {
        assert_eq!(message_bytes_max(&attach(max_message_size, is_sdk)), expected);
    }
}
