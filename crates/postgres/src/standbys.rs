//! What the primary tells about its standbys, for the operator who has to find the missing one.

use std::fmt;

use crate::failure::Failure;
use crate::options::Durability;
use crate::session::Session;

/// Other roles see that there are standbys, but not which.
const STANDBYS: &str = "select current_setting('synchronous_standby_names'),
  pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
  (select string_agg(format('%s (%s, %s)', application_name, state, sync_state), ', ' order by application_name)
    from pg_stat_replication),
  (select count(*) from pg_stat_replication where state = 'streaming' and sync_state in ('sync', 'quorum'))";

/// The standbys that must confirm commits, and those that are connected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Standbys {
    /// `synchronous_standby_names`.
    names: String,
    may_see: bool,
    connected: Option<String>,
    confirming: i64,
}

/// Why no standby confirms commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The setting was emptied: commits need no standby.
    NoneNamed,
    /// None of those named is connected: commits wait.
    NoneConfirms,
}

impl Standbys {
    pub(crate) async fn of(session: &Session) -> Result<Self, Failure> {
        let row = session.query_one(STANDBYS, &[]).await?;
        let (names, connected) = (row.try_get(0)?, row.try_get(2)?);
        Ok(Self { names, may_see: row.try_get(1)?, connected, confirming: row.try_get(3)? })
    }

    /// `None` if a standby confirms commits, as far as is known.
    pub(crate) fn mistake(&self, durability: Durability) -> Option<Mistake> {
        match self.names.trim() {
            "" => (durability == Durability::Standby).then_some(Mistake::NoneNamed),
            _ => (self.may_see && self.confirming == 0).then_some(Mistake::NoneConfirms),
        }
    }
}

impl fmt::Display for Standbys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "synchronous_standby_names = '{}'; connected: ", self.names)?;
        match &self.connected {
            _ if !self.may_see => formatter.write_str("not visible without pg_monitor"),
            None => formatter.write_str("none"),
            Some(connected) => formatter.write_str(connected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_confirming_standby_is_described() {
        let none = Standbys { names: "ANY 1 (s1, s2)".to_owned(), may_see: true, ..Standbys::default() };
        assert_eq!(none.to_string(), "synchronous_standby_names = 'ANY 1 (s1, s2)'; connected: none");
        assert_eq!(none.mistake(Durability::Standby), Some(Mistake::NoneConfirms));
        let hidden = Standbys { may_see: false, ..none.clone() };
        assert!(hidden.to_string().ends_with("not visible without pg_monitor"));
        assert_eq!(hidden.mistake(Durability::Standby), None);
        let one = Standbys { connected: Some("s1 (streaming, quorum)".to_owned()), confirming: 1, ..none };
        assert!(one.to_string().ends_with("connected: s1 (streaming, quorum)"));
        assert_eq!(one.mistake(Durability::Standby), None);
        let emptied = Standbys { names: String::new(), ..one };
        assert_eq!(emptied.mistake(Durability::Standby), Some(Mistake::NoneNamed));
        assert_eq!(emptied.mistake(Durability::Service), None);
    }
}
