//! The daemon as a process: start, health, exit codes, signals, precedence.

mod broker;
mod commands;
mod life;
