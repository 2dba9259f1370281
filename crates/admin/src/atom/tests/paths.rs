use peeklock_engine::runtime::EntityKind;

use crate::atom::path::{Target, forward_target, forward_url};

fn target(path: &str) -> Target {
    Target::parse(path).unwrap()
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
    assert_eq!(target("/subscriptions"), Target::Entity("subscriptions".into()));
    assert!(Target::parse("/%ff").is_err());
}

#[test]
fn urls_have_the_capitals_that_js_looks_for() {
    assert_eq!(
        target("/a%2Fb/subscriptions/s t/rules/$Default").url_path(),
        "/a/b/Subscriptions/s%20t/Rules/$Default"
    );
    assert_eq!(target("/a%25b%3Fc").url_path(), "/a%25b%3Fc");
}

#[test]
fn forwarding_ignores_the_host() {
    for text in
        ["sb://localhost:1/a/b", "sb://ns.servicebus.windows.net/a/b", "https://x/a%2Fb/", "a/b", " /a/b "]
    {
        assert_eq!(forward_target(text).as_deref(), Some("a/b"), "{text}");
    }
    let twice = "https://localhost/sb://localhost:1/a/b";
    assert_eq!(forward_target(twice).as_deref(), Some("a/b"), "what Java makes of what it got");
    assert_eq!(forward_target(""), None);
    assert_eq!(forward_target("sb://host/"), None);
    assert_eq!(forward_url("h:1", "a/b c"), "sb://h:1/a/b%20c");
    assert_eq!(forward_target(&forward_url("h:1", "a%b c")).as_deref(), Some("a%b c"));
}
