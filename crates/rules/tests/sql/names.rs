//! Names, scopes, quoting, functions, parameters.

use super::Answer::{F, Fails, T, U};
use super::Row;

pub(crate) const ROWS: &[Row] = &[
    ("COLOR = 'blue'", T, "sql-filter: property names are case-insensitive"),
    ("shade = 'Blue'", T, "sql-filter: property names are case-insensitive"),
    ("user.color = 'blue'", T, "semantics §13.2"),
    ("USER.Color = 'blue'", T, "semantics §13.2"),
    ("user.label = 'the bus stops'", U, "semantics §13.2: user is no system property"),
    ("label = 'the bus stops'", U, "semantics §13.2: default scope user"),
    ("[color] = 'blue'", T, "semantics §13.1"),
    ("user.[color] = 'blue'", T, "semantics §13.1"),
    ("\"color\" = 'blue'", T, "semantics §13.1: a name, not a text"),
    ("[Property With Space] = 'spaced'", T, "sql-filter: the page's example"),
    ("[property with SPACE] = 'spaced'", T, "sql-filter: property names are case-insensitive"),
    ("[HR-EmployeeID] = 12", T, "sql-filter: the page's example"),
    ("\"Contoso & Northwind\" = 'merged'", T, "sql-filter: the page's example"),
    ("[a]]b] = 'bracket'", T, "semantics §13.1: ]] escapes"),
    ("\"a\"\"b\" = 'quote'", T, "semantics §13.1: \"\" escapes"),
    ("[and] = 'reserved'", T, "semantics §13.1: only bare names are reserved"),
    ("[user] = 'scope'", T, "semantics §13.1"),
    ("[sys] = 'scope'", T, "semantics §13.1"),
    ("[sys.Label] = 'the bus stops'", U, "(inferred): a scope stands outside the brackets"),
    ("Größe = 'XL'", T, "sql-filter: letters as Unicode has them"),
    ("GRÖßE = 'XL'", T, "sql-filter: case-insensitive (inferred: ordinal, beyond ASCII too)"),
    ("GRÖSSE = 'XL'", U, "(inferred): one letter is one letter, as in .NET"),
    ("Grosse = 'XL'", U, "(inferred): ordinal"),
    // newid().
    ("newid() = newid()", F, "sql-filter: System.Guid.NewGuid()"),
    ("newid() < newid()", T, "(inferred): the order of System.Guid"),
    ("newid() <> '00000000-0000-0000-0000-000000000001'", F, "semantics §13.4: yields a GUID"),
    ("newid() = 'a'", U, "semantics §13.4: yields a GUID"),
    ("NEWID() = 1", U, "semantics §13.4: yields a GUID"),
    ("newid() + 1 = 1", Fails("a GUID and an integer"), "(inferred): only numbers"),
    // property().
    ("property('color') = 'blue'", T, "sql-filter"),
    ("p('color') = 'blue'", T, "sql-filter"),
    ("P('COLOR') = 'blue'", T, "sql-filter: property names are case-insensitive"),
    ("property('col' + 'or') = 'blue'", T, "sql-filter: any valid expression"),
    ("property(key) = 'blue'", T, "sql-filter: any valid expression"),
    ("property(property('key')) = 'blue'", T, "sql-filter: any valid expression"),
    ("property(@text) = 'blue'", U, "sql-filter: any valid expression; there is no property 'blue'"),
    ("property('Property With Space') = 'spaced'", T, "sql-filter"),
    ("property('GRÖßE') = 'XL'", T, "(inferred): as any name"),
    ("property('missing') = 'blue'", U, "semantics §13.2: missing user property"),
    ("property(missing) = 'blue'", U, "(inferred): of an unknown name"),
    ("property(NULL) = 'blue'", U, "(inferred): of an unknown name"),
    ("property('sys.Label') = 'the bus stops'", T, "(inferred): sys. names a system property"),
    ("property(syskey) = 'the bus stops'", T, "(inferred): sys. names a system property"),
    ("property('sys.' + 'to') = 'Store5'", T, "(inferred): sys. names a system property"),
    (
        "property('sys.Missing') = 1",
        Fails("There is no system property 'sys.Missing'"),
        "semantics §13.2: FilterException",
    ),
    (
        "property('sys.' + color) = 1",
        Fails("There is no system property"),
        "semantics §13.2: FilterException",
    ),
    ("property('user.color') = 'blue'", U, "(inferred): only sys. is a scope in a computed name"),
    (
        "property(quantity) = 5",
        Fails("name of a property must be a string"),
        "sql-filter: returns a string value",
    ),
    ("property(yes) = 5", Fails("this is a Boolean"), "sql-filter: returns a string value"),
    ("property('a' + 1) = 5", Fails("a string and an integer"), "(inferred)"),
    ("property('yes')", T, "(inferred): a Boolean is a condition"),
    ("property = 5", U, "(inferred): without parentheses it is a name"),
    // Parameters.
    ("@text = 'blue'", T, "sql-filter: Parameters.Add(\"@stringParam\", …)"),
    ("@number + @number = 10", T, "semantics §13.1"),
    ("@at > '2026'", U, "semantics §13.4: not convertible is UNKNOWN"),
    ("@at > '2026-01-01'", T, "semantics §13.4: literal parsed (inferred)"),
    ("@text LIKE 'b%'", T, "semantics §13.1"),
    ("color IN ('red', @text)", T, "semantics §13.1"),
    ("@truth AND @null", U, "semantics §13.3"),
];

#[test]
fn names_functions_and_parameters() {
    super::check(ROWS);
}
