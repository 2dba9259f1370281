//! Random histories carried out by the partition and by [`super::model`], compared after every command: effects, all messages
//! as clients see them, counts, session states; and the stored data at the end of every turn. Later commands use the
//! deliveries. Failures shrink; proptest prints the history.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRng, TestRunner};
use rand::Rng;
use rand::rngs::StdRng;

use super::model::comparison::Comparison;
use super::model::histories::{History, administered, histories};
use super::model::{Area, Rule};

/// `PROPTEST_CASES` sets the number of histories, `PROPTEST_RNG_SEED` repeats a run.
fn agree(area: Area) {
    agree_on(&histories(area));
}

fn agree_on(histories: &BoxedStrategy<History>) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(rand::make_rng::<StdRng>().next_u64());
    }
    let seed = config.rng_seed;
    let (_ended, end) = mpsc::channel();
    std::thread::Builder::new().spawn(move || abort_unless_it_ends(&end, seed)).unwrap();
    let outcome = TestRunner::new(config)
        .run(histories, |history| Comparison::run(&history, None).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("PROPTEST_RNG_SEED: {seed:?}\n{failure}");
    }
}

/// A call that never ends would end the whole test run without a word about the histories.
fn abort_unless_it_ends(end: &mpsc::Receiver<()>, seed: RngSeed) {
    // Some 250 histories take seconds.
    let limit_s = if std::env::var_os("PROPTEST_CASES").is_none() { 900 } else { 86_400 };
    if end.recv_timeout(Duration::from_secs(limit_s)) == Err(mpsc::RecvTimeoutError::Timeout) {
        // Not `eprintln`, which the test harness would keep for the end of the test.
        let _ = writeln!(std::io::stderr(), "PROPTEST_RNG_SEED: {seed:?}: the test doesn't end");
        std::process::abort();
    }
}

#[test]
fn a_queue_behaves_like_the_model() {
    agree(Area::Queue);
}

#[test]
fn sessions_behave_like_the_model() {
    agree(Area::Sessions);
}

#[test]
fn a_topic_behaves_like_the_model() {
    agree(Area::Topics);
}

#[test]
fn temporary_entities_agree_with_the_model() {
    agree(Area::Idleness);
}

#[test]
fn duplicate_detection_agrees_with_the_model() {
    agree(Area::Duplicates);
}

#[test]
fn joint_commands_agree_with_the_model() {
    agree(Area::Units);
}

#[test]
fn partitioned_entities_agree_with_the_model() {
    agree(Area::Partitions);
}

#[test]
fn combined_features_agree_with_the_model() {
    agree(Area::Combined);
}

#[test]
fn administration_agrees_with_the_model() {
    agree_on(&administered());
}

/// Proves that the comparison can fail. All rules of an area share the histories, because making one takes longer than
/// running it.
fn every_broken_rule_is_noticed(area: Area) {
    const HISTORIES_MAX: usize = 4000;
    let histories = histories(area);
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let mut unnoticed: Vec<Rule> = Rule::ALL.iter().copied().filter(|rule| rule.area() == area).collect();
    for _ in 0..HISTORIES_MAX {
        if unnoticed.is_empty() {
            return;
        }
        let history = histories.new_tree(&mut runner).unwrap().current();
        unnoticed.retain(|rule| {
            let agrees = Comparison::run(&history, Some(*rule)).is_ok();
            if !agrees {
                assert_eq!(Comparison::run(&history, None), Ok(()), "{rule:?} is not the difference");
            }
            agrees
        });
    }
    panic!("models without {unnoticed:?} agree");
}

#[test]
fn every_broken_rule_of_a_queue_is_noticed() {
    every_broken_rule_is_noticed(Area::Queue);
}

#[test]
fn every_broken_rule_of_sessions_is_noticed() {
    every_broken_rule_is_noticed(Area::Sessions);
}

#[test]
fn every_broken_rule_of_topics_is_noticed() {
    every_broken_rule_is_noticed(Area::Topics);
}

#[test]
fn every_broken_rule_of_rules_is_noticed() {
    every_broken_rule_is_noticed(Area::Rules);
}

#[test]
fn every_broken_rule_of_idleness_is_noticed() {
    every_broken_rule_is_noticed(Area::Idleness);
}

#[test]
fn every_broken_rule_of_duplicates_is_noticed() {
    every_broken_rule_is_noticed(Area::Duplicates);
}

#[test]
fn every_broken_rule_of_units_is_noticed() {
    every_broken_rule_is_noticed(Area::Units);
}

#[test]
fn every_broken_rule_of_partitions_is_noticed() {
    every_broken_rule_is_noticed(Area::Partitions);
}
