//! Every form of an address, invalid addresses, and containment.

use proptest::prelude::*;

use super::*;

fn of(address: &str) -> Option<String> {
    Resource::of(address).map(|resource| resource.path().to_owned())
}

fn of_signed(encoded: &str) -> Option<String> {
    Resource::of_signed(encoded).map(|resource| resource.path().to_owned())
}

/// Audiences and signed URLs of the SDKs, by their common path.
const FORMS: [(&str, &[&str]); 7] = [
    (
        "q",
        &[
            "sb://localhost:5672/Q",
            "sb://h/q/$management",
            "sb://h/q/%24Management",
            "amqps://h/q",
            "amqp://h/q/",
            "sb://h//q",
            "q",
            "sb://h/%71",
            "/q",
            "q/$DeadLetterQueue",
            "q/$Transfer/$DeadLetterQueue/$management",
            "https://localhost:5300/q?api-version=2021-05",
            "http://[::1]:5300/q#part",
            "amqp://user:word@h/q",
        ],
    ),
    ("", &["sb://host/", "https://host", "https://host?api-version=2021-05", "", "/"]),
    ("my queue", &["sb://h/my queue", "sb://h/my%20queue", "my%20Queue"]),
    ("a/b", &["sb://h/a/b", "a/B/", "a%2fb", "sb://h/a%2Fb"]),
    (
        "news/subscriptions/eu",
        &[
            "sb://h/News/Subscriptions/EU/$DeadLetterQueue",
            "amqp://h/news/SUBSCRIPTIONS/eu/$management",
            "https://h/news/subscriptions/eu/rules/$Default",
            "https://h/news/subscriptions/eu/rules/$management?api-version=2021-05",
            "https://h/news/subscriptions/eu/rules",
        ],
    ),
    ("news", &["https://h/news/Subscriptions", "sb://h/news"]),
    ("$resources/queues", &["https://h/$Resources/queues?$skip=0&$top=100", "/$resources/Queues"]),
];

const WITHOUT_FORM: [&str; 29] = [
    "sb://h/a%252fb",
    "sb://h/q%2525",
    "sb://h/a%5cb",
    "sb://h/a%3Fb",
    "%23",
    "sb://h/%ff",
    "sb://h/a%00",
    "a//b",
    "sb://h/a/../b",
    "sb://h/a/%2e%2e/b",
    "./a",
    "sb://h/$x/q",
    "sb://h/$x",
    "sb://h/q/$x",
    "sb://h/q/$management/q",
    "sb://h/q/$DeadLetterQueue/$DeadLetterQueue",
    "/$management",
    "$cbs",
    "$resources",
    "$resources/relays",
    "subscriptions/s",
    "a/subscriptions/b/c",
    "a/subscriptions/b/subscriptions/c",
    "a/subscriptions/$x",
    "://q",
    "sb:///q",
    "sb://user@/q",
    "sb://us%65r@h/q",
    "q/sb://h/p",
];

#[test]
fn every_form_of_an_address_has_one_path() {
    for (path, addresses) in FORMS {
        for address in addresses {
            assert_eq!(of(address).as_deref(), Some(path), "{address}");
        }
    }
    assert_eq!(of("$namespaceinfo"), Some("$namespaceinfo".into()));
    assert_eq!(of("100%"), Some("100%".into()));
}

#[test]
fn an_address_that_could_be_read_in_two_ways_has_no_path() {
    for address in WITHOUT_FORM {
        assert_eq!(of(address), None, "{address}");
    }
    assert_eq!(of(&"x".repeat(ADDRESS_BYTES_MAX + 1)), None);
}

#[test]
fn signed_resources_are_decoded_and_lose_their_host() {
    for (encoded, path) in [
        ("sb%3A%2F%2Flocalhost%3A5672%2Fmy+queue", "my queue"),
        ("sb%3a%2f%2fh%2fmy%20queue", "my queue"),
        ("sb%3a%2f%2fh%2fmy%2520queue", "my queue"),
        ("amqps%3A%2F%2Fh%2Fa%2Fb", "a/b"),
        ("https%3a%2f%2fh%2fq%2f", "q"),
        ("localhost%3A18301", ""),
        ("localhost", ""),
        ("[::1]:80", ""),
        ("ns.servicebus.windows.net%2f", ""),
        ("ns.servicebus.windows.net%2fq", "q"),
        ("127.0.0.1", "127.0.0.1"),
        ("orders.v1", "orders.v1"),
        ("%2Fq", "q"),
        ("sb%3a%2f%2fh%2fa%252fb", "a/b"),
    ] {
        assert_eq!(of_signed(encoded).as_deref(), Some(path), "{encoded}");
    }
    for encoded in ["sb%3a%2f%2fh%2fa%25252fb", "sb%3A%2F%2Fh%2F%24x%2Fq", "%ff"] {
        assert_eq!(of_signed(encoded), None, "{encoded}");
    }
}

#[test]
fn an_entity_contains_itself_and_its_subscriptions_only() {
    let (queue, topic) = (Resource::entity("Queue"), Resource::entity("news"));
    let inside = ["QUEUE", "queue/$DeadLetterQueue", "queue/$management"];
    for part in inside {
        assert!(queue.contains(&Resource::of(part).unwrap()), "{part}");
    }
    for other in ["queue/new", "queue/sub/subscriptions/s", "queue2", "que", "", "$resources/queues"] {
        assert!(!queue.contains(&Resource::of(other).unwrap()), "{other}");
    }
    let eu = Resource::subscription("News", "EU");
    assert!(topic.contains(&eu) && eu.contains(&eu) && !eu.contains(&topic));
    assert!(!eu.contains(&Resource::subscription("news", "eu2")));
    assert!(!topic.contains(&Resource::entity("news/subscriptions/eu/x")));
    assert!(Resource::namespace().contains(&topic));
    assert_eq!((eu.entity_name(), topic.entity_name()), (Some("news"), Some("news")));
    assert_eq!(Resource::entity("queue/new").entity_name(), Some("queue/new"));
    assert_eq!(Resource::namespace().entity_name(), None);
}

#[test]
fn a_prefix_ends_where_a_part_does() {
    let queue = Resource::entity("queue");
    assert!(queue.is_prefix_of(&Resource::entity("queue/new")) && queue.is_prefix_of(&queue));
    assert!(!queue.is_prefix_of(&Resource::entity("queue2")));
    assert_eq!(Resource::entity("a/b/c").prefixes().collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    assert_eq!(Resource::namespace().prefixes().count(), 0);
}

/// A name that entities may have.
fn name() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-zA-Zäİ][a-zA-Z0-9 ._ß~+-]{0,6}[a-z0-9]", 1..4)
        .prop_map(|parts| parts.join("/"))
        .prop_filter("reserved", |name| !name.to_lowercase().contains("subscriptions"))
}

fn encoded(name: &str) -> String {
    name.bytes().map(|byte| if byte == b'/' { "/".into() } else { format!("%{byte:02x}") }).collect()
}

proptest! {
    #[test]
    fn any_address_has_a_path_that_is_its_own_or_none(
        address in "(sb://)?\\PC{0,30}(%[0-9a-f]{2}|/|\\$|subscriptions|\\PC){0,8}"
    ) {
        if let Some(path) = of(&address) {
            prop_assert_eq!(of(&path), Some(path.clone()));
            prop_assert!(!path.starts_with('/') && !path.ends_with('/'));
        }
        let _ = Resource::of_signed(&address);
    }

    #[test]
    fn all_ways_to_write_a_name_are_the_entity_of_that_name(name in name(), subscription in "[a-z]{1,5}") {
        let entity = Resource::entity(&name);
        let (raw, escaped) = (name.clone(), encoded(&name));
        for path in [&raw, &escaped, &name.to_ascii_uppercase()] {
            for address in [
                format!("sb://h:1/{path}"),
                format!("/{path}/$Management"),
                format!("https://h/{path}/$deadletterqueue?x=/y"),
            ] {
                prop_assert_eq!(Resource::of(&address).unwrap(), entity.clone(), "{}", address);
            }
            let address = format!("amqp://h/{path}/Subscriptions/{subscription}/$deadletterqueue");
            let found = Resource::of(&address).unwrap();
            prop_assert!(entity.contains(&found));
            prop_assert_eq!(found, Resource::subscription(&name, &subscription));
        }
    }

    #[test]
    fn no_entity_contains_another(one in name(), other in name(), longer in "[a-z]{1,5}") {
        let (first, second) = (Resource::entity(&one), Resource::entity(&other));
        prop_assert_eq!(first.contains(&second), first == second);
        let longer = Resource::entity(&format!("{one}/{longer}"));
        prop_assert!(!first.contains(&longer) && !longer.contains(&first));
    }
}
