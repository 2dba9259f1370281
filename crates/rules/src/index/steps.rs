//! How many steps LIKE may take for one message, over all rules of a topic.

use crate::sql::LIKE_STEPS_MAX;

/// Steps for one message that rules share: the first to ask get what they need.
const SHARED: usize = 16 * LIKE_STEPS_MAX;
/// Steps that each rule has when others have taken those: enough to look through the longest property four times.
const OWN: usize = 16 << 10;

/// What is left for a message.
#[derive(Debug)]
pub(super) struct LikeSteps(usize);

impl Default for LikeSteps {
    fn default() -> Self {
        Self(SHARED)
    }
}

impl LikeSteps {
    /// Lends steps to a rule and takes back what it leaves.
    pub(super) fn lend<T>(&mut self, evaluate: impl FnOnce(&mut usize) -> T) -> T {
        let lent = self.0.clamp(OWN, LIKE_STEPS_MAX);
        let mut left = lent;
        let result = evaluate(&mut left);
        self.0 = self.0.saturating_sub(lent - left);
        result
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
    fn what_is_left_is_given_back() {
        let mut steps = LikeSteps::default();
        for _ in 0..100 {
            assert_eq!(steps.lend(|left| *left), LIKE_STEPS_MAX);
        }
    }
}
