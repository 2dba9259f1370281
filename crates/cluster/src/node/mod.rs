//! The behaviour of one node: the table's answers and elapsed time as input, requests and events as output.

mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use peeklock_storage::ShardId;

pub use self::placement::Placement;
use crate::{Lease, Live, NodeInfo, NodeName, Renewal, SeenLease, Session, Settings, Standing, TableError};

/// An event that follows from an answer of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The node has the lease of this shard, and may deliver messages until this time.
    Gained(ShardId, Duration),
    /// The lease was renewed until this time.
    Renewed(ShardId, Duration),
    /// Another node has the lease, or could have it.
    Lost(ShardId),
    /// The shard belongs to this other node now: its host must stop serving it, then call [`Node::release`].
    HandOver(ShardId, NodeName),
    /// A released lease is no longer held.
    Released(ShardId),
    /// Another process uses this node's name.
    NameTaken(Session),
}

/// The node's relation to a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Own {
    Held,
    /// It is served until its host calls [`Node::release`].
    HandingOver(NodeName),
    /// It is no longer served; the node it should go to, if any.
    Releasing(Option<NodeName>),
}

/// An observation, and the time since which it is unchanged.
#[derive(Debug, Clone)]
struct Seen<T> {
    what: T,
    since: Duration,
}

/// A node of a cluster, as a state machine without clock, table or randomness. `now` is the node's elapsed time
/// ([`crate::Elapsed`]) and never goes back.
///
/// Call [`Self::give_up`] and [`Self::ask`] at [`Self::due`]; then [`Self::answered`], unless `due` comes first: then
/// call [`Self::give_up`] and [`Self::wait`], if the table is still executing the request; otherwise the request is
/// abandoned and its answer must not be used.
#[derive(Debug)]
pub struct Node {
    info: NodeInfo,
    settings: Settings,
    accepts: bool,
    /// An operator drains the node: it gives away its shards.
    is_drained: bool,
    own: BTreeMap<ShardId, Own>,
    leases: BTreeMap<ShardId, Seen<Lease>>,
    others: BTreeMap<NodeName, Seen<Live>>,
    /// When this node's releases were recorded: until [`Settings::silent_after`] later, a standby has precedence.
    released_at: BTreeMap<ShardId, Duration>,
    /// When the pending request was sent.
    asked_at: Option<Duration>,
    /// The leases that this request was to take.
    asked_takes: Vec<SeenLease>,
    /// The table may have changed since that request was sent.
    is_hinted: bool,
    due: Duration,
    moved_at: Option<Duration>,
    was_answered: bool,
    /// The last request failed or was abandoned.
    is_cut_off: bool,
    /// When the table answered again after such a request.
    resumed_at: Duration,
    /// When the last request was sent that was answered while its tenure lasted.
    renewed_at: Duration,
}

impl Node {
    /// A node without knowledge of the table; its first request is due at once.
    #[must_use]
    pub const fn new(info: NodeInfo, settings: Settings, now: Duration) -> Self {
        Self {
            info,
            settings,
            accepts: true,
            is_drained: false,
            own: BTreeMap::new(),
            leases: BTreeMap::new(),
            others: BTreeMap::new(),
            released_at: BTreeMap::new(),
            asked_at: None,
            asked_takes: Vec::new(),
            is_hinted: false,
            due: now,
            moved_at: None,
            was_answered: false,
            is_cut_off: false,
            resumed_at: Duration::ZERO,
            renewed_at: now,
        }
    }

    /// When to send the next request; with a request pending, when to find out whether it is lost.
    #[must_use]
    pub const fn due(&self) -> Duration {
        self.due
    }

    /// Gives up the leases that were not renewed for [`Settings::give_up_after`]: another node that reaches the table has
    /// probably taken them, and the clients of this one get no answers. A lease that nobody has taken is gained again by
    /// the next answer.
    pub fn give_up(&mut self, now: Duration) -> Vec<News> {
        if now.saturating_sub(self.renewed_at) < self.settings.give_up_after {
            return Vec::new();
        }
        let mut news = Vec::new();
        self.own.retain(|shard, own| {
            let is_served = !matches!(own, Own::Releasing(_));
            if is_served {
                news.push(News::Lost(*shard));
            }
            !is_served
        });
        news
    }

    /// The request to send now.
    pub fn ask(&mut self, now: Duration) -> Renewal {
        self.is_cut_off |= self.asked_at.is_some();
        self.asked_at = Some(now);
        self.is_hinted = false;
        self.asked_takes = self.takes(now);
        // Leaves time for another attempt before the leases expire.
        self.due = now + self.settings.patience();
        let wanted = self.own.iter().filter_map(|(shard, own)| match own {
            Own::HandingOver(to) | Own::Releasing(Some(to)) => Some((*shard, to.clone())),
            Own::Held | Own::Releasing(None) => None,
        });
        let releases = self.leases.iter().filter(|(shard, _)| self.is_releasing(shard));
        Renewal {
            node: self.info.clone(),
            accepts: self.accepts,
            takes: self.asked_takes.clone(),
            takes_free: self.takes_free(now),
            wanted: wanted.collect(),
            releases: releases
                .map(|(shard, seen)| SeenLease { shard: *shard, version: seen.what.version })
                .collect(),
            shards: self.settings.shards,
            silent_after: self.settings.silent_after,
        }
    }

    /// Keeps waiting for the answer to the last request, which the table is still executing. Another request would wait
    /// for it in the table, and would be late as well. The answer extends the tenure from when the request was sent.
    pub fn wait(&mut self, now: Duration) {
        self.due = now + self.settings.patience() / 2;
    }

    /// Processes the answer to the last request.
    pub fn answered(&mut self, now: Duration, answer: Result<Standing, TableError>) -> Vec<News> {
        let Some(sent_at) = self.asked_at.take() else { return Vec::new() };
        let Ok(standing) = answer else {
            self.is_cut_off = true;
            self.due = now + self.settings.ask_every;
            return Vec::new();
        };
        if std::mem::take(&mut self.is_cut_off) {
            self.resumed_at = now;
        }
        if now < sent_at + self.settings.tenure() {
            self.renewed_at = sent_at;
        }
        let mut news = self.observe(now, &standing);
        self.note_held(sent_at, now, &standing.held, &mut news);
        self.give_away(now, &mut news);
        self.due = if self.is_hinted { now } else { self.next(sent_at, now) };
        news
    }

    /// Notes that the table may have changed: requests now, or right after the answer to the pending request, which may
    /// be older.
    pub fn hint(&mut self, now: Duration) {
        if self.asked_at.is_none() {
            self.due = now;
        } else {
            self.is_hinted = true;
        }
    }

    /// Notes that the shard is no longer served, so that other nodes may have it. Message delivery must have ended
    /// before.
    pub fn release(&mut self, shard: ShardId, now: Duration) {
        if let Some(own) = self.own.get_mut(&shard) {
            let to = match own {
                Own::HandingOver(to) => Some(to.clone()),
                Own::Held | Own::Releasing(_) => None,
            };
            *own = Own::Releasing(to);
            self.hint(now);
        }
    }

    /// Takes no more leases: the node is about to stop.
    pub fn stop_accepting(&mut self, now: Duration) {
        self.accepts = false;
        self.hint(now);
    }

    /// Whether the node has this shard and must release it before it stops.
    #[must_use]
    pub fn has(&self, shard: ShardId) -> bool {
        self.own.contains_key(&shard)
    }

    /// The other live nodes that would accept a shard.
    pub fn waiting(&self, now: Duration) -> impl Iterator<Item = &NodeName> {
        let accepting =
            self.others.values().filter(move |seen| seen.what.accepts && self.is_recent(seen.since, now));
        accepting.map(|seen| &seen.what.info.name)
    }

    fn is_releasing(&self, shard: &ShardId) -> bool {
        matches!(self.own.get(shard), Some(Own::Releasing(_)))
    }

    fn is_recent(&self, since: Duration, now: Duration) -> bool {
        now.saturating_sub(since) < self.settings.silent_after
    }

    fn takes_anything(&self) -> bool {
        self.accepts && !self.is_drained
    }

    /// The leases to take, in the observed versions.
    fn takes(&self, now: Duration) -> Vec<SeenLease> {
        if !self.takes_anything() {
            return Vec::new();
        }
        let placed = self.placed(now);
        let free = self.leases.iter().filter(|(shard, seen)| {
            !self.own.contains_key(shard)
                && !self.stands_back(shard, now)
                && self.may_take(placed.get(shard), seen, now)
        });
        free.map(|(shard, seen)| SeenLease { shard: *shard, version: seen.what.version }).collect()
    }

    /// The shards to take if they are free by then.
    fn takes_free(&self, now: Duration) -> Vec<ShardId> {
        if !self.takes_anything() {
            return Vec::new();
        }
        let placed = self.placed(now);
        let is_first = |shard: &ShardId| placed.get(shard).is_none_or(|node| *node == self.info.name);
        let others = (0..self.settings.shards).map(ShardId).filter(|shard| !self.own.contains_key(shard));
        others.filter(|shard| is_first(shard) && !self.stands_back(shard, now)).collect()
    }

    /// Whether another node must have its chance first: this node has released the lease, and another one waits.
    fn stands_back(&self, shard: &ShardId, now: Duration) -> bool {
        let is_new = |at: &Duration| now.saturating_sub(*at) < self.settings.silent_after;
        self.released_at.get(shard).is_some_and(is_new) && self.waiting(now).next().is_some()
    }

    /// Whether to take a lease that belongs to `belongs_to`. That node has precedence, but not for ever: it may see a
    /// different set of nodes.
    fn may_take(&self, belongs_to: Option<&NodeName>, seen: &Seen<Lease>, now: Duration) -> bool {
        let silent_for = now.saturating_sub(seen.since);
        let needed = match &seen.what.holder {
            Some((_, session)) if *session == self.info.session => return false,
            Some(_) if !self.could_be_renewed(silent_for, now) => return false,
            Some(_) => self.settings.silent_after,
            None => Duration::ZERO,
        };
        let wanted = seen.what.wanted.as_ref().filter(|wanted| self.waiting(now).any(|node| node == *wanted));
        let first = wanted.or(belongs_to);
        let is_first = first.is_none_or(|first| *first == self.info.name);
        let patience = if is_first { Duration::ZERO } else { self.settings.silent_after };
        silent_for >= needed + patience
    }

    /// Whether the holder of a lease that was silent for so long has had the time for two requests. If the table was
    /// unreachable, it was so for the holder as well, whose clients wait: a take-over would close their connections. After
    /// [`Settings::give_up_after`] the holder has closed them itself.
    fn could_be_renewed(&self, silent_for: Duration, now: Duration) -> bool {
        let is_back = !self.is_cut_off && now.saturating_sub(self.resumed_at) >= self.settings.tenure();
        is_back || silent_for >= self.settings.give_up_after
    }

    /// The node to which each shard belongs; nothing for shards that stay with their current holder.
    fn placed(&self, now: Duration) -> BTreeMap<ShardId, NodeName> {
        let others = self.waiting(now);
        let own = self.takes_anything().then_some(&self.info.name);
        match self.settings.placement {
            Placement::Kept => BTreeMap::new(),
            Placement::Spread => {
                placement::spread(self.settings.shards, &others.chain(own).collect::<BTreeSet<_>>())
            }
        }
    }

    /// Records the observed leases and nodes, and since when they are unchanged.
    fn observe(&mut self, now: Duration, standing: &Standing) -> Vec<News> {
        let mut news = Vec::new();
        let leases = standing.leases.iter().map(|lease| {
            let before = self.leases.get(&lease.shard).filter(|seen| seen.what.version == lease.version);
            let since = before.map_or(now, |seen| seen.since);
            (lease.shard, Seen { what: lease.clone(), since })
        });
        self.leases = leases.collect();
        for live in standing.nodes.iter().filter(|live| live.info.name == self.info.name) {
            if live.info.session == self.info.session {
                self.is_drained = live.drained;
            } else if self.was_answered {
                news.push(News::NameTaken(live.info.session));
            }
        }
        let others = standing.nodes.iter().filter(|live| live.info.name != self.info.name).map(|live| {
            let is_same = |seen: &&Seen<Live>| {
                (seen.what.beats, seen.what.info.session) == (live.beats, live.info.session)
            };
            let since = self.others.get(&live.info.name).filter(is_same).map_or(now, |seen| seen.since);
            (live.info.name.clone(), Seen { what: live.clone(), since })
        });
        self.others = others.collect();
        self.was_answered = true;
        news
    }

    /// Compares the leases held according to the table with the node's state. A lease held when the request was sent,
    /// or later, can't be taken by others before [`Settings::silent_after`] has passed since.
    fn note_held(&mut self, sent_at: Duration, now: Duration, held: &[ShardId], news: &mut Vec<News>) {
        let until = sent_at + self.settings.tenure();
        let gone: Vec<ShardId> = self.own.keys().filter(|shard| !held.contains(shard)).copied().collect();
        for shard in gone {
            let was_released = matches!(self.own.remove(&shard), Some(Own::Releasing(_)));
            if was_released {
                self.released_at.insert(shard, now);
            }
            news.push(if was_released { News::Released(shard) } else { News::Lost(shard) });
        }
        for shard in held {
            match self.own.get(shard) {
                Some(Own::Held | Own::HandingOver(_)) => news.push(News::Renewed(*shard, until)),
                Some(Own::Releasing(_)) => {}
                // After a pause of this process the answer may be old: the next one tells whether the lease is still held.
                None if self.takes_anything() && until <= now => {}
                None if self.takes_anything() => {
                    self.own.insert(*shard, Own::Held);
                    news.push(News::Gained(*shard, until));
                }
                // An earlier request to take it has arrived late.
                None => {
                    self.own.insert(*shard, Own::Releasing(None));
                }
            }
        }
    }

    /// Hands shards over to the nodes to which they belong, one after the other.
    fn give_away(&mut self, now: Duration, news: &mut Vec<News>) {
        if self.moved_at.is_some_and(|at| now.saturating_sub(at) < self.settings.move_every) {
            return;
        }
        let placed = self.placed(now);
        let to = |shard: &ShardId| match self.is_drained {
            true => placed.get(shard).or_else(|| self.waiting(now).next()),
            false => placed.get(shard).filter(|node| **node != self.info.name),
        };
        let held = self.own.iter().filter(|(_, own)| **own == Own::Held);
        let Some((shard, to)) = held.filter_map(|(shard, _)| Some((*shard, to(shard)?.clone()))).next()
        else {
            return;
        };
        self.moved_at = Some(now);
        self.own.insert(shard, Own::HandingOver(to.clone()));
        news.push(News::HandOver(shard, to));
    }

    /// When to send the next request after an answer.
    fn next(&self, sent_at: Duration, now: Duration) -> Duration {
        let takes = self.takes(now);
        let has_found = !takes.is_empty() && takes != self.asked_takes;
        if has_found || self.own.values().any(|own| matches!(own, Own::Releasing(_))) {
            return now;
        }
        let has_all = self.settings.shards as usize == self.own.len();
        let is_settled = has_all || !self.takes_anything();
        let pause = if is_settled { self.settings.renew_every } else { self.settings.ask_every };
        (sent_at + pause).max(now)
    }
}

#[cfg(test)]
mod tests;
