//! Limit of the steps of LIKE for one message, over all rules of a topic.

use crate::sql::LIKE_STEPS_MAX;

/// Steps for one message that are shared by all rules: rules evaluated first get what they need.
const SHARED: usize = 16 * LIKE_STEPS_MAX;
/// Steps guaranteed to each rule after that: enough to scan the longest property four times.
const OWN: usize = 16 << 10;

/// Steps of LIKE that take about as long as a step of a program.
pub(super) const PER_PROGRAM_STEP: usize = 16;

/// Bytes of properties that LIKE scans in about the time of a step of a program.
pub(super) const PROPERTY_BYTES_PER_STEP: usize = 256;

/// Steps of LIKE for a message.
#[derive(Debug)]
pub(super) struct LikeSteps {
    shared_left: usize,
    used: usize,
}

impl Default for LikeSteps {
    fn default() -> Self {
        Self { shared_left: SHARED, used: 0 }
    }
}

impl LikeSteps {
    /// Lends steps to a rule and takes back the unused ones.
    pub(super) fn lend<T>(&mut self, evaluate: impl FnOnce(&mut usize) -> T) -> T {
        let lent = self.shared_left.clamp(OWN, LIKE_STEPS_MAX);
        let mut left = lent;
        let result = evaluate(&mut left);
        self.shared_left = self.shared_left.saturating_sub(lent - left);
        self.used = self.used.saturating_add(lent - left);
        result
    }

    /// Steps used so far.
    pub(super) const fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_rules_take_a_bounded_number_of_steps_and_leave_each_other_some() {
        let (mut steps, mut taken) = (LikeSteps::default(), 0);
        for _ in 0..2_000 {
            taken += steps.lend(std::mem::take);
        }
        assert_eq!(taken, SHARED + (2_000 - SHARED / LIKE_STEPS_MAX) * OWN);
        assert_eq!(steps.lend(|left| *left), OWN);
    }

    #[test]
    fn unused_steps_are_given_back() {
        let mut steps = LikeSteps::default();
        for _ in 0..100 {
            assert_eq!(steps.lend(|left| *left), LIKE_STEPS_MAX);
        }
    }
}
