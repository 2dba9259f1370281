//! Who may do what: shared access rules, signatures and tokens, whichever protocol brings them.
//!
//! A front end shows what a peer presents (a token for a [`Resource`], a rule's name and key, a certificate) and gets a
//! [`Grant`] or a reason why not. It keeps the grants, asks them before each operation, and asks again when
//! [`Access::changes`] says that a rule changed.

mod denied;
mod grant;
mod resource;

use std::sync::Arc;

use peeklock_engine::EntityOptions;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::Namespace;
use tokio::sync::watch;

pub use denied::Denied;
pub use grant::Grant;
pub use resource::Resource;

/// Where the rules of entities are found.
pub trait EntityRules: Send + Sync + 'static {
    /// The options of a queue or topic; names match case-insensitively.
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>>;
}

impl EntityRules for Namespace {
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        Self::options(self, name)
    }
}

/// The decisions of one broker; cheap to clone.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    changes: watch::Sender<u64>,
}

impl Access {
    /// Lets everybody do everything: for a broker that only its owner can reach.
    #[must_use]
    pub fn open() -> Self {
        Self(Arc::new(Inner { changes: watch::Sender::new(0) }))
    }

    /// Whether anything has to be shown at all.
    #[must_use]
    pub fn is_required(&self) -> bool {
        false
    }

    /// What a shared access signature or JSON web token allows. `resource` is what it is presented for: the audience given
    /// to `$cbs`, or the target of an HTTP request.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn token(&self, token: &str, resource: &Resource, now: Timestamp) -> Result<Grant, Denied> {
        let _ = (token, now);
        Ok(Grant::everything(resource.clone()))
    }

    /// What a rule of the namespace allows to whoever knows its name and one of its keys (SASL PLAIN).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn password(&self, rule: &str, key: &str) -> Result<Grant, Denied> {
        let _ = (rule, key);
        Ok(Grant::everything(Resource::namespace()))
    }

    /// What a client certificate allows whose subject was verified (SASL EXTERNAL).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn certificate(&self, subject: &str) -> Result<Grant, Denied> {
        let _ = subject;
        Ok(Grant::everything(Resource::namespace()))
    }

    /// Whether what a grant rests on is still so: its rule has the same key and rights. Does not look at the time.
    #[must_use]
    pub fn stands(&self, grant: &Grant) -> bool {
        let _ = grant;
        true
    }

    /// Changes whenever a rule does.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}
