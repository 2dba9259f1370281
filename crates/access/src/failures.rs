//! How long answers to failed attempts to authenticate are delayed, by the address that they come from.
//!
//! Only the answers to failures wait: a client with a good credential is let in at once, also from an address that others
//! guess from (NAT).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Addresses that are remembered; more share one count.
const ADDRESSES_MAX: usize = 4_096;
/// Failures of an address that are answered at once: mistakes.
const FREE: u32 = 5;
/// The first delay, in milliseconds; each failure more doubles it.
const FIRST_DELAY_MS: u64 = 100;
/// The longest delay, in milliseconds: clients do not give up before.
const DELAY_MS_MAX: u64 = 5_000;
/// After this long without a failure one is forgotten, in milliseconds.
const FORGET_MS: u64 = 10_000;
/// Failures counted at most, so that an address is as good as new some minutes later.
const COUNT_MAX: u32 = FREE + 16;

/// Failures by address; any clock that never goes back will do.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<Option<IpAddr>, Count>>);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    failures: u32,
    last_ms: u64,
}

impl Failures {
    /// Counts a failure and says for how long its answer waits, in milliseconds.
    pub fn delay_ms(&self, address: IpAddr, now_ms: u64) -> u64 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(network(address));
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&key) {
            counts.retain(|_, count| count.now(now_ms) > 0);
            if counts.len() >= ADDRESSES_MAX {
                key = None;
            }
        }
        let count = counts.entry(key).or_default();
        count.failures = count.now(now_ms).saturating_add(1).min(COUNT_MAX);
        count.last_ms = now_ms;
        match count.failures.checked_sub(FREE + 1) {
            None => 0,
            Some(doublings) => (FIRST_DELAY_MS << doublings.min(16)).min(DELAY_MS_MAX),
        }
    }
}

impl Count {
    /// What is left of the count.
    fn now(self, now_ms: u64) -> u32 {
        let forgotten = now_ms.saturating_sub(self.last_ms) / FORGET_MS;
        self.failures.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

/// Addresses that count as one: a customer's IPv6 network is a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn delays_grow_to_a_maximum_and_are_forgotten() {
        let failures = Failures::default();
        let delays: Vec<u64> = (0..13).map(|_| failures.delay_ms(address(1), 0)).collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(failures.delay_ms(address(2), 0), 0, "another address has made no mistake");
        assert_eq!(failures.delay_ms(address(1), 1_000_000), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let failures = Failures::default();
        for host in 0..5 {
            assert_eq!(failures.delay_ms(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into(), 0), 0);
        }
        assert_eq!(failures.delay_ms("2001:db8::ffff".parse().unwrap(), 0), 100);
        assert_eq!(failures.delay_ms("2001:db8:0:1::1".parse().unwrap(), 0), 0);
    }

    #[test]
    fn many_addresses_cost_bounded_memory() {
        let failures = Failures::default();
        for number in 0..100_000 {
            failures.delay_ms(address(number), 0);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert!(failures.delay_ms(address(200_000), 0) > 0, "those beyond share one count");
    }
}
