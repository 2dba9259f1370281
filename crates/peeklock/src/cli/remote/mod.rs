//! Commands for a running namespace: most use its public protocols, so that they work against Azure as well;
//! `connections`, `locks`, `top`, `clock` and `tail --log` use the management API that only this broker has.

mod address;
mod apply;
mod clock;
mod connections;
mod declaring;
mod doctor;
mod entities;
mod export;
mod failure;
mod locks;
mod ls;
mod message_args;
mod message_json;
mod moving;
mod peek;
mod perf;
mod plan;
mod progress;
mod properties;
mod purge;
mod receive;
mod rows;
mod rule;
mod rule_test;
mod scan;
mod selection;
mod send;
mod sessions;
mod show;
mod source;
mod tail;
mod target;
mod text;
mod token;
mod top;
mod walk;

use clap::Subcommand;

use self::failure::Failure;
use self::target::ConnectionArgs;
use super::output;
use crate::exit::Exit;

/// Commands for messages and entities.
#[derive(Debug, Subcommand)]
pub(super) enum RemoteCommand {
    /// Send messages to a queue or topic.
    #[command(after_help = send::EXAMPLES)]
    Send(Box<send::SendArgs>),
    /// Browse messages without removing them.
    #[command(after_help = peek::EXAMPLES)]
    Peek(Box<peek::PeekArgs>),
    /// Receive messages: complete, abandon, defer, dead-letter or delete them.
    #[command(after_help = receive::EXAMPLES)]
    Receive(Box<receive::ReceiveArgs>),
    /// Send dead letters back to their queue or topic.
    #[command(after_help = moving::RESUBMIT_EXAMPLES)]
    Resubmit(Box<moving::ResubmitArgs>),
    /// Move messages to another queue or topic.
    #[command(after_help = moving::MOVE_EXAMPLES)]
    Move(Box<moving::MoveArgs>),
    /// Make deferred messages available again.
    #[command(after_help = moving::UNDEFER_EXAMPLES)]
    Undefer(Box<moving::UndeferArgs>),
    /// Delete messages.
    #[command(after_help = purge::EXAMPLES)]
    Purge(Box<purge::PurgeArgs>),
    /// List sessions, show or remove their state.
    #[command(subcommand, after_help = sessions::EXAMPLES)]
    Sessions(sessions::SessionsCommand),
    /// Follow messages as they arrive, without removing them, or the broker's log.
    #[command(after_help = tail::EXAMPLES)]
    Tail(Box<tail::TailArgs>),
    /// Show message locks with their holders, and release them.
    #[command(subcommand, after_help = locks::EXAMPLES)]
    Locks(locks::LocksCommand),
    /// List queues, topics and subscriptions.
    #[command(after_help = ls::EXAMPLES)]
    Ls(ls::LsArgs),
    /// Show an entity: its options, its messages, the rules of a subscription.
    Show(show::ShowArgs),
    /// Create a queue, topic or subscription.
    #[command(after_help = entities::CREATE_EXAMPLES)]
    Create(entities::CreateArgs),
    /// Change options of a queue, topic or subscription.
    #[command(after_help = entities::UPDATE_EXAMPLES)]
    Update(entities::UpdateArgs),
    /// Delete a queue, topic or subscription with its messages.
    #[command(after_help = entities::DELETE_EXAMPLES)]
    Delete(entities::DeleteArgs),
    /// List, add and remove the rules of a subscription.
    #[command(subcommand, after_help = rule::EXAMPLES)]
    Rule(rule::RuleCommand),
    /// Create and change the entities of a namespace as a file declares them.
    #[command(after_help = apply::EXAMPLES)]
    Apply(apply::ApplyArgs),
    /// Print the entities of a namespace in TOML.
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Watch counts and rates of entities, the busiest first.
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArgs),
    /// List, show and close AMQP connections.
    #[command(subcommand, after_help = connections::EXAMPLES)]
    Connections(connections::ConnectionsCommand),
    /// Show the broker's clock, or move it forward in tests.
    #[command(after_help = clock::EXAMPLES)]
    Clock(clock::ClockArgs),
    /// Measure how fast messages are sent or received over one connection.
    #[command(subcommand, after_help = perf::EXAMPLES)]
    Perf(perf::PerfCommand),
    /// Check the connection to a namespace: name, port, TLS, credentials.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Print a shared access signature, for HTTP clients.
    #[command(after_help = token::EXAMPLES)]
    Token(token::TokenArgs),
}

/// Runs a command to its end.
pub(super) fn run(command: RemoteCommand) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(error);
            return Exit::Failure;
        }
    };
    match runtime.block_on(perform(command)) {
        Ok(()) => Exit::Success,
        Err(failure) => failure.report(),
    }
}

async fn perform(command: RemoteCommand) -> Result<(), Failure> {
    match command {
        RemoteCommand::Send(args) => send::run(*args).await,
        RemoteCommand::Peek(args) => peek::run(*args).await,
        RemoteCommand::Receive(args) => receive::run(*args).await,
        RemoteCommand::Resubmit(args) => moving::resubmit(*args).await,
        RemoteCommand::Move(args) => moving::move_messages(*args).await,
        RemoteCommand::Undefer(args) => moving::undefer(*args).await,
        RemoteCommand::Purge(args) => purge::run(*args).await,
        RemoteCommand::Sessions(command) => sessions::run(command).await,
        RemoteCommand::Tail(args) => tail::run(*args).await,
        RemoteCommand::Locks(command) => locks::run(command).await,
        RemoteCommand::Top(args) => top::run(args).await,
        RemoteCommand::Connections(command) => connections::run(command).await,
        RemoteCommand::Clock(args) => clock::run(args).await,
        RemoteCommand::Ls(args) => ls::run(args).await,
        RemoteCommand::Show(args) => show::run(args).await,
        RemoteCommand::Create(args) => entities::create(args).await,
        RemoteCommand::Update(args) => entities::update(args).await,
        RemoteCommand::Delete(args) => entities::delete(args).await,
        RemoteCommand::Rule(command) => rule::run(command).await,
        RemoteCommand::Apply(args) => apply::run(args).await,
        RemoteCommand::Export(args) => export::run(args).await,
        RemoteCommand::Perf(command) => perf::run(command).await,
        RemoteCommand::Doctor(args) => doctor::run(args).await,
        RemoteCommand::Token(args) => token::run(&args),
    }
}

/// The failure for a missing entity.
fn missing(path: &str) -> Failure {
    Failure::new(format!("{path} does not exist"))
        .advise("`peeklock ls` lists the queues, topics and subscriptions; `topic/Subscriptions/name` is a subscription")
}
