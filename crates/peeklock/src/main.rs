//! The Peeklock broker.
fn main() {}
