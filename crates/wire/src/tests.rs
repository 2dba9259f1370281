//! The codec against itself, the specification's encodings, and hostile input.

mod arbitrary;
mod differential;
mod frames;
mod golden;
mod hostile;
mod maps;
mod messages;
mod performatives;
mod summaries;
mod transactions;
mod values;
