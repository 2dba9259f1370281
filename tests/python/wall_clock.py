"""The wall clock of a daemon's machine, wrong as long as a test wants it, by libfaketime (Debian: `libfaketime`)."""

import glob
import os
import pathlib

from daemon import ROOT, binary

LIBRARIES = (os.environ.get("FAKETIME_LIBRARY", ""), "/usr/lib/*/faketime/libfaketimeMT.so.1")


class WallClock:
    """A file with the offset of the clock, which a daemon with `environment` reads at each look at its clock."""

    def __init__(self, directory: pathlib.Path, off: str):
        self._file = directory / "off"
        self.set_off(off)

    def set_off(self, off: str):
        partial = self._file.with_suffix(".partial")
        partial.write_text(off + "\n")
        partial.rename(self._file)

    @property
    def environment(self) -> dict:
        variables = {"LD_PRELOAD": _library(), "FAKETIME_TIMESTAMP_FILE": str(self._file)}
        return variables | {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _library() -> str | None:
    return next((path for library in LIBRARIES for path in glob.glob(library)), None)


def program() -> pathlib.Path | None:
    """The daemon under test, or the debug build if that one is static: libraries can't be put before its own functions."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return next(filter(_is_dynamic, (binary(), target / "debug" / "peeklock")), None)


def _is_dynamic(file: pathlib.Path) -> bool:
    if not file.exists():
        return False
    with file.open("rb") as beginning:
        # The path of the loader.
        return b"/ld-linux" in beginning.read(4096)


def missing() -> str | None:
    """Why no clock can be set here."""
    if not _library():
        return "libfaketime is not installed"
    return None if program() else "the daemon is static, and there is no debug build"
