//! The bodies of messages to a coordinator.

use bytes::Bytes;
use fe2o3_amqp_types::transaction::{Declare, Discharge};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::arbitrary;
use crate::Value;
use crate::transaction::Control;

/// The descriptor of an `amqp-value` section.
const SECTION: &[u8] = &[0x00, 0x53, 0x77];

/// Decodes our encoding with theirs, and theirs with ours.
fn there_and_back<T: Serialize + DeserializeOwned>(control: &Control) -> T {
    let ours = control.encode();
    let their: T = serde_amqp::from_slice(ours.strip_prefix(SECTION).unwrap()).unwrap();
    let back = Bytes::from([SECTION, &serde_amqp::to_vec(&their).unwrap()].concat());
    assert_eq!(&Control::decode(&back).unwrap(), control);
    their
}

proptest! {
    #[test]
    fn control_messages_agree(txn_id in arbitrary::txn_id(), fail: bool) {
        let declare: Declare = there_and_back(&Control::Declare { global_id: Value::Null });
        prop_assert!(declare.global_id.is_none());
        let discharge: Discharge = there_and_back(&Control::Discharge { txn_id: txn_id.clone(), fail });
        prop_assert_eq!((&discharge.txn_id[..], discharge.fail), (&txn_id[..], Some(fail)));
    }
}
