//! The daemon as a process: start, health, exit codes, signals, precedence.

#[cfg(test)]
mod backup;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod emulator;
#[cfg(test)]
mod entities;
#[cfg(test)]
mod life;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod network;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod supervisor;
#[cfg(test)]
mod travel;
