//! The table is consistent and matches its page of the documentation.

use std::collections::HashSet;
use std::fmt::Write;

use super::*;
use crate::condition::{CONNECTION_FORCED, DETACH_FORCED, INTERNAL_ERROR, SERVER_BUSY, TIMEOUT};

const PAGE: &str = include_str!("../../../docs/errors.md");
const HEAD: &str =
    "| Error | When | AMQP condition | Status | HTTP | SubCode | Retried |\n|---|---|---|---|---|---|---|\n";

/// The table in the format of the page.
fn shown() -> String {
    let mut text = HEAD.to_owned();
    for kind in ErrorKind::ALL {
        let row = kind.row();
        let (condition, status) = row.amqp.map_or_else(
            || ("–".to_owned(), "–".to_owned()),
            |amqp| (format!("`{}`", amqp.condition), amqp.status.to_string()),
        );
        let (http, sub_code) = match row.http {
            None => ("–".to_owned(), "–".to_owned()),
            Some(Http { status, sub_code: NO_SUB_CODE }) => (status.to_string(), "none".to_owned()),
            Some(http) => (http.status.to_string(), http.sub_code.to_string()),
        };
        let retried = if row.is_retryable { "yes" } else { "no" };
        let (name, meaning) = (kind.name(), row.meaning);
        let _ = writeln!(
            text,
            "| {name} | {meaning} | {condition} | {status} | {http} | {sub_code} | {retried} |"
        );
    }
    text
}

#[test]
fn the_documentation_shows_this_table() {
    let shown = shown();
    assert!(PAGE.contains(&shown), "docs/errors.md must contain:\n{shown}");
}

#[test]
fn every_row_says_something_to_some_client() {
    for kind in ErrorKind::ALL {
        let row = kind.row();
        assert!(row.amqp.is_some() || row.http.is_some(), "{kind:?}");
        assert!(row.http.is_none_or(|http| (400..600).contains(&http.status)), "{kind:?}");
    }
    let names: HashSet<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), ErrorKind::ALL.len());
}

/// N takes the first three digits of the sub-code as the status; the exceptions are the service's own.
#[test]
fn sub_codes_begin_with_their_status() {
    for kind in ErrorKind::ALL {
        let Some(Http { status, sub_code }) = kind.row().http else { continue };
        let is_own = match kind {
            ErrorKind::TooManySubscriptions
            | ErrorKind::TooManySqlFilters
            | ErrorKind::TooManyCorrelationFilters => (status, sub_code / 100) == (403, 405),
            _ if status == 503 => sub_code == 50004,
            ErrorKind::ForwardingTargetNotFound => (status, sub_code) == (400, 40400),
            _ => sub_code == NO_SUB_CODE || sub_code / 100 == status,
        };
        assert!(is_own, "{kind:?}");
    }
}

#[test]
fn errors_that_sdks_retry_are_marked_retryable() {
    for kind in ErrorKind::ALL {
        let row = kind.row();
        if let Some(amqp) = row.amqp {
            let retried = [SERVER_BUSY, TIMEOUT, INTERNAL_ERROR, DETACH_FORCED, CONNECTION_FORCED];
            let is_retried = retried.contains(&amqp.condition);
            assert_eq!(row.is_retryable, is_retried, "{kind:?}");
        }
        assert!(
            !row.is_retryable || row.http.is_none_or(|http| http.status >= 500 || http.status == 408),
            "{kind:?}"
        );
    }
}
