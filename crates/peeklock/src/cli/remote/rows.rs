//! Fields of documents of the management API, as cells of tables.

use serde_json::Value as Json;

use super::text::one_line;

/// Longest cell, in characters.
const CELL_MAX: usize = 128;

/// A text; empty if missing.
pub(super) fn text<'a>(row: &'a Json, pointer: &str) -> &'a str {
    row.pointer(pointer).and_then(Json::as_str).unwrap_or_default()
}

/// A count; 0 if missing.
pub(super) fn number(row: &Json, pointer: &str) -> u64 {
    row.pointer(pointer).and_then(Json::as_u64).unwrap_or(0)
}

/// A cell: a dash for a missing value, without terminal control characters.
pub(super) fn shown(row: &Json, pointer: &str) -> String {
    match row.pointer(pointer) {
        None | Some(Json::Null) => "-".to_owned(),
        Some(Json::String(text)) => one_line(text, CELL_MAX),
        Some(other) => one_line(&other.to_string(), CELL_MAX),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_a_dash_for_nothing_and_no_control_characters() {
        let row = json!({ "a": { "b": 5 }, "text": "x\u{1b}[2J", "none": null });
        assert_eq!((shown(&row, "/a/b"), number(&row, "/a/b")), ("5".to_owned(), 5));
        assert_eq!((shown(&row, "/none").as_str(), shown(&row, "/missing").as_str()), ("-", "-"));
        assert_eq!((shown(&row, "/text"), text(&row, "/a")), ("x [2J".to_owned(), ""));
    }
}
