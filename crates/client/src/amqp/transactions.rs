//! Transactions: several sends and settlements take effect together or not at all.

use bytes::Bytes;
use peeklock_amqp::endpoint::LinkId;
use peeklock_wire::Value;
use peeklock_wire::performative::{DeliveryState, Role, Target};
use peeklock_wire::transaction::Control;

use super::connection::Client;
use super::links::{link, node};
use super::sending::accepted;
use crate::ClientError;

/// An open transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId(Bytes);

impl TransactionId {
    pub(super) fn state(&self, outcome: Option<DeliveryState>) -> DeliveryState {
        DeliveryState::Transactional { txn_id: self.0.clone(), outcome: outcome.map(Box::new) }
    }
}

impl Client {
    /// Attaches a link to the coordinator. If that is the first link of the connection, messages may be sent in a
    /// transaction to other entities than the one received from.
    ///
    /// # Errors
    /// The broker does not support transactions.
    pub async fn coordinator(&mut self) -> Result<LinkId, ClientError> {
        let source = node(&format!("controller-{}", uuid::Uuid::new_v4()));
        let capabilities = ["amqp:local-transactions", "amqp:multi-txns-per-ssn"].map(Into::into).to_vec();
        let attach = link(Role::Sender, Some(source), Some(Target::Coordinator(capabilities)));
        self.attach(self.session, attach).await
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn declare(&mut self, coordinator: LinkId) -> Result<TransactionId, ClientError> {
        let message = Control::Declare { global_id: Value::Null }.encode();
        let sent = self.send_encoded(coordinator, message, None)?;
        match self.state_of(Self::id_of(sent)).await? {
            Some(DeliveryState::Declared { txn_id }) => Ok(TransactionId(txn_id)),
            other => match accepted(other) {
                Err(error) => Err(error),
                Ok(()) => Err(ClientError::Unreadable("no transaction was declared".to_owned())),
            },
        }
    }

    /// Commits a transaction, or rolls it back; a commit is durable when this returns.
    ///
    /// # Errors
    /// A refused commit has no effect. If the connection ends, either all of the transaction has taken effect or none.
    pub async fn discharge(
        &mut self,
        coordinator: LinkId,
        transaction: TransactionId,
        commits: bool,
    ) -> Result<(), ClientError> {
        let message = Control::Discharge { txn_id: transaction.0, fail: !commits }.encode();
        let sent = self.send_encoded(coordinator, message, None)?;
        self.outcome(sent).await
    }
}
