//! `docs/requirements.md` and `docs/test-map.md` name tests that exist, and every requirement has its row.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The folders for the prefixes of references.
const FOLDERS: [(&str, &str); 26] = [
    ("python/", "tests/python/"),
    ("js/", "tests/js/"),
    ("java/", "tests/java/src/test/java/peeklock/"),
    ("rust/", "tests/tests/"),
    ("partition/", "crates/engine/src/partition/tests/"),
    ("runtime/", "crates/engine/tests/runtime/"),
    ("amqp/", "crates/amqp/src/servicebus/"),
    ("amqp-tests/", "crates/amqp/tests/"),
    ("amqp-server/", "crates/amqp/src/server/"),
    ("amqp-endpoint/", "crates/amqp/src/endpoint/"),
    ("serve/", "crates/peeklock/src/serve/"),
    ("access/", "crates/access/src/"),
    ("admin/", "crates/admin/src/"),
    ("console/", "crates/console/src/tests/"),
    ("net/", "crates/net/src/"),
    ("message/", "crates/message/src/"),
    ("wire/", "crates/wire/src/tests/"),
    ("rules/", "crates/rules/src/"),
    ("sql/", "crates/rules/tests/sql/"),
    ("config/", "crates/peeklock/src/config/tests/"),
    ("daemon/", "crates/peeklock/tests/daemon/"),
    ("store/", "crates/storage/src/local/tests/"),
    ("cluster/", "crates/storage/src/cluster/tests/"),
    ("copy/", "crates/storage/src/copy/"),
    ("nodes/", "crates/cluster/src/"),
    ("postgres/", "crates/postgres/tests/servers/"),
];
/// Prefixes of the tests without a client, and of each SDK's tests: the columns of the table, after number and rule.
const COLUMNS: [(&str, &[&str]); 3] = [
    ("Without a client", &["partition/", "runtime/", "amqp/", "message/", "config/", "daemon/"]),
    ("Python", &["python/"]),
    ("JavaScript", &["js/"]),
];
/// S-1 to S-43.
const REQUIREMENTS: RangeInclusive<u32> = 1..=43;
/// Prefix of a cell without a test, followed by the reason.
const NO_TEST: &str = "None: ";
/// Fewest characters of a meaningful reason.
const REASON_LENGTH_MIN: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads a source file by its path from the root.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Every `file::test` in code quotes. The quotes of JavaScript's template literals are not part of a name.
fn references(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.contains("::") && code.contains('/')).collect()
}

/// Whether a reference leads to a test: a function, or the first argument of `it`, in which `${…}` matches varying
/// names.
fn leads_to_a_test(reference: &str, read: &dyn Fn(&str) -> Option<String>) -> bool {
    let Some((file, test)) = reference.split_once("::") else { return false };
    let Some((prefix, folder)) = FOLDERS.iter().find(|(prefix, _)| file.starts_with(prefix)) else {
        return false;
    };
    let Some(text) = read(&format!("{folder}{}", &file[prefix.len()..])) else { return false };
    let starts = match *prefix {
        "python/" => vec![format!("def test_{test}(")],
        "js/" => vec![format!("it(\"{test}\","), format!("it(`{test}`,")],
        "java/" => vec![format!("void {test}(")],
        _ => vec![format!("fn {test}(")],
    };
    !test.is_empty() && text.lines().any(|line| starts.iter().any(|start| begins(line, start)))
}

/// Whether a line declares `start`, with optional modifiers; comments and mentions don't count.
fn begins(line: &str, start: &str) -> bool {
    let line = line.trim_start();
    ["", "async ", "pub ", "pub async "]
        .iter()
        .any(|before| line.strip_prefix(before).is_some_and(|declaration| declaration.starts_with(start)))
}

/// The rows whose first cell is `S-number`, with their other cells.
fn rows(table: &str) -> Vec<(u32, Vec<&str>)> {
    table
        .lines()
        .filter_map(|line| {
            let (number, rest) = line.strip_prefix("| S-")?.strip_suffix(" |")?.split_once(" | ")?;
            Some((number.parse().ok()?, rest.split(" | ").map(str::trim).collect()))
        })
        .collect()
}

/// The errors in a table of requirements, one line each.
fn faults(table: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut times: BTreeMap<u32, u32> = REQUIREMENTS.map(|number| (number, 0)).collect();
    for (number, cells) in rows(table) {
        *times.entry(number).or_default() += 1;
        match cells.as_slice() {
            [rule, tests @ ..] if tests.len() == COLUMNS.len() => {
                if rule.is_empty() {
                    faults.push(format!("S-{number} has no rule"));
                }
                let cells = COLUMNS.iter().zip(tests);
                faults.extend(cells.filter_map(|((column, prefixes), cell)| {
                    Some(format!("S-{number}, {column}: {}", fault_of_cell(cell, prefixes, read)?))
                }));
            }
            other => faults.push(format!("S-{number} has {} cells after its number", other.len())),
        }
    }
    let wrong = times.into_iter().filter(|(number, times)| *times != 1 || !REQUIREMENTS.contains(number));
    faults.extend(wrong.map(|(number, times)| format!("S-{number} has {times} rows")));
    faults
}

fn fault_of_cell(cell: &str, prefixes: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let references = references(cell);
    if references.is_empty() {
        let reason = cell.strip_prefix(NO_TEST).unwrap_or_default();
        return (reason.len() < REASON_LENGTH_MIN).then(|| "neither a test nor a reason".to_owned());
    }
    let astray = |reference: &&str| !prefixes.iter().any(|prefix| reference.starts_with(prefix));
    if let Some(reference) = references.iter().copied().find(astray) {
        return Some(format!("{reference} is in the wrong column"));
    }
    let missing = references.into_iter().find(|reference| !leads_to_a_test(reference, read))?;
    Some(format!("{missing} does not exist"))
}

#[test]
fn every_requirement_has_its_row_and_its_tests() {
    let table = read("docs/requirements.md").unwrap();
    let faults = faults(&table, &read);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_test_of_the_map_exists() {
    let map = read("docs/test-map.md").unwrap();
    let references = references(&map);
    assert!(references.len() > 100, "only {} references", references.len());
    let missing: Vec<&str> =
        references.into_iter().filter(|reference| !leads_to_a_test(reference, &read)).collect();
    assert!(missing.is_empty(), "the map names missing tests: {missing:#?}");
}

#[test]
fn every_test_of_the_threat_model_exists() {
    let model = read("docs/threat-model.md").unwrap();
    let references = references(&model);
    assert!(references.len() > 30, "only {} references", references.len());
    let missing: Vec<&str> =
        references.into_iter().filter(|reference| !leads_to_a_test(reference, &read)).collect();
    assert!(missing.is_empty(), "the threat model names missing tests: {missing:#?}");
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| Peer |");
    let has_end = |line: &&str| line.contains("::") || line.contains("| None");
    let unproved: Vec<&str> = model.lines().filter(is_row).filter(|line| !has_end(line)).collect();
    assert!(unproved.is_empty(), "neither a test nor None: {unproved:#?}");
}

/// Tests of the check itself.
mod check {
    use super::{NO_TEST, REQUIREMENTS, faults, leads_to_a_test, references};

    const GOOD: &str =
        "`partition/a.rs::s1_it_ends` | `python/test_a.py::it_ends` | `js/a.test.mjs::it ends`";

    fn read(path: &str) -> Option<String> {
        let text = match path {
            "crates/engine/src/partition/tests/a.rs" => "#[test]\nfn s1_it_ends() {}\n// fn s2_not()",
            "tests/python/test_a.py" => {
                "@parametrize('x', [1])\nasync def test_it_ends(x):\n    pass\ndef test_plain():\n    'test_not('"
            }
            "tests/js/a.test.mjs" => {
                "it(\"it ends\", a);\n  // it(\"not\", a);\n    it(`each: ${kind}, ${name}`, b);"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// A table of all requirements, in which all rows except one are valid.
    fn table(number: u32, row: &str) -> String {
        let rows = REQUIREMENTS.map(|each| {
            let cells = if each == number { row.to_owned() } else { format!("A rule. | {GOOD}") };
            format!("| S-{each} | {cells} |\n")
        });
        format!("# Title\n| S | Rule | A | B | C |\n|---|---|---|---|---|\n{}", rows.collect::<String>())
    }

    fn only_fault(table: &str) -> String {
        let found = faults(table, &read);
        assert_eq!(found.len(), 1, "{found:#?}");
        found.concat()
    }

    #[test]
    fn a_good_table_passes() {
        assert_eq!(faults(&table(0, ""), &read), [""; 0]);
        let reason = format!(
            "A rule. | `partition/a.rs::s1_it_ends` | {NO_TEST}no client sees that. | `js/a.test.mjs::it ends`"
        );
        assert_eq!(faults(&table(7, &reason), &read), [""; 0]);
    }

    #[test]
    fn a_row_that_is_missing_doubled_or_of_no_requirement_is_found() {
        let good = table(0, "");
        let row = format!("| S-43 | A rule. | {GOOD} |\n");
        assert_eq!(only_fault(&good.replace(&row, "")), "S-43 has 0 rows");
        assert_eq!(only_fault(&(good.clone() + &row)), "S-43 has 2 rows");
        assert_eq!(only_fault(&(good + &row.replace("43", "44"))), "S-44 has 1 rows");
        assert_eq!(faults("", &read).len(), REQUIREMENTS.count());
    }

    #[test]
    fn a_cell_without_test_and_reason_is_found() {
        for cell in ["", "–", NO_TEST, "None: no.", "it ends", "`it ends`", "`python/test_a.py`"] {
            let row = format!("A rule. | `partition/a.rs::s1_it_ends` | {cell} | `js/a.test.mjs::it ends`");
            assert_eq!(only_fault(&table(5, &row)), "S-5, Python: neither a test nor a reason", "{cell}");
        }
        assert_eq!(only_fault(&table(5, &format!(" | {GOOD}"))), "S-5 has no rule");
        assert_eq!(only_fault(&table(5, GOOD)), "S-5 has 3 cells after its number");
    }

    #[test]
    fn a_test_that_does_not_exist_is_found_wherever_it_is_named() {
        let renamed = [
            ("s1_it_ends", "s1_it_end"),
            ("test_a.py::it_ends", "test_a.py::it_end"),
            ("mjs::it ends", "mjs::it end"),
            ("a.rs", "b.rs"),
            ("test_a.py", "test_b.py"),
            ("a.test.mjs", "b.test.mjs"),
        ];
        for (from, to) in renamed {
            let row = format!("A rule. | {}", GOOD.replace(from, to));
            let fault = only_fault(&table(9, &row));
            assert!(fault.starts_with("S-9, ") && fault.ends_with(" does not exist"), "{fault}");
        }
    }

    #[test]
    fn a_test_in_the_wrong_column_is_found() {
        let row =
            "A rule. | `python/test_a.py::it_ends` | `python/test_a.py::it_ends` | `js/a.test.mjs::it ends`";
        let fault = "S-9, Without a client: python/test_a.py::it_ends is in the wrong column";
        assert_eq!(only_fault(&table(9, row)), fault);
    }

    #[test]
    fn only_whole_names_of_declared_tests_count() {
        let exists = |reference| leads_to_a_test(reference, &read);
        assert!(exists("python/test_a.py::plain") && exists("python/test_a.py::it_ends"));
        assert!(exists("js/a.test.mjs::each: ${kind}, ${name}"));
        let not = [
            "partition/a.rs::s2_not",
            "partition/a.rs::",
            "partition/a.rs",
            "nowhere/a.rs::s1_it_ends",
            "python/test_a.py::not",
            "js/a.test.mjs::not",
            "js/a.test.mjs::it",
            "js/a.test.mjs::each: ",
        ];
        not.into_iter().for_each(|reference| assert!(!exists(reference), "{reference}"));
        assert_eq!(references("`a/b::c`, `d::e` and `x/y` | `f/g::h i`"), ["a/b::c", "f/g::h i"]);
    }
}
