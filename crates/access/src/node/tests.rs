//! The node named by each form of an address, and the forms that name nothing.

use proptest::prelude::*;

use super::*;

fn entity(name: &str, subscription: Option<&str>, sub_queue: SubQueue, management: bool) -> ResolvedNode {
    let (name, subscription) = (name.to_owned(), subscription.map(str::to_owned));
    ResolvedNode::Entity(EntityNode { name, subscription, sub_queue, management })
}

fn queue(name: &str) -> ResolvedNode {
    entity(name, None, SubQueue::Main, false)
}

fn assert_names(node: &ResolvedNode, addresses: &[&str]) {
    for address in addresses {
        assert_eq!(ResolvedNode::of(address).as_ref(), Ok(node), "{address}");
    }
}

#[test]
fn queues_are_read_in_every_form_that_the_sdks_send() {
    assert_names(
        &queue("my/queue"),
        &[
            "my/queue",
            "/my/queue",
            "//my/queue//",
            "my%2fqueue",
            "amqps://host:5671/my/queue",
            "sb://host/my%2Fqueue/",
            "amqp://user:word@[::1]:5672/my/queue",
            "https://host/my/queue?api-version=2021-05#part",
        ],
    );
    assert_names(&queue("my queue"), &["my queue", "sb://host/my%20queue"]);
    assert_names(&queue("100%"), &["100%", "100%25"]);
}

#[test]
fn queues_inside_and_management_nodes_are_read_in_any_letter_case() {
    let dead = |management| entity("q", None, SubQueue::DeadLetter, management);
    assert_names(&dead(false), &["q/$DeadLetterQueue", "q/%24deadletterqueue", "q%2f$DEADLETTERQUEUE"]);
    assert_names(&dead(true), &["q/$deadletterqueue/$Management", "/q/$DeadLetterQueue/%24management"]);
    let transferred = |management| entity("q", None, SubQueue::TransferDeadLetter, management);
    assert_names(&transferred(false), &["q/$Transfer/$DeadLetterQueue"]);
    assert_names(&transferred(true), &["q/$transfer/$deadletterqueue/$management"]);
    assert_names(&entity("q", None, SubQueue::Main, true), &["q/$management", "sb://h/q/%24Management/"]);
    let of_subscription = |sub_queue| entity("a/b", Some("S"), sub_queue, false);
    assert_names(
        &of_subscription(SubQueue::Main),
        &["a/b/Subscriptions/S", "a/b/SUBSCRIPTIONS/S", "a%2Fb%2Fsubscriptions%2FS"],
    );
    assert_names(&of_subscription(SubQueue::DeadLetter), &["amqp://h/a/b/subscriptions/S/$DeadLetterQueue"]);
}

#[test]
fn queues_are_distinguished_from_other_addresses() {
    assert_names(&ResolvedNode::Namespace, &["", "/", "//", "sb://host", "sb://host/", "sb://host?x=1"]);
    assert_names(&ResolvedNode::Cbs, &["$cbs", "$CBS", "/%24cbs", "amqp://h/$cbs/"]);
    assert_names(&ResolvedNode::NamespaceInfo, &["/$namespaceinfo", "/%24NamespaceInfo"]);
    assert_names(&ResolvedNode::Queues, &["/$Resources/queues", "https://h/$resources/Queues?$skip=1"]);
    assert_names(&ResolvedNode::Topics, &["/%24Resources%2Ftopics"]);
    let topic = "t".to_owned();
    assert_names(&ResolvedNode::Subscriptions { topic }, &["t/Subscriptions", "/t/subscriptions/"]);
}

/// A subscription and a rule may be named like a keyword of an address.
#[test]
fn words_of_addresses_are_names_where_a_name_is_expected() {
    let subscription = |name| entity("t", Some(name), SubQueue::Main, false);
    assert_names(&subscription("rules"), &["t/subscriptions/rules"]);
    assert_names(&subscription("messages"), &["t/subscriptions/messages"]);
    assert_names(&subscription("subscriptions"), &["t/subscriptions/subscriptions"]);
    let rules = |subscription: &str| ResolvedNode::Rules {
        topic: "t".to_owned(),
        subscription: subscription.to_owned(),
    };
    assert_names(&rules("rules"), &["t/subscriptions/rules/rules"]);
    let rule = |rule: &str| ResolvedNode::Rule {
        topic: "t".to_owned(),
        subscription: "s".to_owned(),
        rule: rule.to_owned(),
    };
    assert_names(
        &rule("$Default"),
        &["t/subscriptions/s/rules/$Default", "t/subscriptions/s/Rules/%24Default"],
    );
    assert_names(&rule("$management"), &["t/subscriptions/s/rules/$management"]);
    assert_names(&rule("50%20"), &["t/subscriptions/s/rules/50%2520"]);
}

#[test]
fn ambiguous_addresses_are_refused() {
    for address in [
        "a//b",
        "q//$management",
        "a/../b",
        "a/%2e%2e/b",
        "a%252fb",
        "a%5cb",
        "a%00",
        "a%3fb",
        "subscriptions/s",
        "a/subscriptions/b/subscriptions/c",
        "a%2fsubscriptions%2fb/c",
        "t/subscriptions/$x",
        "t/subscriptions/a%252fb",
        "q/$Nowhere",
        "q/$Transfer",
        "q/$DeadLetterQueue/$DeadLetterQueue",
        "q/$management/$management",
        "$cbs/$management",
        "localhost:5672/q",
    ] {
        assert!(matches!(ResolvedNode::of(address), Err(AddressError::Name { .. })), "{address}");
    }
}

#[test]
fn invalid_addresses_are_refused_with_the_cause() {
    let too_long = "x".repeat(ADDRESS_BYTES_MAX + 1);
    for (address, error) in [
        ("/$management", AddressError::Empty),
        ("$DeadLetterQueue", AddressError::Empty),
        ("%ff", AddressError::NotUtf8),
        ("sb:///q", AddressError::NoHost),
        ("://q", AddressError::NoHost),
        ("sb://a b/q", AddressError::NoHost),
        ("sb://h\\q@h/q", AddressError::NoHost),
        (too_long.as_str(), AddressError::TooLong),
    ] {
        assert_eq!(ResolvedNode::of(address), Err(error), "{address:.50}");
    }
}

#[test]
fn targets_of_forwarding_are_queues_and_topics() {
    for text in
        ["sb://localhost:1/a/b", "sb://ns.servicebus.windows.net/a/b", "https://x/a%2Fb/", "a/b", " /a/b "]
    {
        assert_eq!(forwarding_target(text).as_deref(), Some("a/b"), "{text}");
    }
    let twice = "https://localhost/sb://localhost:1/a/b";
    assert_eq!(forwarding_target(twice).as_deref(), Some("a/b"), "the path that Java builds from its answer");
    assert_eq!(forwarding_target(""), None);
    assert_eq!(forwarding_target("sb://host/"), None);
    for text in ["sb://h/q/$DeadLetterQueue", "t/subscriptions/s", "a//b"] {
        assert_eq!(forwarding_target(text).as_deref(), Some(text), "no entity has this name");
    }
}

proptest! {
    /// So a right to the node of an address is a right to that of its canonical path, wherever each is parsed.
    #[test]
    fn the_shown_form_and_the_key_of_a_node_name_the_same_as_its_address(parts in prop::collection::vec(
        prop_oneof!["[a-zİΣß%$:/ ]{0,4}", Just("/$management".to_owned()), Just("/$Transfer".to_owned()),
            Just("/$DeadLetterQueue".to_owned()), Just("/Subscriptions/".to_owned()), Just("/rules/".to_owned()),
            Just("%2f".to_owned()), Just("%2561".to_owned()), Just("amqp://h/".to_owned())],
        0..8,
    )) {
        let Ok(ResolvedNode::Entity(read)) = ResolvedNode::of(&parts.concat()) else { return Ok(()) };
        prop_assert_eq!(ResolvedNode::of(&read.to_string()), Ok(ResolvedNode::Entity(read.clone())));
        let Ok(ResolvedNode::Entity(canonical)) = ResolvedNode::of(&read.key()) else { panic!("an entity") };
        prop_assert_eq!((canonical.key(), canonical.resource()), (read.key(), read.resource()));
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,60}") {
        let _ = (ResolvedNode::of(&text), forwarding_target(&text));
    }
}
