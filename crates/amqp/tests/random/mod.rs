//! Settings of tests with random conversations.

use proptest::test_runner::Config;

/// Few conversations on every run, `cases_default` of them; `PROPTEST_CASES` sets more.
pub(crate) fn config(cases_default: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases_default };
    Config { cases, failure_persistence: None, ..asked }
}
