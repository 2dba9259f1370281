use axum::http::Method;
use peeklock_access::Resource;
use peeklock_engine::runtime::EntityKind;
use peeklock_engine::{ForwardingTarget, TargetScheme};

use crate::atom::path::{Spelling, Target, forward_url, forwarding_target};
use crate::rest::Operation;

fn target(path: &str) -> Target {
    Target::parse(path).unwrap().0
}

#[test]
fn both_sdks_name_the_same_entity() {
    let entity = Target::Entity("a/b c".into());
    for path in ["/a%2Fb%20c", "/a/b%20c", "/a/b%20c/", "a%2fb%20c"] {
        assert_eq!(target(path), entity, "{path}");
    }
    let rule = Target::Rule("a/b".into(), "s".into(), "$Default".into());
    for path in [
        "/a%2Fb/subscriptions/s/rules/%24Default",
        "/a/b/Subscriptions/s/Rules/$Default",
        "/a/b/SUBSCRIPTIONS/s/RULES/$Default/",
    ] {
        assert_eq!(target(path), rule, "{path}");
    }
}

#[test]
fn lists_and_literal_words_are_found() {
    assert_eq!(target("/$Resources/Queues"), Target::Entities(EntityKind::Queue));
    assert_eq!(target("/%24resources/topics/"), Target::Entities(EntityKind::Topic));
    assert_eq!(target("/$namespaceinfo"), Target::NamespaceInfo);
    assert_eq!(target("/t/Subscriptions/"), Target::Subscriptions("t".into()));
    assert_eq!(target("/t/subscriptions/rules"), Target::Subscription("t".into(), "rules".into()));
    assert_eq!(target("/t/subscriptions/s/rules"), Target::Rules("t".into(), "s".into()));
    assert_eq!(
        target("/t/subscriptions/subscriptions"),
        Target::Subscription("t".into(), "subscriptions".into())
    );
    assert!(Target::parse("/%ff").is_err());
}

#[test]
fn urls_are_spelled_like_those_of_the_request() {
    let url = |path| target(path).url_path(&Spelling::of(path));
    assert_eq!(url("/a%2Fb/subscriptions/s t/rules/$Default"), "/a/b/subscriptions/s%20t/rules/$Default");
    assert_eq!(url("/t/Subscriptions/subscriptions/Rules/"), "/t/Subscriptions/subscriptions/Rules");
    assert_eq!(url("/t/SUBSCRIPTIONS/rules"), "/t/SUBSCRIPTIONS/rules");
    assert_eq!(url("/t/s%75bscriptions/s"), "/t/Subscriptions/s");
    assert_eq!(url("/a%25b"), "/a%25b");
}

#[test]
fn a_target_of_forwarding_is_read_as_it_is_written() {
    assert_eq!(forward_url("h:1", &"a/b c".into()), "sb://h:1/a/b%20c");
    for scheme in [TargetScheme::Sb, TargetScheme::Https, TargetScheme::Http] {
        let target = ForwardingTarget::new("a%b c", scheme);
        assert_eq!(forwarding_target(&forward_url("h:1", &target)), Some(target));
    }
}

#[test]
fn a_target_of_forwarding_keeps_its_scheme() {
    for (text, scheme) in [
        ("a", TargetScheme::Sb),
        ("sb://h/a", TargetScheme::Sb),
        ("HTTPS://h/a", TargetScheme::Https),
        ("http://h/a", TargetScheme::Http),
        ("https://h/http://h/a", TargetScheme::Http),
        ("sb://h/https://h/a", TargetScheme::Https),
        ("https://h/sb://h/a", TargetScheme::Sb),
        ("ü://h/a", TargetScheme::Sb),
    ] {
        assert_eq!(forwarding_target(text), Some(ForwardingTarget::new("a", scheme)), "{text}");
    }
}

/// The audience of a token over AMQP and the path of a request must name the same resource.
#[test]
fn paths_of_requests_and_audiences_of_tokens_take_the_same_right() {
    for path in [
        "/q",
        "//Q//",
        "/a%2Fb",
        "/q/$management",
        "/q%2f%24management",
        "/q/$Transfer/$DeadLetterQueue",
        "/t/Subscriptions/S/$DeadLetterQueue",
        "/t%2Fsubscriptions%2Fs",
        "/t/subscriptions/s/rules/$Default",
        "/t/subscriptions/rules",
        "/$Resources/queues",
        "/",
        "/a//b",
        "/$cbs",
        "/t/subscriptions/a%2Fb",
    ] {
        let expected = Resource::of(path).unwrap_or_default();
        assert_eq!(Target::parse(path).unwrap().1, expected, "{path}");
        let operation = Operation::read(&Method::POST, &format!("{}/messages", path.trim_end_matches('/')));
        let of_operation = operation.map(|operation| operation.entity.resource());
        assert!(of_operation.is_none_or(|resource| resource == expected), "{path}");
    }
}

#[test]
fn paths_with_and_without_a_description_are_distinguished() {
    for path in [
        "/q/$DeadLetterQueue",
        "/q/$Transfer/$DeadLetterQueue",
        "/q/$management",
        "/t/subscriptions/s/$management",
    ] {
        assert!(matches!(target(path), Target::Inside(_)), "{path}");
    }
    for path in ["/subscriptions", "/a//b", "/$cbs", "/$x", "/t/subscriptions/a/b"] {
        assert!(matches!(target(path), Target::Nothing(..)), "{path}");
    }
    assert_eq!(target("//q"), Target::Entity("q".into()));
}
