//! The .NET client's side of recorded conversations (tests/fixtures/dotnet), each replayed to a daemon: the answers
//! equal the recorded ones, except for intentional changes (changes.toml).

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

use peeklock_tests::recorded::{self, Changes};

mod dotnet {
    mod faults;
    mod tiers;
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/dotnet")
}

fn read(file: &str) -> String {
    fs::read_to_string(folder().join(file)).unwrap()
}

fn changes() -> Changes {
    Changes::read(&read("changes.toml"))
}

fn replay(name: &str) {
    recorded::replay(&read("broker.toml"), name, &read(&format!("{name}.txt")), &changes());
}

/// The names of the conversations.
fn conversations() -> Vec<String> {
    let files =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        files.filter_map(|file| file.strip_suffix(".txt").map(str::to_owned)).collect();
    names.sort();
    names
}

#[test]
fn every_conversation_is_replayed() {
    let tests = include_str!("dotnet.rs");
    let is_missing = |name: &String| !tests.contains(&format!("replay(\"{name}\")"));
    let missing: Vec<String> = conversations().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_change_changes_an_answer() {
    let texts: Vec<(String, String)> =
        conversations().into_iter().map(|name| (name.clone(), read(&format!("{name}.txt")))).collect();
    let texts = texts.iter().map(|(name, text)| (name.as_str(), text.clone()));
    let unused = changes().unused(texts);
    assert!(unused.is_empty(), "rows of changes.toml that match nothing: {unused:#?}");
}

#[test]
fn abandon() {
    replay("abandon");
}

#[test]
fn admin_errors() {
    replay("admin-errors");
}

#[test]
fn admin_namespace() {
    replay("admin-namespace");
}

#[test]
fn admin_paging() {
    replay("admin-paging");
}

#[test]
fn admin_queues() {
    replay("admin-queues");
}

#[test]
fn admin_rules() {
    replay("admin-rules");
}

#[test]
fn admin_subscriptions() {
    replay("admin-subscriptions");
}

#[test]
fn admin_topics() {
    replay("admin-topics");
}

#[test]
fn body_data() {
    replay("body-data");
}

#[test]
fn body_sequence() {
    replay("body-sequence");
}

#[test]
fn body_value() {
    replay("body-value");
}

#[test]
fn close() {
    replay("close");
}

#[test]
fn dead_letter() {
    replay("dead-letter");
}

#[test]
fn dead_letter_by_count() {
    replay("dead-letter-by-count");
}

#[test]
fn defer() {
    replay("defer");
}

#[test]
fn defer_receive_and_delete() {
    replay("defer-receive-and-delete");
}

#[test]
fn delete_messages() {
    replay("delete-messages");
}

#[test]
fn deleted_entity() {
    replay("deleted-entity");
}

#[test]
fn disabled_entity() {
    replay("disabled-entity");
}

#[test]
fn duplicates() {
    replay("duplicates");
}

#[test]
fn idle() {
    replay("idle");
}

#[test]
fn large_message() {
    replay("large-message");
}

#[test]
fn lock_lost() {
    replay("lock-lost");
}

#[test]
fn no_right() {
    replay("no-right");
}

#[test]
fn other_receiver_settles() {
    replay("other-receiver-settles");
}

#[test]
fn peek() {
    replay("peek");
}

#[test]
fn prefetch() {
    replay("prefetch");
}

#[test]
fn processor() {
    replay("processor");
}

#[test]
fn processor_manual() {
    replay("processor-manual");
}

#[test]
fn processor_topic() {
    replay("processor-topic");
}

#[test]
fn properties() {
    replay("properties");
}

#[test]
fn property_types() {
    replay("property-types");
}

#[test]
fn purge_messages() {
    replay("purge-messages");
}

#[test]
fn receive_and_delete() {
    replay("receive-and-delete");
}

#[test]
fn receive_nothing() {
    replay("receive-nothing");
}

#[test]
fn receive_stream() {
    replay("receive-stream");
}

#[test]
fn receive_waiting() {
    replay("receive-waiting");
}

#[test]
fn reconnect() {
    replay("reconnect");
}

#[test]
fn reconnect_processor() {
    replay("reconnect-processor");
}

#[test]
fn reconnect_settling() {
    replay("reconnect-settling");
}

#[test]
fn renew_lock() {
    replay("renew-lock");
}

#[test]
fn rules() {
    replay("rules");
}

#[test]
fn rules_paging() {
    replay("rules-paging");
}

#[test]
fn schedule() {
    replay("schedule");
}

#[test]
fn sections() {
    replay("sections");
}

#[test]
fn send_batch() {
    replay("send-batch");
}

#[test]
fn send_list() {
    replay("send-list");
}

#[test]
fn send_one() {
    replay("send-one");
}

#[test]
fn session_accept() {
    replay("session-accept");
}

#[test]
fn session_deferred() {
    replay("session-deferred");
}

#[test]
fn session_locked() {
    replay("session-locked");
}

#[test]
fn session_needed() {
    replay("session-needed");
}

#[test]
fn session_next() {
    replay("session-next");
}

#[test]
fn session_next_cancelled() {
    replay("session-next-cancelled");
}

#[test]
fn session_next_none() {
    replay("session-next-none");
}

#[test]
fn session_next_waiting() {
    replay("session-next-waiting");
}

#[test]
fn session_non_exclusive() {
    replay("session-non-exclusive");
}

#[test]
fn session_processor() {
    replay("session-processor");
}

#[test]
fn session_processor_named() {
    replay("session-processor-named");
}

#[test]
fn session_renew() {
    replay("session-renew");
}

#[test]
fn session_state() {
    replay("session-state");
}

#[test]
fn session_subscription() {
    replay("session-subscription");
}

#[test]
fn time_to_live() {
    replay("time-to-live");
}

#[test]
fn too_large() {
    replay("too-large");
}

#[test]
fn topic() {
    replay("topic");
}

#[test]
fn unknown_entity() {
    replay("unknown-entity");
}

#[test]
fn web_socket() {
    replay("web-socket");
}

#[test]
fn wrong_key() {
    replay("wrong-key");
}
