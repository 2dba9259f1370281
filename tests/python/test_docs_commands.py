"""Every command of README.md, CONTRIBUTING.md, docs/ and examples/README.md runs, from the top of its page to the bottom, as do the
programs in Python and JavaScript. `documented_pages.py` has the preparation of each page, and the reason for each command that can't run."""

import pathlib

import pytest

import documented_pages
from documented import INTERPRETERS, ROOT, SHELLS, Block, Page, Run, Step, blocks, check_output, commands
from documented_pages import PAGES

#: See `conftest.py`.
pytestmark = pytest.mark.local_store("the commands start brokers of their own")


def pages() -> list[str]:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
    return [str(file.relative_to(ROOT)) for file in files]


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_run(name):
    Run(name, PAGES[name]).run()


def test_every_page_with_commands_or_programs_is_in_the_table():
    counted = (*SHELLS, *INTERPRETERS)
    there = {name for name in pages() if any(block.language in counted for block in blocks(name))}
    assert there == PAGES.keys()


def test_every_program_runs_or_is_a_piece_of_one(tmp_path):
    """A block in Python or JavaScript without a prelude can't run; testcontainers.md needs a container engine."""
    left = {
        (name, block.language)
        for name, page in PAGES.items()
        for block in blocks(name)
        if block.language in INTERPRETERS and block.language not in page.programs and block.language not in page.saves
    }
    assert left == {("docs/testcontainers.md", "python"), ("docs/testcontainers.md", "js")}


def test_most_commands_run_as_they_stand(tmp_path):
    ran = skipped = 0
    for name, page in PAGES.items():
        run = Run(name, page)
        (area := tmp_path / name.replace("/", "-")).mkdir()
        run.script(area)
        ran, skipped = ran + run.count, skipped + len(run.skipped)
        for command, reason in run.skipped:
            print(f"{name}: {command.splitlines()[0]}: {reason}")
    assert ran > 150 and skipped < 60, f"{ran} run, {skipped} skipped"


def test_commands_of_a_block_are_found_with_their_output():
    sh = Block("x.md", 7, "sh", "# no command\npeeklock a \\\n    --b\npeeklock c")
    assert [(one.place, one.text) for one in commands(sh)] == [("x.md:9", "peeklock a \\\n    --b"), ("x.md:11", "peeklock c")]
    console = Block("x.md", 1, "console", "$ ls \\\n    -l\ntotal …\n$ true\n$ cat\n…\nlast")
    assert [(one.text, one.shown) for one in commands(console)] == [("ls \\\n    -l", ["total …"]), ("true", []), ("cat", ["…", "last"])]


@pytest.mark.parametrize(
    ("output", "shown"),
    [("NAME   SIZE\na      1 B\n", ["NAME  SIZE", "a …"]), ("head\nx\n\ntail\n", ["head", "…", "tail"]), ("a\n", [])],
)
def test_an_output_of_the_shown_shape_passes(output, shown):
    check_output("here", output, shown, "")
    with pytest.raises(AssertionError):
        check_output("here", "other\n", [*shown, "more"], "")


@pytest.mark.parametrize("setup", ["peeklock peek nosuchqueue", "false | true", "serve false"])
def test_a_failing_command_fails_the_page(setup):
    page = Page(setup=f"{documented_pages.HAVE_BENCHES}\n{setup}", steps=PAGES["CONTRIBUTING.md"].steps)
    with pytest.raises(AssertionError, match="CONTRIBUTING.md"):
        Run("CONTRIBUTING.md", page).run()


def test_a_step_for_no_command_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="no command"):
        Run("docs/rest.md", Page(steps={"no such": Step()})).script(pathlib.Path(tmp_path))
