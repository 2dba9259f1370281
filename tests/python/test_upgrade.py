"""The present version opens data directories of earlier versions, with all their contents."""

import pytest
import upgrade
from daemon import Daemon

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("files of earlier versions")

FIXTURES = sorted(upgrade.FIXTURES.glob("broker-*"))


@pytest.fixture
def later():
    daemon = Daemon(upgrade.UNDECLARED)
    yield daemon
    assert daemon.panics() == []
    daemon.close()


def test_there_are_fixtures():
    assert FIXTURES


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "no_hints"])
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_an_earlier_versions_directory_has_everything(fixture, hints, later):
    data = later.path / "data"
    upgrade.unpack(fixture, data)
    if not hints:
        for hint in data.glob("*.hint"):
            hint.unlink()
    later.start()
    upgrade.verify(later)


def test_a_store_written_today_reads_the_same(later):
    earlier = Daemon(upgrade.CONFIG).start()
    upgrade.fill(earlier)
    earlier.kill()
    (earlier.path / "data").rename(later.path / "data")
    earlier.close()
    later.start()
    upgrade.verify(later)
