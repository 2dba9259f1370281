//! The forwarders of a partition: one task for each queue or dead-letter queue that forwards.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, watch};

use super::{Actor, CatchUp};
use crate::runtime::forwarder::{Forwarder, Source};
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

    fn start_forwarder(&self, path: QueuePath, target: Box<str>) -> ForwarderHandle {
        let (target, target_receiver) = watch::channel(target);
        let (requests, request_receiver) = mpsc::unbounded_channel();
        let source = Source { name: self.name_of(path.queue), path, handle: self.owned.handle.clone() };
        let forwarder = Forwarder::new(source, target_receiver, request_receiver, &self.shared);
        tokio::spawn(forwarder.run());
        ForwarderHandle { target, requests }
    }
}
