"""The servers that tests of the replicated store use behave as those of a careful operator."""

import contextlib
import threading

import pytest

import postgres


@pytest.fixture(scope="module")
def trio():
    postgres.require()
    trio = postgres.Trio()
    yield trio
    trio.close()


@pytest.fixture
def database(trio):
    name = trio.create_database()
    trio.primary.sql("create table numbers (n int)", name)
    return name


def numbers(server, database) -> str | None:
    """The content of the table; None as long as a standby does not have it."""
    with contextlib.suppress(postgres.Refused):
        return server.sql("select string_agg(n::text, ',' order by n) from numbers", database)


def test_an_acknowledged_commit_survives_kill_and_promotion(trio, database):
    trio.primary.sql("insert into numbers values (1)", database)
    old = trio.primary
    old.kill()
    assert trio.promote() is not old
    trio.primary.sql("insert into numbers values (2)", database)
    assert numbers(trio.primary, database) == "1,2"
    trio.rejoin(old)
    trio.wait_for_standbys(2)
    assert old.sql("select pg_is_in_recovery()") == "t"
    postgres.until(lambda: numbers(old, database) == "1,2", "the old primary has what the new one has")


def test_an_old_primary_acknowledges_nothing(trio, database):
    """And a cancelled wait for a standby looks like a success."""
    old = trio.primary
    trio.promote()
    stale = threading.Thread(target=old.sql, args=("insert into numbers values (3)", database))
    stale.start()
    postgres.until(old.cancel_waits, "the stale write waits for a standby")
    stale.join()
    assert numbers(old, database) == "3"
    assert numbers(trio.primary, database) == ""
    trio.rejoin(old)
    trio.wait_for_standbys(2)
    postgres.until(lambda: numbers(old, database) == "", "the old primary has lost the stale write")


def test_one_standby_is_enough(trio, database):
    paused, _ = trio.standbys
    paused.pause()
    trio.primary.sql("insert into numbers values (4)", database)
    paused.resume()
    postgres.until(lambda: numbers(paused, database) == "4", "the standby catches up")


def test_brokers_connect_with_their_password(trio, database):
    told = trio.primary.run("psql", "-XqAt", "-d", trio.url(database), "-c", "select current_user, pg_is_in_recovery()")
    assert told.strip() == "peeklock|f"
