//! Comparison of two daemons that run alternately on the same work: differences beyond noise.

use crate::figures::{Better, Series};

/// The result of comparing a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Better,
    Worse,
    /// The values of the two overlap.
    Same,
    /// Too few runs.
    Unknown,
}

impl Verdict {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Same => "same",
            Self::Unknown => "too few runs",
        }
    }
}

/// Fewest runs of each for a result: with four and four, complete separation happens by chance in 3 %.
const RUNS_MIN: usize = 4;

/// Whether every value of `now` is on one side of every value of `before`.
pub(crate) fn verdict(before: &Series, now: &Series) -> Verdict {
    if before.values.len().min(now.values.len()) < RUNS_MIN {
        return Verdict::Unknown;
    }
    let is_higher = now.least() > before.most();
    let is_lower = now.most() < before.least();
    match (is_higher, is_lower, now.better) {
        (true, _, Better::Higher) | (_, true, Better::Lower) => Verdict::Better,
        (true, _, Better::Lower) | (_, true, Better::Higher) => Verdict::Worse,
        _ => Verdict::Same,
    }
}
