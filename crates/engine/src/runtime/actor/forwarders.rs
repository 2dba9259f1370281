//! The forwarders of a partition: one task for each queue or dead-letter queue whose messages go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Actor, CatchUp};
use crate::runtime::forwarder::Forwarder;
use crate::{QueueId, QueuePath, SubQueue};

/// Each is told the name of its target; it ends when nobody tells it any more.
#[derive(Debug, Default)]
pub(super) struct Forwarders(BTreeMap<(QueueId, SubQueue), ForwarderHandle>);

/// What a forwarder is told.
#[derive(Debug)]
struct ForwarderHandle {
    target: watch::Sender<Box<str>>,
    requests: mpsc::UnboundedSender<CatchUp>,
}

impl Forwarders {
    /// Hands a request on; who is gone has nothing left to do.
    pub(super) fn catch_up(&self, requested: &CatchUp) {
        for forwarder in self.0.values() {
            let _ = forwarder.requests.send(requested.clone());
        }
    }
}

impl Actor {
    /// Starts forwarders, tells them their targets, or lets them end, when options have changed.
    pub(super) fn see_to_forwarders(&mut self) {
        let Some(wanted) = self.owned.partition.take_forwarding() else { return };
        if wanted.is_empty() && self.forwarders.0.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.forwarders.0);
        for (source, target) in wanted {
            let key = (source.queue, source.sub_queue);
            let forwarder = match before.remove(&key) {
                Some(forwarder) => {
                    forwarder.target.send_if_modified(|known| {
                        let changed = *known != target;
                        *known = target;
                        changed
                    });
                    forwarder
                }
                None => self.start_forwarder(source, target),
            };
            self.forwarders.0.insert(key, forwarder);
        }
    }

    fn start_forwarder(&self, source: QueuePath, target: Box<str>) -> ForwarderHandle {
        let (target, told) = watch::channel(target);
        let (requests, pending) = mpsc::unbounded_channel();
        let name = self.name_of(source.queue);
        let handle = self.owned.handle.clone();
        let clock = Arc::clone(&self.shared.clock);
        let ways = (self.shared.routes.clone(), self.shared.joint.clone());
        let forwarder =
            Forwarder::new(name, source, handle, (told, pending), ways, clock, self.shared.cache.process());
        tokio::spawn(forwarder.run());
        ForwarderHandle { target, requests }
    }
}
