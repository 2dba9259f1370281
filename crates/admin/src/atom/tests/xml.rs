use crate::atom::xml::{Document, parse};

#[test]
fn any_prefix_and_any_order_is_read() {
    let text = r#"<?xml version="1.0" encoding="utf-8"?><!-- c --><x:a xmlns:x="urn:x" xmlns:s="http://www.w3.org/2001/XMLSchema-instance">
        <x:b s:type="q:int" xmlns:q="urn:q"> 1 &lt;&#x41;<![CDATA[<&]]></x:b><c s:nil="true"/></x:a>"#;
    let root = parse(text.as_bytes()).unwrap();
    assert_eq!(root.name, "a");
    let b = root.child("b").unwrap();
    assert_eq!((b.kind.as_deref(), b.text.as_str()), (Some("int"), " 1 <A<&"));
    assert!(root.child("c").unwrap().nil && root.text_of("c").is_none());
}

#[test]
fn hostile_or_malformed_xml_is_refused() {
    let deep = "<a>".repeat(40);
    let many = format!("<a>{}</a>", "<b/>".repeat(10_001));
    let attributes: String = (0..40).map(|n| format!(" a{n}=\"\"")).collect();
    let attributes = format!("<a{attributes}/>");
    for (text, cause) in [
        ("", "empty"),
        ("<a>", "does not end"),
        ("<a></b>", ""),
        ("<a/><a/>", "root"),
        ("x<a/>", "outside"),
        ("<p:a/>", "prefix"),
        ("<a>&b;</a>", "entity"),
        ("<a>&#0;</a>", ""),
        ("<a>&#1;</a>", "character"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "document type"),
        (deep.as_str(), "deep"),
        (many.as_str(), "elements"),
        (attributes.as_str(), "attributes"),
    ] {
        let reason = parse(text.as_bytes()).expect_err(text);
        assert!(reason.contains(cause), "{cause}: {reason}");
    }
    assert!(parse(b"<a>\xff</a>").unwrap_err().contains("UTF-8"));
    assert!(parse("\u{feff}<a/>".as_bytes()).is_ok());
}

proptest::proptest! {
    #[test]
    fn text_comes_back_as_it_was(text in "[\\t\\n\\r -\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]*") {
        let mut document = Document::new();
        document.attributed_text("a", &[("b", &text)], &text);
        let root = parse(&document.finish()).unwrap();
        proptest::prop_assert_eq!(root.text, text);
    }

    #[test]
    fn nothing_makes_the_reader_panic(text in "[<>/a&;:\"= !\\[\\]?-]{0,60}") {
        let _ = parse(text.as_bytes());
    }
}

#[test]
fn characters_that_xml_forbids_are_replaced() {
    let mut document = Document::new();
    document.text("a", "x\u{0}y");
    assert_eq!(parse(&document.finish()).unwrap().text, "x\u{fffd}y");
}
