#!/bin/sh
# Promotes the standby with the longest log, and makes the other standbys follow it.
#
#   promote.sh HOST:PORT HOST:PORT ...
#
# Name every standby in synchronous_standby_names. With 'ANY 1 (...)', an acknowledged commit is on the disk of an unknown one of
# them: so all must answer, otherwise nothing is changed and the exit code is 1. Once no standby follows the old primary, none
# confirms its commits; only then are the logs compared.
#
# psql connects as PGUSER, a superuser, with PGPASSWORD or ~/.pgpass. Each standby's own primary_conninfo is kept, with another
# host and port. Add the old primary again as a standby by pg_rewind or pg_basebackup: docs/cluster.md.
set -eu

# For a standby that does not answer at all.
export PGCONNECT_TIMEOUT="${PGCONNECT_TIMEOUT:-5}"
wait_secs=30

fail() {
    echo "promote.sh: $*" >&2
    exit 1
}

# ask HOST:PORT SQL
ask() {
    psql -XqAt -v ON_ERROR_STOP=1 -h "${1%:*}" -p "${1##*:}" -d postgres -c "$2"
}

# until_true HOST:PORT SQL WHAT
until_true() {
    left=$((wait_secs * 5))
    while [ "$(ask "$1" "$2")" != t ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "$1: $3"
        sleep 0.2
    done
}

[ $# -gt 0 ] || fail "name every standby as HOST:PORT"
for standby in "$@"; do
    case $standby in *:*) ;; *) fail "$standby: write HOST:PORT" ;; esac
    recovers=$(ask "$standby" "select pg_is_in_recovery()") || fail "$standby does not answer; a commit may be there alone"
    [ "$recovers" = t ] || fail "$standby is no standby; is it the primary already?"
done

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for standby in "$@"; do
    ask "$standby" "show primary_conninfo" >"$directory/$standby"
    ask "$standby" "alter system set primary_conninfo = ''"
    ask "$standby" "select pg_reload_conf()" >/dev/null
done
for standby in "$@"; do
    until_true "$standby" "select count(*) = 0 from pg_stat_wal_receiver" "still listens to the old primary"
done

# A standby that was restarted and never reached the primary reports its log only as far as it has replayed it.
received() {
    ask "$1" "select greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'"
}

chosen=
most=-1
for standby in "$@"; do
    received=
    while [ "$received" != "$(received "$standby")" ]; do
        received=$(received "$standby")
        sleep 1
    done
    if [ "$received" -gt "$most" ]; then
        chosen=$standby
        most=$received
    fi
done
ask "$chosen" "select pg_promote(true, $wait_secs)" >/dev/null
until_true "$chosen" "select not pg_is_in_recovery()" "is not promoted"

for standby in "$@"; do
    [ "$standby" != "$chosen" ] || continue
    # If a keyword occurs twice, the last one is used.
    conninfo="$(cat "$directory/$standby") host=${chosen%:*} port=${chosen##*:}"
    quoted=$(printf %s "$conninfo" | sed "s/'/''/g")
    ask "$standby" "alter system set primary_conninfo = '$quoted'"
    ask "$standby" "select pg_reload_conf()" >/dev/null
done
echo "$chosen"
