"""examples/postgres/promote.sh on a primary with two standbys."""

import os
import pathlib
import subprocess

import postgres
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "postgres" / "promote.sh"


@pytest.fixture
def trio():
    found = postgres.require()
    trio = postgres.Trio()
    # A superuser over TCP, as the script's caller.
    trio.primary.sql("create role admin superuser login password 'not-a-secret'")
    trio.bin = found
    yield trio
    trio.close()


def promote(trio, *standbys: postgres.Server) -> subprocess.CompletedProcess:
    environment = os.environ | {"PGUSER": "admin", "PGPASSWORD": "not-a-secret", "PATH": f"{trio.bin}:{os.environ['PATH']}"}
    places = [f"127.0.0.1:{server.port}" for server in standbys]
    return subprocess.run([SCRIPT, *places], env=environment, capture_output=True, text=True, timeout=120)


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
