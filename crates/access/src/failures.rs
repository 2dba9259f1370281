//! Delays of authentication attempts, by the address they come from: guessing is slow, even over many concurrent
//! connections.
//!
//! After some failures, the attempts from an address are serialized, including valid ones: each waits for those before
//! it, so that a guess that is aborted early reveals nothing. No attempt waits longer than [`WAIT_MS_MAX`], which
//! bounds the effect of an attack on clients with valid credentials behind the same address (NAT).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Most addresses remembered; further ones share one count.
const ADDRESSES_MAX: usize = 4_096;
/// Failures of an address, and of an authenticated connection, that are answered without delay, since they may be
/// mistakes.
const FREE: u32 = 5;
/// The first delay per attempt, in milliseconds; each further failure doubles it.
const FIRST_TURN_MS: u64 = 100;
/// Longest wait of an attempt, and longest delay per attempt, in milliseconds; clients wait longer before they give up.
const WAIT_MS_MAX: u64 = 5_000;
/// Time without a failure after which one failure is forgotten, in milliseconds.
const FORGET_MS: u64 = 10_000;
/// Most failures counted, so that an address has no delays again some minutes later.
const COUNT_MAX: u32 = FREE + 16;

/// Failures by address. The clock can be any that never goes back.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<Option<IpAddr>, Count>>);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    failures: u32,
    last_ms: u64,
    /// The end of the last wait that was assigned.
    last_turn_ms: u64,
}

impl Failures {
    /// Registers an attempt; returns the time in milliseconds that it must wait. Its outcome must not be visible
    /// before.
    pub fn wait_ms(&self, address: IpAddr, now_ms: u64) -> u64 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(network(address));
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&key) {
            key = None;
        }
        let Some(count) = counts.get_mut(&key) else { return 0 };
        let turn_ms = count.turn_ms(now_ms);
        if turn_ms == 0 {
            return 0;
        }
        let due_ms = count.last_turn_ms.max(now_ms).saturating_add(turn_ms);
        count.last_turn_ms = due_ms.min(now_ms.saturating_add(WAIT_MS_MAX));
        count.last_turn_ms - now_ms
    }

    /// Registers a failed attempt.
    pub fn failed(&self, address: IpAddr, now_ms: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(network(address));
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&key) {
            counts.retain(|_, count| count.now(now_ms) > 0);
            if counts.len() >= ADDRESSES_MAX {
                key = None;
            }
        }
        counts.entry(key).or_default().add(now_ms);
    }
}

/// The attempts of one connection.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Count>);

impl Attempts {
    /// As [`Failures::wait_ms`]. An authenticated connection does not wait unless it has failures of its own: other
    /// clients of its address must not delay the renewal of its tokens. A valid token is no licence to guess, though.
    pub fn wait_ms(&self, failures: &Failures, address: IpAddr, is_authenticated: bool, now_ms: u64) -> u64 {
        if is_authenticated && self.0.lock().unwrap_or_else(PoisonError::into_inner).now(now_ms) < FREE {
            return 0;
        }
        failures.wait_ms(address, now_ms)
    }

    /// As [`Failures::failed`].
    pub fn failed(&self, failures: &Failures, address: IpAddr, now_ms: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(now_ms);
        failures.failed(address, now_ms);
    }
}

impl Count {
    fn add(&mut self, now_ms: u64) {
        self.failures = self.now(now_ms).saturating_add(1).min(COUNT_MAX);
        self.last_ms = now_ms;
    }

    /// The current count, after forgetting.
    fn now(self, now_ms: u64) -> u32 {
        let forgotten = now_ms.saturating_sub(self.last_ms) / FORGET_MS;
        self.failures.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    /// The current delay per attempt, in milliseconds; 0 without delays.
    fn turn_ms(self, now_ms: u64) -> u64 {
        match self.now(now_ms).checked_sub(FREE) {
            None => 0,
            Some(doublings) => (FIRST_TURN_MS << doublings.min(16)).min(WAIT_MS_MAX),
        }
    }
}

/// The network of an address, counted as one: a customer's IPv6 network is a /64.
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

    /// An attempt that fails after its wait; returns the wait.
    fn guess(failures: &Failures, address: IpAddr, now_ms: u64) -> u64 {
        let wait_ms = failures.wait_ms(address, now_ms);
        failures.failed(address, now_ms + wait_ms);
        wait_ms
    }

    #[test]
    fn waits_grow_to_a_maximum_and_are_forgotten() {
        let failures = Failures::default();
        let mut now_ms = 0;
        let waits = (0..13).map(|_| {
            let wait_ms = guess(&failures, address(1), now_ms);
            now_ms += wait_ms;
            wait_ms
        });
        assert_eq!(
            waits.collect::<Vec<_>>(),
            [0, 0, 0, 0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
        );
        assert_eq!(failures.wait_ms(address(2), 0), 0, "another address has made no mistake");
        assert_eq!(failures.wait_ms(address(1), 1_000_000), 0);
    }

    #[test]
    fn simultaneous_attempts_wait_for_each_other_up_to_the_maximum() {
        let failures = Failures::default();
        (0..=FREE).for_each(|_| failures.failed(address(1), 0));
        let waits: Vec<u64> = (0..100).map(|_| failures.wait_ms(address(1), 1_000)).collect();
        assert_eq!(waits[..4], [200, 400, 600, 800]);
        assert!(waits.iter().all(|wait_ms| *wait_ms <= WAIT_MS_MAX) && waits[99] == WAIT_MS_MAX);
    }

    /// In virtual time: each of many connections guesses again as soon as its last guess was answered.
    #[test]
    fn many_connections_of_an_address_guess_slowly() {
        const CONNECTIONS: u64 = 64;
        const MINUTE_MS: u64 = 60_000;
        let failures = Failures::default();
        let mut due: std::collections::BTreeSet<(u64, u64)> = (0..CONNECTIONS).map(|one| (0, one)).collect();
        let (mut guesses, mut longest_ms) = (0, 0);
        while let Some((now_ms, connection)) = due.pop_first().filter(|(now_ms, _)| *now_ms < MINUTE_MS) {
            failures.failed(address(1), now_ms);
            guesses += 1;
            let wait_ms = failures.wait_ms(address(1), now_ms);
            longest_ms = longest_ms.max(wait_ms);
            due.insert((now_ms + wait_ms.max(1), connection));
        }
        let most = (MINUTE_MS / WAIT_MS_MAX + 2) * CONNECTIONS;
        assert!(guesses <= most, "{guesses} guesses in a minute");
        assert_eq!(longest_ms, WAIT_MS_MAX, "a good credential waits no longer either");
    }

    #[test]
    fn an_authenticated_connection_waits_for_its_own_failures_only() {
        let failures = Failures::default();
        let guesser = Attempts::default();
        let waits = (0..8).map(|now_ms| {
            let wait_ms = guesser.wait_ms(&failures, address(1), true, now_ms);
            guesser.failed(&failures, address(1), now_ms);
            wait_ms > 0
        });
        assert_eq!(waits.collect::<Vec<_>>(), [false, false, false, false, false, true, true, true]);
        assert_eq!(guesser.wait_ms(&failures, address(1), true, 60_000), 0, "forgotten");
        let neighbour = Attempts::default();
        assert_eq!(neighbour.wait_ms(&failures, address(1), true, 8), 0);
        assert!(neighbour.wait_ms(&failures, address(1), false, 8) > 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let failures = Failures::default();
        for host in 0..5 {
            assert_eq!(guess(&failures, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into(), 0), 0);
        }
        assert_eq!(failures.wait_ms("2001:db8::ffff".parse().unwrap(), 0), 100);
        assert_eq!(failures.wait_ms("2001:db8:0:1::1".parse().unwrap(), 0), 0);
    }

    #[test]
    fn many_addresses_cost_bounded_memory() {
        let failures = Failures::default();
        for number in 0..100_000 {
            guess(&failures, address(number), 0);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert!(failures.wait_ms(address(200_000), 0) > 0, "those beyond share one count");
    }
}
