//! A replicated log in memory and an environment without threads, for tests: every history is a function of its
//! choices.

mod engine;
mod node;
mod stepper;
mod table;

pub use engine::{RESERVE_BYTES, SimulatedEngine};
pub use stepper::Stepper;
pub use table::Footprint;
