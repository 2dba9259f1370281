//! The forwarders of a partition: one task for each queue or dead-letter queue whose messages go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Actor, CatchUp};
use crate::runtime::forwarder::Forwarder;
use crate::{QueueId, QueuePath, SubQueue};

/// Each is told the name of its target; it ends when nobody tells it any more.
#[derive(Debug, Default)]
pub(super) struct Forwarders(BTreeMap<(QueueId, SubQueue), Teller>);

/// What a forwarder is told.
#[derive(Debug)]
struct Teller {
    target: watch::Sender<Box<str>>,
    wishes: mpsc::UnboundedSender<CatchUp>,
}

impl Forwarders {
    /// Hands a wish on; who is gone has nothing left to do.
    pub(super) fn catch_up(&self, wish: &CatchUp) {
        for teller in self.0.values() {
            let _ = teller.wishes.send(wish.clone());
        }
    }
}

impl Actor {
    /// Starts forwarders, tells them their targets, or lets them end, when options have changed.
    pub(super) fn see_to_forwarders(&mut self) {
        let Some(wanted) = self.seat.partition.take_forwarding() else { return };
        if wanted.is_empty() && self.forwarders.0.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.forwarders.0);
        for (source, target) in wanted {
            let key = (source.queue, source.sub_queue);
            let teller = match before.remove(&key) {
                Some(teller) => {
                    teller.target.send_if_modified(|known| {
                        let changed = *known != target;
                        *known = target;
                        changed
                    });
                    teller
                }
                None => self.start_forwarder(source, target),
            };
            self.forwarders.0.insert(key, teller);
        }
    }

    fn start_forwarder(&self, source: QueuePath, target: Box<str>) -> Teller {
        let (target, told) = watch::channel(target);
        let (wishes, wished) = mpsc::unbounded_channel();
        let name = self.name_of(source.queue);
        let handle = self.seat.handle.clone();
        let clock = Arc::clone(&self.shared.clock);
        let ways = (self.shared.routes.clone(), self.shared.joint.clone());
        let forwarder =
            Forwarder::new(name, source, handle, (told, wished), ways, clock, self.shared.cache.process());
        tokio::spawn(forwarder.run());
        Teller { target, wishes }
    }
}
