//! The command line. One file per command.

mod cluster;
mod completions;
mod config_check;
mod config_convert;
#[cfg(test)]
mod documented;
mod health;
mod manual;
pub(crate) mod output;
mod remote;
mod store_backup;
mod store_check;
mod store_copy;
mod store_failure;
mod store_restore;
mod store_salvage;
mod table;
#[cfg(test)]
mod tests;
mod variables;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::ServeArgs;
use crate::exit::Exit;
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  peeklock                               a broker with a queue named `queue`, data in ./data
  peeklock --queue orders                the same with a queue named `orders`
  peeklock --topic news/all              the same with a topic `news` and its subscription `all`
  peeklock serve --config peeklock.toml  entities and limits from a file
  peeklock config check peeklock.toml    what would a start refuse?
  peeklock config convert Config.json    the emulator's file in TOML
  peeklock store check ./data            is the data directory intact? (broker stopped)
  peeklock store backup ./backup         back up ./data, while the broker runs or not
  peeklock store restore ./backup        make ./data of a backup
  peeklock store copy --from ./data --to postgres://peeklock@pg-1,pg-2/peeklock
                                         move to a database (broker stopped), or back
  peeklock cluster status                which node serves, and which stand by?
  peeklock store salvage ./data          keep the readable data of a damaged directory (broker stopped)
  peeklock health                        is the broker ready? (exit code 0 or 1)
  peeklock ls                            queues, topics and subscriptions with their messages
  peeklock send orders --body hello      send a message
  peeklock peek 'orders/$dlq'            show dead letters; `peeklock resubmit orders` sends them back
Each command has examples: `peeklock peek --help`. docs/cli.md in the source tree shows all of them.

Connect any Azure Service Bus SDK with
  Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;

Order of precedence: flag, variable PEEKLOCK_..., configuration file, default.

Exit codes:
  0  success
  1  failure at run time: address in use, failed write or device, too few file descriptors, second
     signal while draining; `health`: not healthy; of a command for messages and entities: no connection,
     or the broker refused
  2  wrong command line or configuration
  3  data directory damaged, locked by another process, or out of reach; a database that is damaged or has
     lost records";

/// A durable message broker that speaks Azure Service Bus.
///
/// Official SDKs connect unmodified, over AMQP 1.0 on port 5672. A message is accepted once it is on disk.
/// Without a command, `peeklock` serves.
#[derive(Debug, Parser)]
#[command(name = "peeklock", version, after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker (the default).
    #[command(after_long_help = EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Work with configuration files.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, back up, restore and move what brokers store.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Show the nodes of a cluster, and make one hand over.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Check whether a running broker is ready; exit code 0 if it is, 1 if not.
    Health(health::HealthArgs),
    #[command(flatten)]
    Remote(remote::RemoteCommand),
    /// Print the completions for a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
    /// Write the manual pages into a directory.
    #[command(hide = true)]
    Man(manual::ManArgs),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Read a configuration file and report every mistake with its line; exit code 0 or 2.
    Check(config_check::CheckArgs),
    /// Print the queues, topics and subscriptions of the Service Bus emulator's Config.json in TOML; exit code 0 or 2.
    Convert(config_convert::ConvertArgs),
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read every record of a data directory and verify its checksums; changes nothing. Exit code 0, 1 or 3.
    Check(store_check::CheckArgs),
    /// Repair a damaged data directory so that a broker starts on it: readable data is kept, damaged files are moved
    /// to DIR/quarantine. Exit code 0, 1 or 3.
    Salvage(store_salvage::SalvageArgs),
    /// Write a backup of a data directory, also while a broker uses it; the backup has everything that was accepted
    /// before. Exit code 0, 1 or 3.
    Backup(store_backup::BackupArgs),
    /// Copy everything into another store, on this machine or in a database, while no broker uses either; every value
    /// is read back and compared. Exit code 0, 1, 2 or 3.
    Copy(Box<store_copy::CopyArgs>),
    /// Verify a backup and make a data directory of it. Exit code 0, 1 or 3.
    Restore(store_restore::RestoreArgs),
}

/// Runs the command of this process.
pub(crate) fn run() -> Exit {
    let cli = Cli::parse();
    let unknown = variables::unknown(&Cli::command());
    if !unknown.misspelt.is_empty() {
        unknown.misspelt.iter().for_each(output::error);
        return Exit::Usage;
    }
    let exit = match cli.command {
        None => return serve::run(cli.serve, &unknown.others),
        Some(Command::Serve(args)) => return serve::run(*args, &unknown.others),
        Some(Command::Config(ConfigCommand::Check(args))) => config_check::run(&args),
        Some(Command::Config(ConfigCommand::Convert(args))) => config_convert::run(&args),
        Some(Command::Store(StoreCommand::Check(args))) => store_check::run(&args),
        Some(Command::Store(StoreCommand::Salvage(args))) => store_salvage::run(&args),
        Some(Command::Store(StoreCommand::Backup(args))) => store_backup::run(&args),
        Some(Command::Store(StoreCommand::Restore(args))) => store_restore::run(&args),
        Some(Command::Store(StoreCommand::Copy(args))) => store_copy::run(&args),
        Some(Command::Cluster(command)) => cluster::run(&command),
        Some(Command::Health(args)) => health::run(&args),
        Some(Command::Remote(command)) => remote::run(command),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => manual::run(&args),
    };
    output::exit_code(exit)
}
