//! The replay detects differences.

use peeklock_tests::recorded;

/// Replays the conversation `send-one` after a change of its expectations.
fn replay_changed(change: impl Fn(String) -> String) {
    let conversation = change(crate::read("send-one.txt"));
    recorded::replay(&crate::read("broker.toml"), "send-one", &conversation, &crate::changes());
}

#[test]
#[should_panic(expected = "1 answers differ")]
fn another_outcome_is_found() {
    replay_changed(|text| {
        text.replace("sent 0 settled=true state=accepted{}", "sent 0 settled=true state=released{}")
    });
}

#[test]
#[should_panic(expected = "not expected: want 1 disposition 1 sent 0")]
fn an_answer_too_many_is_found() {
    replay_changed(|text| text.replace("want 1 disposition 1 sent 0 settled=true state=accepted{}\n", ""));
}

#[test]
#[should_panic(expected = "never came")]
fn an_answer_that_is_missing_is_found() {
    replay_changed(|text| text.replace("want 1 close\n", "want 1 close\nwant 1 close\n"));
}

#[test]
#[should_panic(expected = "1 answers differ")]
fn another_type_of_an_annotation_is_found() {
    replay_changed(|text| {
        text.replacen(":x-opt-sequence-number: 1:long", ":x-opt-sequence-number: 1:int", 1)
    });
}
