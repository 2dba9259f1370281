"""examples/postgres/promote.sh on a primary with two standbys, and the documented way to add the old primary again."""

import os
import pathlib
import re
import subprocess

import postgres
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "postgres" / "promote.sh"
DOCUMENT = ROOT / "docs" / "cluster.md"


@pytest.fixture
def trio():
    found = postgres.require()
    trio = postgres.Trio()
    # A superuser over TCP, as the script's caller.
    trio.primary.sql("create role admin superuser login password 'not-a-secret'")
    trio.bin = found
    yield trio
    trio.close()


def environment(trio) -> dict:
    return os.environ | {"PGUSER": "admin", "PGPASSWORD": "not-a-secret", "PATH": f"{trio.bin}:{os.environ['PATH']}"}


def promote(trio, *standbys: postgres.Server) -> subprocess.CompletedProcess:
    places = [f"127.0.0.1:{server.port}" for server in standbys]
    return subprocess.run([SCRIPT, *places], env=environment(trio), capture_output=True, text=True, timeout=120)


def documented_rejoin(old: postgres.Server, primary: postgres.Server) -> str:
    """The commands of docs/cluster.md that make a standby of the old primary, for these servers instead of pg-1 and pg-2."""
    blocks = re.findall(r"```sh,ignore\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (commands,) = (block for block in blocks if "pg_rewind" in block)
    commands = commands.replace("-h pg-2 -U postgres", f"-h 127.0.0.1 -p {primary.port}")
    commands = commands.replace("host=pg-2 user=postgres", f"host=127.0.0.1 port={primary.port}")
    return commands.replace("pg-1", old.name)


def test_the_old_primary_is_added_again_as_documented(trio):
    old = trio.primary
    old.sql("create table t (n int)")
    old.kill()
    done = promote(trio, *trio.standbys)
    primary = next(server for server in trio.standbys if done.stdout.strip().endswith(f":{server.port}"))
    primary.sql("insert into t values (1)")
    commands = documented_rejoin(old, primary)
    variables = environment(trio) | {"PGDATA": str(old.data)}
    subprocess.run(["sh", "-ec", commands], check=True, env=variables, cwd=old.path, **postgres.account())
    old.start()
    follows = f"select state from pg_stat_replication where application_name = '{old.name}'"
    postgres.until(lambda: primary.sql(follows) == "streaming", "the old primary follows the new one")
    postgres.until(lambda: old.sql("select count(*) from t") == "1", "and has what it has")



def test_the_standby_with_most_of_the_log_becomes_the_primary_and_the_other_follows_it(trio):
    ahead, behind = trio.standbys
    trio.primary.sql("create table t (n int)")
    behind.kill()
    for number in range(20):
        trio.primary.sql(f"insert into t values ({number})")
    trio.primary.kill()
    behind.start()
    done = promote(trio, behind, ahead)
    assert (done.returncode, done.stdout.strip()) == (0, f"127.0.0.1:{ahead.port}"), done.stderr
    # A standby confirms again, so this is acknowledged.
    ahead.sql("insert into t values (20)")
    assert ahead.sql("select count(*) from t") == "21"
    postgres.until(lambda: behind.sql("select count(*) from t") == "21", "the other follows")
    again = promote(trio, ahead, behind)
    assert again.returncode == 1 and "is no standby" in again.stderr


def test_nothing_changes_while_a_standby_does_not_answer(trio):
    one, other = trio.standbys
    trio.primary.kill()
    other.kill()
    done = promote(trio, one, other)
    assert done.returncode == 1 and "does not answer; a commit may be there alone" in done.stderr
    assert one.sql("select pg_is_in_recovery()") == "t"
    assert str(trio.primary.port) in one.sql("show primary_conninfo")
