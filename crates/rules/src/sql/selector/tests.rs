use proptest::prelude::*;

use super::*;

fn text(value: &str) -> PropertyValue {
    PropertyValue::Text(value.into())
}

fn value_of(name: &str) -> Option<PropertyValue> {
    Some(match name {
        "color" => text("red"),
        "Color" => text("blue"),
        "size" => PropertyValue::Integer(5),
        "weight" => PropertyValue::Double(2.5),
        "urgent" => PropertyValue::Boolean(true),
        "$x_1" => text("a_b%'"),
        "empty" => PropertyValue::Null,
        "JMSPriority" => PropertyValue::Integer(7),
        "JMSMessageID" => text("plain"),
        "JMSCorrelationID" => text("ID:one"),
        "JMSType" => text("order"),
        _ => return None,
    })
}

fn matches(selector: &str) -> bool {
    Selector::new(selector).unwrap_or_else(|error| panic!("{selector}: {error}")).matches(value_of)
}

#[test]
fn true_conditions_match() {
    for selector in [
        "color = 'red'",
        "Color = 'blue' AND color <> 'blue'",
        "size > 4 and size < 6.5",
        "size BETWEEN 5 AND 5",
        "size NOT BETWEEN 6 AND 9",
        "size BETWEEN 1 AND 9 AND weight BETWEEN 2 AND 3 OR color = 'green'",
        "color IN ('green', 'red')",
        "color NOT IN ('green')",
        "color LIKE 'r_d' AND color NOT LIKE 'x%'",
        "$x_1 LIKE 'a\\_b\\%''' ESCAPE '\\'",
        "missing IS NULL AND empty IS NULL AND color IS NOT NULL",
        "urgent",
        "urgent = TRUE AND NOT urgent = false",
        "NOT (size = 4 OR weight = 2)",
        "size * 2 + 1 = 11 AND size / 2 = 2 AND -size = -5 AND + size = 5",
        "weight = 2.5 AND weight = 25e-1 AND weight < 3. AND weight > .5 AND weight = 2.5d",
        "size = 5L AND size = 0x5 AND size = 05",
        "JMSPriority >= 7",
        "JMSMessageID = 'plain' AND JMSMessageID = 'ID:AMQP_NO_PREFIX:plain'",
        "JMSCorrelationID IN ('ID:one', 'two') AND JMSType = 'order'",
        "(((size = 5)))",
    ] {
        assert!(matches(selector), "{selector}");
    }
}

#[test]
fn false_or_unknown_conditions_do_not_match() {
    for selector in [
        "color = 'blue'",
        "COLOR = 'red'",
        "missing = 1",
        "NOT missing = 1",
        "missing BETWEEN 1 AND 2",
        "missing NOT BETWEEN 1 AND 2",
        "missing LIKE '%'",
        "missing IN ('a')",
        "empty = 'a'",
        "size = '5'",
        "color > 1",
        "size / 0 = 1",
        "color",
        "missing",
    ] {
        assert!(!matches(selector), "{selector}");
    }
}

#[test]
fn invalid_selectors_are_refused_with_their_place() {
    for (selector, position) in [
        ("", 0),
        ("color =", 7),
        ("color = 'red", 8),
        ("color == 'red'", 7),
        ("color != 'red'", 6),
        ("color = \"red\"", 8),
        ("size = 5 = 5", 9),
        ("5", 0),
        ("'text'", 0),
        ("color > 'red'", 8),
        ("urgent < TRUE", 9),
        ("'a' IN ('a')", 0),
        ("color IN ()", 10),
        ("color IN (1)", 10),
        ("color LIKE size", 11),
        ("color LIKE 'a' ESCAPE 'bc'", 22),
        ("size + 'a' = 1", 7),
        ("(size = 5) = TRUE", 0),
        ("(size = 5) BETWEEN 1 AND 2", 0),
        ("JMSDestination = 'q'", 0),
        ("JMSRedelivered", 0),
        ("size = 9223372036854775808", 7),
        ("size = 09", 7),
        ("sys.Label = 'a'", 3),
        ("size % 2 = 1", 5),
        ("property('a') = 1", 8),
        ("NULL = size", 0),
    ] {
        let error = Selector::new(selector).expect_err(selector);
        assert_eq!(error.position, position, "{selector}: {error}");
    }
    assert!(Selector::new(&"x".repeat(SELECTOR_BYTES_MAX + 1)).is_err());
}

#[test]
fn nesting_is_bounded_and_nothing_grows_with_it() {
    assert!(Selector::new(&format!("{}a{}", "(".repeat(100), ")".repeat(100))).is_ok());
    assert!(Selector::new(&format!("{}a{}", "(".repeat(300), ")".repeat(300))).is_err());
    let nested = "(".repeat(60) + "a" + &" BETWEEN 1 AND 2)".repeat(60);
    assert!(Selector::new(&nested).is_err());
}

#[test]
fn each_name_is_asked_for_once() {
    let selector = Selector::new("a = 1 AND b LIKE 'x' AND (a > 0 OR A IS NULL) AND c + a = 2").unwrap();
    assert_eq!(selector.names().collect::<Vec<_>>(), ["a", "b", "A", "c"]);
    assert!(selector.text().starts_with("a = 1"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(selector in "\\PC{0,40}") {
        let _ = Selector::new(&selector).map(|selector| selector.matches(value_of));
    }

    #[test]
    fn any_sequence_of_words_is_read_or_refused(words in prop::collection::vec(prop_oneof![
        Just("AND"), Just("OR"), Just("NOT"), Just("BETWEEN"), Just("IN"), Just("LIKE"), Just("ESCAPE"), Just("IS"),
        Just("NULL"), Just("TRUE"), Just("="), Just("<>"), Just("<"), Just("+"), Just("-"), Just("*"), Just("/"),
        Just("("), Just(")"), Just(","), Just("color"), Just("size"), Just("'red'"), Just("'\\'"), Just("5"), Just("1.5"),
    ], 0..14)) {
        let _ = Selector::new(&words.join(" ")).map(|selector| selector.matches(value_of));
    }
}
