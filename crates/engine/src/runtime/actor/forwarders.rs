//! The forwarders of a partition: one task for each queue or dead-letter queue that forwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Actor, CatchUp};
use crate::runtime::forwarder::Forwarder;
use crate::{QueueId, QueuePath, SubQueue};

/// Each forwarder receives the name of its target through a channel and ends when the channel is closed.
#[derive(Debug, Default)]
pub(super) struct Forwarders(BTreeMap<(QueueId, SubQueue), ForwarderHandle>);

/// The sender sides of a forwarder's channels.
#[derive(Debug)]
struct ForwarderHandle {
    target: watch::Sender<Box<str>>,
    requests: mpsc::UnboundedSender<CatchUp>,
}

impl Forwarders {
    /// Passes on a request; a forwarder that has ended needs none.
    pub(super) fn catch_up(&self, requested: &CatchUp) {
        for forwarder in self.0.values() {
            let _ = forwarder.requests.send(requested.clone());
        }
    }
}

impl Actor {
    /// Starts forwarders, updates their targets, or ends them, after a change of options.
    pub(super) fn update_forwarders(&mut self) {
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
