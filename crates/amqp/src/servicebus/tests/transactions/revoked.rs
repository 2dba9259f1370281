//! Work whose right has ended.

use peeklock_access::{Policy, default_rule};
use peeklock_engine::{AuthorizationRule, Secret};

use super::super::authorization::{access, ended, put_token};
use super::super::harness::Harness;
use super::acting::condition;
use crate::server::Peer;

/// The link that has sent is detached; what it has sent must not be committed any more.
#[test]
fn a_transaction_is_rolled_back_once_a_right_of_the_connection_has_ended() {
    let access = access();
    let mut harness = Harness::with(access.clone(), &Peer::default());
    put_token(&mut harness, "q");
    let coordinator = harness.coordinator();
    let sender = harness.sender("q");
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "sent before");
    let rule = AuthorizationRule { primary_key: Secret::new("new"), ..default_rule() };
    access.replace(Policy { rules: vec![rule], ..Policy::default() });
    assert_eq!(ended(&mut harness).len(), 1);
    let outcome = harness.discharge(coordinator, &txn_id, false).expect("an answer at once");
    assert_eq!(condition(&outcome), "amqp:transaction:rollback");
    assert!(harness.commits().is_empty());
}
