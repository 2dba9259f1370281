//! Invalid texts, each with the position and text of its error.

use super::parameters;
use crate::sql::parse;

/// The text, with a caret before the position of the error.
const FILTERS: &[(&str, &str)] = &[
    ("a =^", "the text ends where a value was expected"),
    ("a = ^)", "found ')' where a value was expected"),
    ("a = 1 ^b", "found 'b' where an operator was expected"),
    ("(a = 1^", "the text ends where ')' or an operator was expected"),
    ("a = 1^)", "found ')' where an operator was expected"),
    ("a = 1 ^= 2", "comparisons do not chain: one of them needs parentheses"),
    ("a IS NULL ^IN (1)", "comparisons do not chain: one of them needs parentheses"),
    ("a =^= 1", "found '=' where a value was expected"),
    ("a IN^", "the text ends where '(' was expected"),
    ("a IN (1^", "the text ends where ')', ',' or an operator was expected"),
    ("a IN (^)", "found ')' where a value was expected"),
    ("a IS ^x", "found 'x' where NOT or NULL was expected"),
    ("a NOT ^x", "found 'x' where IN or LIKE was expected"),
    ("a LIKE 'x' ^c", "found 'c' where ESCAPE or an operator was expected"),
    ("a = 'é' AND 'ü' = ^,", "found ',' where a value was expected"),
    ("a ^'b'", "found the text 'b' where an operator was expected"),
    ("a ^[b]", "found the name [b] where an operator was expected"),
    ("^and = 1", "found the reserved word 'and' where a value was expected"),
    ("a = ^SET", "found the reserved word 'SET' where a value was expected; as a name it is written [SET]"),
    (
        "EXISTS(^in)",
        "found the reserved word 'in' where the name of a property was expected; as a name it is written [in]",
    ),
    (
        "a ^xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "found 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' where an operator was expected",
    ),
    ("sys.^", "the text ends where the name of a property was expected"),
    ("EXISTS(^1)", "found '1' where the name of a property was expected"),
    // Invalid tokens.
    ("a = ^'b", "the text that starts here has no closing quote"),
    ("a = ^'b''", "the text that starts here has no closing quote"),
    ("^[a = 1", "the name that starts here has no closing ]"),
    ("^[a]] = 1", "the name that starts here has no closing ]"),
    ("^\"a = 1", "the name that starts here has no closing double quote"),
    ("^[] = 1", "a name needs at least one character"),
    ("a ^# 1", "'#' has no meaning here"),
    ("a ^! b", "'!' has no meaning here"),
    ("a = 1 ^&& b", "'&' has no meaning here"),
    ("a = ^‘b’", "‘ is not a quote here: strings are written in single quotes, 'text'"),
    ("^_a = 1", "a name starts with a letter; another one is written in brackets, as in [_name]"),
    ("a = ^@ b", "a parameter needs a name behind its @"),
    ("a = ^9223372036854775808", "this integer does not fit into 64 bits"),
    ("a = 1 - ^9223372036854775808", "this integer does not fit into 64 bits"),
    ("a = ^--9223372036854775808", "this integer does not fit into 64 bits"),
    ("a = -^99999999999999999999", "this integer does not fit into 64 bits"),
    ("a = ^1e309", "this number is too large"),
    // Errors beyond the grammar.
    ("sys.^Lable = 'x'", "there is no system property 'Lable': did you mean sys.Label?"),
    ("sys.^[Message Id] = 'x'", "there is no system property 'Message Id': did you mean sys.MessageId?"),
    ("sys.^Colour = 'x'", "there is no system property 'Colour'"),
    ("^message.id = 'x'", "there is no scope 'message', only sys and user"),
    ("a = ^@b", "there is no parameter '@b'"),
    ("^upper(a) = 'X'", "there is no function 'upper', only newid(), property(name) and p(name)"),
    ("newid(^a) = 'X'", "newid() takes no arguments"),
    ("^p() = 1", "p(name) takes one argument, a name"),
    ("^property('a', 'b') = 1", "property(name) takes one argument, a name"),
    ("^a + 1 IS NULL", "IS NULL must follow the name of a property"),
    ("^p('a') IS NOT NULL", "IS NULL must follow the name of a property"),
    ("^5 AND a = 1", "a condition was expected, and this is a number"),
    ("a = 1 OR ^'x'", "a condition was expected, and this is a text"),
    ("NOT ^(5)", "a condition was expected, and this is a number"),
    ("^-a", "a condition was expected, and this is a number"),
    ("^a + 1", "a condition was expected, and this is a value that is computed"),
    ("^newid()", "a condition was expected, and this is an id"),
    ("a = 1 AND ^@number", "a condition was expected, and this is the value of a parameter"),
    ("a LIKE 'b' ESCAPE ^'cd'", "ESCAPE must be followed by a string of one character"),
    ("a LIKE 'b' ESCAPE ^''", "ESCAPE must be followed by a string of one character"),
    ("a LIKE 'b' ESCAPE ^1", "ESCAPE must be followed by a string of one character"),
    ("a LIKE 'b' ESCAPE ^@text", "ESCAPE must be followed by a string of one character"),
    ("^ ", "the condition is empty"),
];

const ACTIONS: &[(&str, &str)] = &[
    ("^", "the text ends where SET or REMOVE was expected"),
    ("^a = 1", "found 'a' where SET or REMOVE was expected"),
    ("SET^", "the text ends where the name of a property was expected"),
    ("SET a^", "the text ends where '=' was expected"),
    ("SET a =^", "the text ends where a value was expected"),
    ("SET a = 1 ^b", "found 'b' where an operator or the next statement was expected"),
    ("SET a = 1, ^b = 2", "found 'b' where SET or REMOVE was expected"),
    ("SET a = b ^= 2", "SET needs a value, and this makes it a condition"),
    ("SET a = ^(b = 2)", "SET needs a value, and this is a condition"),
    ("SET a = 1 ^AND b", "SET needs a value, and this makes it a condition"),
    ("SET a = ^NOT b", "found the reserved word 'NOT' where a value was expected"),
    ("REMOVE a ^b", "found 'b' where the next statement was expected"),
    ("REMOVE a,^", "the text ends where SET or REMOVE was expected"),
    ("SET a = 1;^;", "found ';' where the next statement was expected"),
    ("SET a = 1; SET ^sys.SequenceNumber = 1", "sys.SequenceNumber can't be changed"),
    ("REMOVE ^sys.Size", "sys.Size can't be changed"),
    ("SET a = ^@b", "there is no parameter '@b'"),
];

fn assert_refused<T: std::fmt::Debug>(
    table: &[(&str, &str)],
    read: impl Fn(&str) -> Result<T, crate::SqlError>,
) {
    let mut wrong = Vec::new();
    for (marked, message) in table {
        let position = marked.chars().position(|character| character == '^').expect("a caret");
        let error = read(&marked.replacen('^', "", 1)).expect_err(marked);
        if (error.position, error.message.as_str()) != (position, *message) {
            wrong.push(format!("{marked}: {error}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_refused_filter_names_the_place_and_the_expected_tokens() {
    assert_refused(FILTERS, |text| parse::filter(text, &parameters()));
}

#[test]
fn a_refused_action_names_the_place_and_the_expected_tokens() {
    assert_refused(ACTIONS, |text| parse::action(text, &parameters()));
}

#[test]
fn an_error_ends_a_sentence() {
    let error = parse::filter("a = )", &[]).expect_err("a mistake");
    assert_eq!(error.to_string(), "found ')' where a value was expected (at character 5 of the expression)");
}

#[test]
fn two_parameters_of_one_name_are_refused() {
    let mut parameters = parameters();
    parameters.push(("TEXT".into(), crate::PropertyValue::Null));
    let error = parse::filter("a = @text", &parameters).expect_err("a mistake");
    assert_eq!(
        (error.position, error.message.as_str()),
        (0, "the parameter '@text' is given more than once")
    );
}
