//! Settings of a session, and rejection of server settings that would lose data.

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::failure::Failure;
use crate::options::Durability;

/// The oldest supported version of PostgreSQL: 14.
const VERSION_MIN: u32 = 140_000;

/// One message: queries the server's settings, then changes those of this session.
///
/// * `synchronous_commit`: `remote_apply` waits for more than `on` and is kept.
/// * `client_min_messages`: the only sign of a commit without its standby is a warning; debug output would flood.
/// * No time-outs: a statement ended by the server is one more case of doubt.
/// * `client_connection_check_interval`: a session that waits for a lock notices that its client is gone.
/// * Index plans only, whatever the role has disabled: plans are made once, possibly while the tables are still empty.
fn setup(schema: &str) -> String {
    format!(
        r#"select pg_is_in_recovery() as is_standby, current_setting('server_version_num') as version,
  current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_standby_names') as standby_names,
  current_setting('transaction_read_only') as read_only;
select set_config('client_min_messages', 'warning', false), set_config('synchronous_commit',
  case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, false),
  set_config('search_path', '"{schema}"', false), set_config('default_transaction_isolation', 'read committed', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),
  set_config('enable_bitmapscan', 'off', false), set_config('enable_hashjoin', 'off', false),
  set_config('enable_mergejoin', 'off', false), set_config('enable_indexscan', 'on', false),
  set_config('enable_indexonlyscan', 'on', false), set_config('enable_nestloop', 'on', false),
  set_config('max_parallel_workers_per_gather', '0', false), set_config('jit', 'off', false),
  set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '3', false),
  set_config('tcp_keepalives_count', '3', false);
select set_config(name, case name when 'client_connection_check_interval' then '2s' else '0' end, false)
  from pg_settings where name in ('statement_timeout', 'lock_timeout', 'idle_session_timeout',
  'idle_in_transaction_session_timeout', 'transaction_timeout', 'client_connection_check_interval')"#
    )
}

/// Sets up a session, and refuses a server that is not a primary or could lose acknowledged data.
///
/// # Errors
/// [`Failure::Unfit`] naming each setting and the required value; others of the connection.
pub(crate) async fn prepare(client: &Client, durability: Durability, schema: &str) -> Result<(), Failure> {
    let answer = client.simple_query(&setup(schema)).await?;
    let mut rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let unread = || Failure::Unfit { reason: "the server does not say how it is set up".to_owned() };
    let found = Found::read(rows.next().ok_or_else(unread)?).ok_or_else(unread)?;
    let mistakes = found.mistakes(durability);
    if mistakes.is_empty() { Ok(()) } else { Err(Failure::Unfit { reason: mistakes.join("; ") }) }
}

/// The settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    is_standby: bool,
    is_read_only: bool,
    version: u32,
    fsync: bool,
    full_page_writes: bool,
    standby_names: String,
}

impl Found {
    fn read(row: &SimpleQueryRow) -> Option<Self> {
        let is = |name: &str, yes: &str| row.try_get(name).ok().flatten().map(|value| value == yes);
        Some(Self {
            is_standby: is("is_standby", "t")?,
            is_read_only: is("read_only", "on")?,
            version: row.try_get("version").ok().flatten()?.parse().ok()?,
            fsync: is("fsync", "on")?,
            full_page_writes: is("full_page_writes", "on")?,
            standby_names: row.try_get("standby_names").ok().flatten()?.to_owned(),
        })
    }

    fn mistakes(&self, durability: Durability) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.is_standby {
            return vec!["it is a standby".to_owned()];
        }
        if self.version < VERSION_MIN {
            let (major, least) = (self.version / 10_000, VERSION_MIN / 10_000);
            mistakes.push(format!("it runs PostgreSQL {major}, and {least} or later is needed"));
        }
        if self.is_read_only {
            mistakes.push("it is read-only: set default_transaction_read_only = off".to_owned());
        }
        if !self.fsync {
            mistakes.push(
                "fsync is off, so commits are lost with the power: set fsync = on in postgresql.conf"
                    .to_owned(),
            );
        }
        if !self.full_page_writes {
            mistakes.push(
                "full_page_writes is off, so a crash can damage pages: set full_page_writes = on in postgresql.conf"
                    .to_owned(),
            );
        }
        if durability == Durability::Standby && self.standby_names.trim().is_empty() {
            mistakes.push(
                "synchronous_standby_names is empty, so commits are lost with the machine: name the standbys, as in \
                 synchronous_standby_names = 'ANY 1 (*)', or set durability = \"service\" if the provider's \
                 storage replicates"
                    .to_owned(),
            );
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Found {
        Found {
            is_standby: false,
            is_read_only: false,
            version: 150_004,
            fsync: true,
            full_page_writes: true,
            standby_names: "ANY 1 (*)".to_owned(),
        }
    }

    fn mistakes(found: &Found) -> String {
        found.mistakes(Durability::Standby).join("; ")
    }

    #[test]
    fn every_setting_that_loses_data_is_named() {
        assert_eq!(mistakes(&good()), "");
        assert!(mistakes(&Found { fsync: false, ..good() }).contains("fsync = on"));
        assert!(mistakes(&Found { full_page_writes: false, ..good() }).contains("full_page_writes = on"));
        let lonely = Found { standby_names: " ".to_owned(), ..good() };
        assert!(mistakes(&lonely).contains("synchronous_standby_names"));
        assert_eq!(lonely.mistakes(Durability::Service), Vec::<String>::new());
        assert!(mistakes(&Found { is_read_only: true, ..good() }).contains("default_transaction_read_only"));
        assert!(mistakes(&Found { version: 130_011, ..good() }).contains("PostgreSQL 13"));
        assert_eq!(mistakes(&Found { is_standby: true, fsync: false, ..good() }), "it is a standby");
    }
}
