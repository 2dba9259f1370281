//! One queue as a pure state machine.
