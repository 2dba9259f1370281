//! The .NET client's side of recorded conversations with transactions (tests/fixtures/dotnet-transactions), replayed against a
//! daemon.

use peeklock_tests::recorded::{self, Changes};

const CONFIG: &str = r#"
[[queues]]
name = "queue"
[[queues]]
name = "queue2"
[[queues]]
name = "sessions"
requires_session = true
"#;

fn replay(conversation: &str) {
    let changes = Changes::read(include_str!("../../fixtures/dotnet/changes.toml"));
    recorded::replay(CONFIG, "transactions", conversation, &changes);
}

#[test]
fn dotnet_commits_sends_and_a_completion() {
    replay(include_str!("../../fixtures/dotnet-transactions/commit.txt"));
}

#[test]
fn dotnet_rolls_back_sends_and_a_completion() {
    replay(include_str!("../../fixtures/dotnet-transactions/rollback.txt"));
}

#[test]
fn dotnet_defers_dead_letters_and_abandons_in_transactions() {
    replay(include_str!("../../fixtures/dotnet-transactions/settle.txt"));
}

#[test]
fn dotnet_commits_and_rolls_back_across_entities() {
    replay(include_str!("../../fixtures/dotnet-transactions/cross-entity.txt"));
}

#[test]
fn dotnet_declares_before_it_sends_a_token() {
    replay(include_str!("../../fixtures/dotnet-transactions/empty.txt"));
}

#[test]
fn dotnet_schedules_and_cancels_in_transactions() {
    replay(include_str!("../../fixtures/dotnet-transactions/schedule.txt"));
}

#[test]
fn dotnet_works_without_a_transaction_where_it_may_cross_entities() {
    replay(include_str!("../../fixtures/dotnet-transactions/cross-entity-client.txt"));
}
