//! Transactions: each point that the live tests of the .NET client ask of a broker, by its number, and what goes wrong.

mod acting;
mod control;
mod entities;
mod forgotten;
mod limits;
mod management;
mod order;
mod via;
mod work;
