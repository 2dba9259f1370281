//! Printing and parsing are inverse to each other, and parsing never panics.

use proptest::prelude::*;

use super::arbitrary::{condition, soup, statement};
use super::parameters;
use crate::sql::parse;
use crate::sql::tree::Statement;
use crate::{SqlAction, SqlFilter};

fn printed(statements: &[Statement], separator: &str) -> String {
    statements.iter().map(Statement::to_string).collect::<Vec<_>>().join(separator)
}

/// Any text is refused, or its tree is printed and parsed to the same tree.
fn survives(text: &str) -> Result<(), TestCaseError> {
    if let Ok(tree) = parse::filter(text, &parameters()) {
        prop_assert_eq!(parse::filter(&tree.to_string(), &parameters()), Ok(tree));
    }
    if let Ok(statements) = parse::action(text, &parameters()) {
        prop_assert_eq!(parse::action(&printed(&statements, " "), &parameters()), Ok(statements));
    }
    for error in [parse::filter(text, &parameters()).err(), parse::action(text, &parameters()).err()] {
        let length = text.chars().count();
        prop_assert!(error.is_none_or(|error| error.position <= length && !error.message.is_empty()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_printed_condition_is_read_as_itself(tree in condition()) {
        prop_assert_eq!(parse::filter(&tree.to_string(), &parameters()), Ok(tree));
    }

    #[test]
    fn printed_statements_are_read_as_themselves(
        statements in prop::collection::vec(statement(), 1..6),
        separator in prop::sample::select(&[" ", "\n", ",", ";", " ; , "][..]),
    ) {
        let text = printed(&statements, separator);
        prop_assert_eq!(parse::action(&text, &parameters()), Ok(statements));
    }

    #[test]
    fn any_text_is_refused_or_read(text in any::<String>()) {
        survives(&text)?;
    }

    #[test]
    fn any_words_are_refused_or_read(text in soup()) {
        survives(&text)?;
    }

    #[test]
    fn any_spelling_of_a_condition_is_survived(tree in condition(), place in any::<prop::sample::Index>(), with in soup()) {
        let text = tree.to_string();
        let place = text.char_indices().map(|(at, _)| at).nth(place.index(text.chars().count())).unwrap_or(0);
        let (before, after) = text.split_at(place);
        survives(&format!("{before}{with}{after}"))?;
        survives(after)?;
    }
}

#[test]
fn rules_keep_the_text_that_they_are_stored_as() {
    let filter = SqlFilter::new(" A=1 and b like @text ", parameters()).expect("a condition");
    assert_eq!(filter.expression(), " A=1 and b like @text ");
    assert_eq!(filter.parameters(), parameters());
    assert_eq!(SqlFilter::new(filter.expression(), filter.parameters().to_vec()).expect("read back"), filter);
    let action = SqlAction::new("SET a = 1 SET b = 2; REMOVE c", Vec::new()).expect("statements");
    assert_eq!(action.statements(), 3);
    assert_eq!(SqlAction::new(action.expression(), Vec::new()).expect("read back"), action);
}
