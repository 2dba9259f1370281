//! IN, IS NULL, EXISTS.

use super::Answer::{F, Fails, T, U};
use super::Row;

pub(crate) const ROWS: &[Row] = &[
    ("color IN ('blue')", T, "sql-filter"),
    ("color IN ('red', 'blue')", T, "sql-filter"),
    ("color IN ('red', 'green')", F, "sql-filter"),
    ("color IN ('Blue')", F, "(inferred): as ="),
    ("color NOT IN ('red', 'green')", T, "sql-filter"),
    ("color NOT IN ('red', 'blue')", F, "sql-filter"),
    ("quantity IN (1, 3, 5)", T, "sql-filter"),
    ("quantity IN (5.0)", T, "semantics §13.4: integer with double is double"),
    ("quantity IN (2 + 3)", T, "sql-filter: <expression> [, ...n]"),
    ("quantity IN (price * 2)", T, "sql-filter: <expression> [, ...n]"),
    ("quantity + 1 IN (6)", T, "sql-filter: <expression> IN"),
    ("price IN (1, 2.5)", T, "sql-filter"),
    ("huge IN (big, huge)", T, "sql-filter"),
    ("at IN ('2026-11-22T10:00:00.123Z')", T, "(inferred): as ="),
    ("id IN ('x', '550e8400-e29b-41d4-a716-446655440000')", T, "(inferred): as ="),
    ("color IN (Shade, color)", T, "sql-filter: <expression> [, ...n]"),
    ("color IN (@text)", T, "semantics §13.1: parameters"),
    ("5 IN (quantity)", T, "sql-filter: <expression> IN"),
    ("sys.To IN ('Store5', 'Store6', 'Store7') OR StoreId = 'Store8'", T, "sql-filter: the page's example"),
    ("StoreId IN ('Store1', 'Store2', 'Store3')", U, "sql-filter: the page's example, without the property"),
    ("nan IN (nan)", F, "C#: IEEE 754"),
    // UNKNOWN and types that are not comparable.
    ("missing IN ('a')", U, "semantics §13.3"),
    ("missing NOT IN ('a')", U, "semantics §13.3"),
    ("nothing IN (1)", U, "semantics §13.3"),
    ("missing IN (missing)", U, "semantics §13.3: the left operand"),
    ("NULL IN (1)", U, "semantics §13.3"),
    ("missing IN (1 / 0)", U, "(inferred): the list is not looked at"),
    ("missing IN (quantity / zero)", U, "(inferred): the list is not looked at"),
    ("color IN (missing)", F, "semantics §13.3: only the left operand matters"),
    ("color NOT IN (missing)", T, "semantics §13.3: only the left operand matters"),
    ("color IN (missing, 'blue')", T, "semantics §13.3: only the left operand matters"),
    ("color IN (NULL, 'red')", F, "semantics §13.3: only the left operand matters"),
    ("color NOT IN ('red', NULL)", T, "semantics §13.3: only the left operand matters"),
    ("color IN (5, TRUE)", F, "(inferred): what does not compare is not equal"),
    ("color NOT IN (5, TRUE)", T, "(inferred): what does not compare is not equal"),
    ("quantity IN ('5')", F, "(inferred): what does not compare is not equal"),
    ("color IN ('blue', 1 / 0)", T, "(inferred): left to right until one is equal"),
    ("color IN (color, quantity / zero)", T, "(inferred): left to right until one is equal"),
    ("color IN ('red', 1 / 0)", Fails("divided by zero"), "(inferred): left to right"),
    ("quantity / zero IN (1)", Fails("divided by zero"), "(inferred)"),
    ("color IN ('red', 'blue') AND quantity IN (5) AND NOT yes IN (FALSE)", T, "semantics §13.1"),
    // IS NULL.
    ("missing IS NULL", T, "semantics §13.3, sql-filter"),
    ("nothing IS NULL", T, "semantics §13.3, sql-filter"),
    ("color IS NULL", F, "semantics §13.3"),
    ("empty IS NULL", F, "semantics §13.3"),
    ("zero IS NULL", F, "semantics §13.3"),
    ("missing IS NOT NULL", F, "semantics §13.3"),
    ("nothing IS NOT NULL", F, "semantics §13.3"),
    ("color IS NOT NULL", T, "semantics §13.3"),
    ("NOT missing IS NULL", F, "(inferred): IS binds tighter than NOT"),
    ("sys.ReplyToSessionId IS NULL", T, "semantics §13.3"),
    ("sys.Label IS NOT NULL", T, "semantics §13.3"),
    ("sys.LockToken IS NULL", T, "(inferred): nothing is locked yet"),
    ("missing IS NULL OR missing <> 'a'", T, "semantics §23.15: how to ask for it"),
    // EXISTS.
    ("EXISTS(color)", T, "semantics §13.3"),
    ("EXISTS(COLOR)", T, "semantics §13.2: regardless of case"),
    ("EXISTS(missing)", F, "semantics §13.3"),
    ("EXISTS(nothing)", T, "semantics §13.3: even null (inferred)"),
    ("NOT EXISTS(missing)", T, "semantics §13.3"),
    ("EXISTS(user.color)", T, "semantics §13.2"),
    ("EXISTS(sys.Label)", T, "semantics §13.3"),
    ("EXISTS(sys.ReplyToSessionId)", F, "(inferred): a system property exists if it has a value"),
    ("EXISTS(nothing) AND nothing IS NULL", T, "semantics §13.3"),
];

#[test]
fn lists_and_presence() {
    super::check(ROWS);
}
