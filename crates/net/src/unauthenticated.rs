//! Limits unauthenticated connections: at the maximum, the oldest is evicted.
//!
//! A peer that opens many connections and sends nothing evicts its own, not those of others: a new connection is never
//! refused, and that of a normal client is authenticated soon.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, pending};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum numbers of unauthenticated connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnauthenticatedLimits {
    /// In total, at least 1.
    pub total_max: usize,
    /// From one address (one /64 of IPv6), at least 1.
    pub per_address_max: usize,
}

/// All unauthenticated connections of a broker; cheap to clone.
#[derive(Debug, Clone)]
pub struct UnauthenticatedConnections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: UnauthenticatedLimits,
    present: Mutex<Present>,
}

/// Numbers increase with time: the first is the oldest.
#[derive(Debug, Default)]
struct Present {
    next: u64,
    all: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

impl UnauthenticatedConnections {
    /// No connections yet.
    #[must_use]
    pub fn new(limits: UnauthenticatedLimits) -> Self {
        Self(Arc::new(Shared { limits, present: Mutex::default() }))
    }

    /// Counts a new connection; beyond a limit, the oldest of the same address or of all is evicted.
    #[must_use]
    pub fn arrive(&self, address: IpAddr) -> UnauthenticatedConnection {
        let address = network_of(address);
        let (tell, told) = oneshot::channel();
        let mut present = self.present();
        let of_address = present.by_address.get(&address);
        let oldest = of_address.filter(|all| all.len() >= self.0.limits.per_address_max);
        let evicted = oldest.and_then(|all| all.first().copied()).or_else(|| {
            let full = present.all.len() >= self.0.limits.total_max;
            present.all.keys().next().copied().filter(|_| full)
        });
        if let Some(number) = evicted {
            present.evict(number);
        }
        let number = present.next;
        present.next += 1;
        present.all.insert(number, (address, tell));
        present.by_address.entry(address).or_default().insert(number);
        UnauthenticatedConnection {
            pass: Pass { connections: self.clone(), number },
            told: Some(told),
            is_evicted: false,
        }
    }

    /// Evicts the oldest, if there is any: for use when another resource runs short.
    pub fn evict_oldest(&self) {
        let mut present = self.present();
        if let Some(number) = present.all.keys().next().copied() {
            present.evict(number);
        }
    }

    /// Number of unauthenticated connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.present().all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    fn evict(&mut self, number: u64) {
        if let Some(tell) = self.remove(number) {
            // A connection that no longer listens has already ended.
            let _ = tell.send(());
        }
    }

    fn remove(&mut self, number: u64) -> Option<oneshot::Sender<()>> {
        let (address, tell) = self.all.remove(&number)?;
        if let Some(numbers) = self.by_address.get_mut(&address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some(tell)
    }
}

/// The network whose connections count together: the holder of one IPv6 address usually has 2⁶⁴ of them.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
        }
        address => address,
    }
}

/// One connection's entry among the unauthenticated ones; removed when dropped.
#[derive(Debug)]
pub struct UnauthenticatedConnection {
    pass: Pass,
    told: Option<oneshot::Receiver<()>>,
    is_evicted: bool,
}

impl UnauthenticatedConnection {
    /// A handle that marks this connection as authenticated; may be passed on.
    #[must_use]
    pub fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Resolves when the connection is evicted; never, once it is authenticated. For one phase of a connection's life:
    /// an eviction between two calls is not lost.
    pub async fn evicted_meanwhile(&mut self) {
        if let Some(told) = &mut self.told {
            self.is_evicted |= told.await.is_ok();
            self.told = None;
        }
        if !self.is_evicted {
            pending::<()>().await;
        }
    }

    /// [`Self::evicted_meanwhile`] for the rest of the connection's life. Only one caller is notified.
    pub fn evicted(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (told, is_evicted) = (self.told.take(), self.is_evicted);
        async move {
            let told = async { told.ok_or(())?.await.map_err(drop) };
            if !is_evicted && told.await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.pass.admit();
    }
}

/// Marks a connection as authenticated when used.
#[derive(Debug, Clone)]
pub struct Pass {
    connections: UnauthenticatedConnections,
    number: u64,
}

impl Pass {
    /// Marks the connection as authenticated, so that it is not evicted any more. Further calls have no effect.
    pub fn admit(&self) {
        self.connections.present().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn connections(total_max: usize, per_address_max: usize) -> UnauthenticatedConnections {
        UnauthenticatedConnections::new(UnauthenticatedLimits { total_max, per_address_max })
    }

    /// Whether each has been evicted.
    async fn told(connections: &mut [UnauthenticatedConnection]) -> Vec<bool> {
        let mut told = Vec::new();
        for connection in connections {
            told.push(tokio::select! {
                biased;
                () = connection.evicted_meanwhile() => true,
                () = async {} => false,
            });
        }
        told
    }

    #[tokio::test]
    async fn the_oldest_of_an_address_goes() {
        let all = connections(100, 2);
        let mut present = vec![all.arrive(address(1)), all.arrive(address(2)), all.arrive(address(1))];
        assert_eq!(told(&mut present).await, [false, false, false]);
        present.push(all.arrive(address(1)));
        assert_eq!(told(&mut present).await, [true, false, false, false]);
        assert_eq!(all.len(), 3);
    }

    #[tokio::test]
    async fn the_oldest_of_all_is_closed_when_there_are_too_many_in_total() {
        let all = connections(3, 2);
        let mut present: Vec<UnauthenticatedConnection> =
            (1..=4).map(|last| all.arrive(address(last))).collect();
        assert_eq!(told(&mut present).await, [true, false, false, false]);
        assert_eq!(all.len(), 3);
    }

    #[tokio::test]
    async fn the_oldest_goes_when_another_resource_runs_short() {
        let all = connections(100, 100);
        all.evict_oldest();
        let mut present = vec![all.arrive(address(1)), all.arrive(address(2)), all.arrive(address(1))];
        present[0].pass().admit();
        all.evict_oldest();
        assert_eq!(told(&mut present).await, [false, true, false]);
    }

    #[tokio::test]
    async fn who_is_admitted_or_gone_does_not_count() {
        let all = connections(100, 2);
        let mut present = vec![all.arrive(address(1)), all.arrive(address(1))];
        present[0].pass().admit();
        present[0].pass().admit();
        present.push(all.arrive(address(1)));
        assert_eq!(told(&mut present).await, [false, false, false]);
        drop(present.pop());
        assert_eq!(all.len(), 1);
        drop(present);
        assert!(all.is_empty() && all.present().by_address.is_empty());
    }

    #[test]
    fn one_network_counts_as_one_address() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("::1"), of("::2"));
    }
}
