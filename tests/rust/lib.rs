//! Whole-broker suites: what only shows when the rooms are joined.
