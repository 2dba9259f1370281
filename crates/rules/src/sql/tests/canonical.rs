//! Meaning of texts, by the canonical text of their trees.

use super::parameters;
use crate::sql::parse;
use crate::sql::tree::{Constant, Expression, Property, Statement, SystemProperty};

/// Texts and their canonical form (semantics §13.1).
const FILTERS: &[(&str, &str)] = &[
    ("1=1", "1 = 1"),
    ("a = 'x' AND b > 5", "a = 'x' AND b > 5"),
    // Precedence and parentheses.
    ("a or b and c or d", "a OR b AND c OR d"),
    ("(a or b) and (c or d)", "(a OR b) AND (c OR d)"),
    ("((a)) and (b and (c and d))", "a AND b AND c AND d"),
    ("(a or b) or (c or d)", "a OR b OR c OR d"),
    ("not a = 1 and b", "NOT a = 1 AND b"),
    ("not (a = 1 and b)", "NOT (a = 1 AND b)"),
    ("not not (a)", "NOT NOT a"),
    ("(not a) = true", "(NOT a) = TRUE"),
    ("(a = 1) = (b = 2)", "(a = 1) = (b = 2)"),
    ("a - b - c = 0", "a - b - c = 0"),
    ("a - (b - c) = 0", "a - (b - c) = 0"),
    ("(a - b) - c = 0", "a - b - c = 0"),
    ("a + b * c % 2 / 3 = 0", "a + b * c % 2 / 3 = 0"),
    ("(a + b) * c = 0", "(a + b) * c = 0"),
    ("a * (b / c) = 0", "a * (b / c) = 0"),
    ("-a * b = -(a * b)", "-a * b = -(a * b)"),
    ("a--+b=0", "a - - +b = 0"),
    // Comparisons.
    ("a<>1 or a!=2", "a <> 1 OR a <> 2"),
    ("a<1or a<=2or a>3or a>=4", "a < 1 OR a <= 2 OR a > 3 OR a >= 4"),
    ("a IN(1,b,'c',d or e)", "a IN (1, b, 'c', d OR e)"),
    ("a + 1 not in (2)", "a + 1 NOT IN (2)"),
    ("a like 'x%'", "a LIKE 'x%'"),
    (r"a not like b + '\%' escape '\'", r"a NOT LIKE b + '\%' ESCAPE '\'"),
    ("a is null or user.a is not null", "a IS NULL OR a IS NOT NULL"),
    ("(sys.label) is null", "sys.Label IS NULL"),
    ("exists (a) and exists(sys.[to])", "EXISTS(a) AND EXISTS(sys.To)"),
    // Names.
    ("USER.a = sys . SUBJECT", "a = sys.Label"),
    ("[a] = \"b\"", "a = b"),
    ("[Property With Space] = [HR-EmployeeID]", "[Property With Space] = [HR-EmployeeID]"),
    ("[a]]b] = \"c\"\"d\"", "[a]]b] = [c\"d]"),
    ("user.[and] = user.[1]", "[and] = [1]"),
    ("HR-EmployeeID = 0", "HR - EmployeeID = 0"),
    ("größe_2 = 1 and 数量 = 3", "größe_2 = 1 AND 数量 = 3"),
    ("sys = user", "sys = user"),
    ("p = property and newid = 1", "p = property AND newid = 1"),
    // Functions and parameters.
    ("P('a') = Property ( 'b' + c ) ", "property('a') = property('b' + c)"),
    ("NEWID() = id", "newid() = id"),
    ("a = @TEXT and @yes and b = @number", "a = @TEXT AND @yes AND b = @number"),
    // Constants.
    ("a = 'it''s' or a = ''", "a = 'it''s' OR a = ''"),
    ("a = null and b = true or false", "a = NULL AND b = TRUE OR FALSE"),
    ("a = 007", "a = 7"),
    ("a = 9223372036854775807", "a = 9223372036854775807"),
    ("a = -9223372036854775808", "a = -9223372036854775808"),
    ("a = - 5 - -5", "a = -5 - -5"),
    ("a = -(5) or a = - - +5", "a = -5 OR a = 5"),
    ("a = 5. or a = .5 or a = 1.50", "a = 5.0 OR a = 0.5 OR a = 1.5"),
    ("a = 101.5E5 or a = 0.5e-2 or a = 1E+3", "a = 10150000.0 OR a = 0.005 OR a = 1000.0"),
    ("a = 1e300 or a = -1e-300", "a = 1e300 OR a = -1e-300"),
    // Spaces.
    ("\r\n\ta\u{a0}=\n1 ", "a = 1"),
];

const ACTIONS: &[(&str, &[&str])] = &[
    ("SET a = 1", &["SET a = 1"]),
    ("remove user.a;", &["REMOVE a"]),
    (
        "set sys.to = 'x' + a, remove b; set c=-d\nREMOVE sys.Label;",
        &["SET sys.To = 'x' + a", "REMOVE b", "SET c = -d", "REMOVE sys.Label"],
    ),
    ("SET a = 1;, SET b = 2 SET c = newid()", &["SET a = 1", "SET b = 2", "SET c = newid()"]),
    ("SET [Set] = p('x') * (2 + @number)", &["SET [Set] = property('x') * (2 + @number)"]),
];

#[test]
fn filters_are_read_as_they_bind() {
    for (text, canonical) in FILTERS {
        let tree = parse::filter(text, &parameters()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(tree.to_string(), *canonical, "{text}");
        assert_eq!(parse::filter(canonical, &parameters()), Ok(tree), "{canonical}");
    }
}

#[test]
fn actions_are_read_statement_by_statement() {
    for (text, canonical) in ACTIONS {
        let statements = parse::action(text, &parameters()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let printed: Vec<String> = statements.iter().map(Statement::to_string).collect();
        assert_eq!(printed, *canonical, "{text}");
        assert_eq!(parse::action(&printed.join("; "), &parameters()), Ok(statements), "{text}");
    }
}

#[test]
fn a_tree_has_the_structure_of_the_text() {
    let read = |text| parse::filter(text, &parameters()).expect("a condition");
    let property = |name: &str| Expression::Property(Property::User(name.into()));
    let chain = Expression::And(vec![property("a"), property("b"), property("C")]);
    assert_eq!(read("a AND (b AND C)"), chain, "one level, and names as they are written");
    let label = Property::System(SystemProperty::Label);
    assert_eq!(read("sys.Subject IS NOT NULL"), Expression::IsNull { negated: true, property: label });
    assert_eq!(read("@Yes"), Expression::Parameter("Yes".into()));
    assert_eq!(read("TRUE"), Expression::Constant(Constant::Boolean(true)));
}
