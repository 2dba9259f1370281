//! Two endpoints against each other, and hostile bytes against one.

mod connection;
mod deliveries;
mod ends;
mod flow;
mod hostile;
mod links;
mod pair;
mod peer;
mod resumption;
mod sizes;
mod skip;
mod transactions;
mod unauthenticated;
