"""Runs the commands of a page of the documentation as a reader would, from top to bottom, in one directory.

The blocks to run are fenced as `sh` or `console`, and programs as `python`. In `console` blocks lines that begin with `$ ` are
commands, and the lines below are their output, in which `…` matches anything. A page runs in a network namespace of its own, where
the documented ports are free; where that is not possible (unprivileged containers), pages run in turn in the machine's network.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from daemon import ROOT, binary

SHELLS = ("sh", "console")
BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
#: Seconds for one page on a busy machine.
PAGE_SECS = 100


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str


@dataclass
class Command:
    """A command with its continuation lines, and the output that the page shows."""

    place: str
    text: str
    shown: list[str] = field(default_factory=list)


@dataclass
class Step:
    """How the test treats a command, in shell code: `run` replaces the command, `skip` leaves it out."""

    before: str = ""
    run: str = ""
    after: str = ""
    #: Why it does not run unchanged.
    skip: str = ""
    #: For a command that runs until Ctrl-C: a pattern of its output after which it is interrupted.
    until: str = ""
    prints: str = ""


@dataclass
class Page:
    """How a page is run: keyed by the beginnings of its commands, and of its programs' first lines."""

    setup: str = ""
    steps: dict[str, Step] = field(default_factory=dict)
    #: By language: code before a block that makes it a complete program, and code after it that uses it.
    programs: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: By language: the file that the reader saves a block as.
    saves: dict[str, str] = field(default_factory=dict)
    after: str = ""
    #: Paths and addresses that differ in the test.
    places: dict[str, str] = field(default_factory=dict)
    #: Files of the repository that the page's reader has.
    files: tuple[str, ...] = ()


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    found = []
    for match in BLOCK.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        found.append(Block(page, text[: match.start()].count("\n") + 1, match["language"].strip(), "\n".join(lines)))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block in a shell's language. Loops and the like are in one line."""
    found, continued = [], False
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        is_command = block.language == "sh" or line.startswith("$ ")
        text = line.removeprefix("$ ") if block.language == "console" else line
        if continued:
            found[-1].text += "\n" + text
        elif is_command and text.strip() and not text.startswith("#"):
            found.append(Command(f"{block.page}:{number}", text))
        elif block.language == "console" and found:
            found[-1].shown.append(line)
        continued = (continued or is_command) and text.endswith("\\")
    return found


#: Starts a broker in the foreground: the reader leaves it running and continues in another window.
SERVES = re.compile(r"^(?:[A-Z_]+=\S+ )*peeklock(?: serve\b| --(?!version|help)|$)(?!.*&$)", re.DOTALL)

PRELUDE = r"""
set -euo pipefail
step() { printf '%s\n' "$*" >"$AREA/step"; }
leave() {
    local status=$?
    [ -z "${served:-}" ] || kill -KILL "$served" 2>/dev/null || true
    [ -z "${broker:-}" ] || kill -KILL "$broker" 2>/dev/null || true
    exit "$status"
}
trap leave EXIT
# A broker in a window of its own; the one that was there before is stopped by Ctrl-C.
serve() {
    if [ -n "${served:-}" ]; then
        kill -TERM "$served" && wait "$served"
    fi
    local ready="$AREA/ready.json" argument previous=""
    for argument in "$@"; do
        [ "$previous" != --ready-file ] || ready="$argument"
        previous="$argument"
    done
    rm -f "$ready"
    env PEEKLOCK_READY_FILE="$ready" "$@" >"$AREA/served" 2>&1 &
    served=$!
    until [ -s "$ready" ]; do
        kill -0 "$served" 2>/dev/null || { cat "$AREA/served" >&2; return 1; }
        sleep 0.02
    done
    cat "$AREA/served"
}
eventually() { until "$@" >/dev/null 2>&1; do sleep 0.05; done; }
# Runs a command until its output has the pattern, and ends it by Ctrl-C.
until_printed() {
    local pattern="$1" output="$AREA/watched" status=0
    shift
    : >"$output"
    interruptible "$@" >"$output" 2>&1 &
    local watched=$!
    until grep -q -E -e "$pattern" "$output"; do
        kill -0 "$watched" 2>/dev/null || { cat "$output" >&2; return 1; }
        sleep 0.05
    done
    kill -INT "$watched"
    wait "$watched" || status=$?
    cat "$output"
    # What others' programs exit with then is theirs.
    [ "$1" != peeklock ] || [ "$status" = 0 ] || [ "$status" = 130 ]
}
"""

#: Commands that a reader has and the test replaces: `pip` without a network, `sudo` as the user that runs the test.
TOOLS = {
    "pip": 'exec "$PYTHON" -m pip --quiet --disable-pip-version-check "$1" --no-index "${@:2}"',
    "python": 'exec "$PYTHON" "$@"',
    "celery": 'exec "$PYTHON" -m celery "$@"',
    "sudo": 'exec "$@"',
    # Ctrl-C reaches foreground processes; a shell's background jobs ignore it.
    "interruptible": 'exec "$PYTHON" -c "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);'
    ' os.execvp(sys.argv[1], sys.argv[1:])" "$@"',
}


NODE_MODULES = ROOT / "tests" / "js" / "node_modules"
#: By language: the program, the end of a file's name, and why it can't run here.
INTERPRETERS = {
    "python": ("python", ".py", ""),
    "js": ("node", ".mjs", "" if shutil.which("node") and NODE_MODULES.exists() else "tests/js has no packages installed"),
}


def step_of(page: Page, first: str, used: set[str]) -> Step:
    matching = [start for start in page.steps if first.startswith(start)]
    start = max(matching, key=len, default=None)
    used.update(matching)
    return page.steps[start] if start is not None else Step()


class Run:
    """A page's script, and its results."""

    def __init__(self, name: str, page: Page):
        self.name, self.page, self.used = name, page, set()
        self.expected: list[tuple[str, pathlib.Path, list[str], str]] = []
        self.skipped: list[tuple[str, str]] = []
        self.count = 0

    def script(self, area: pathlib.Path) -> str:
        parts = [PRELUDE, self.page.setup]
        for block in blocks(self.name):
            if block.language in SHELLS:
                parts += [self._command(command, area) for command in commands(block)]
            elif block.language in self.page.saves:
                parts.append(self._save(block, area))
            elif block.language in self.page.programs:
                parts.append(self._program(block, area))
        assert self.used == set(self.page.steps), f"steps for no command of {self.name}: {set(self.page.steps) - self.used}"
        return "\n".join([*parts, 'step "after the last command"', self.page.after])

    def _command(self, command: Command, area: pathlib.Path) -> str:
        step = step_of(self.page, command.text, self.used)
        if step.skip:
            self.skipped.append((command.text, step.skip))
        text = command.text
        for documented, here in self.page.places.items():
            text = text.replace(documented, here)
        return self._step(command, step, area, step.run or ("" if step.skip else text))

    def _save(self, block: Block, area: pathlib.Path) -> str:
        file = area / f"saved-{block.line}"
        file.write_text(block.text + "\n")
        return f'cp "{file}" {self.page.saves[block.language]}'

    def _program(self, block: Block, area: pathlib.Path) -> str:
        step = step_of(self.page, block.text, self.used)
        program, suffix, missing = INTERPRETERS[block.language]
        if step.skip or missing:
            self.skipped.append((block.text.splitlines()[0], step.skip or missing))
            return ""
        before, behind = self.page.programs[block.language]
        file = area / f"program-{block.line}{suffix}"
        file.write_text(f"{before}\n{block.text}\n{behind}\n")
        return self._step(Command(f"{block.page}:{block.line}", ""), step, area, f'{program} "{file}"')

    def _step(self, command: Command, step: Step, area: pathlib.Path, text: str) -> str:
        if not text:
            return f"{step.before}\n{step.after}"
        self.count += 1
        output = area / f"output-{self.count}"
        self.expected.append((command.place, output, command.shown, step.prints))
        if step.until:
            text = f"until_printed '{step.until}' {text}"
        elif SERVES.match(text):
            text = f"serve {text}"
        # No standard input.
        parts = [step.before, f"step {command.place}", f"{{ {text}\n}} </dev/null >{output}", step.after]
        return "\n".join(part for part in parts if part)

    def run(self):
        with tempfile.TemporaryDirectory(prefix="peeklock-page-") as directory, network() as isolated:
            area = pathlib.Path(directory)
            work = prepare(area, self.page)
            script = area / "script"
            script.write_text(self.script(area))
            ended, printed = execute([*isolated, "bash", script], work, environment(area))
            place = (area / "step").read_text().strip() if (area / "step").exists() else self.name
            assert ended == 0, f"{place}: {ended or 'no end'}\n{outputs(area)}{printed}"
            for place, output, shown, pattern in self.expected:
                check_output(place, output.read_text(), shown, pattern)


def execute(command: list, work: pathlib.Path, variables: dict[str, str]) -> tuple[int | None, str]:
    """The exit code, or none after a time-out, and the output. All processes that it started are ended."""
    process = subprocess.Popen(
        command, cwd=work, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=PAGE_SECS)
        return process.returncode, printed
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def outputs(area: pathlib.Path) -> str:
    """The last outputs, for a failure's report."""
    files = sorted(area.glob("output-*"), key=lambda file: file.stat().st_mtime)[-2:]
    return "".join(file.read_text() for file in [*files, *area.glob("served"), *area.glob("watched")])[-4000:]


def shown_line(line: str) -> str:
    """A pattern for a line, regardless of the width of its columns."""
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(line.strip()).replace("…", ".*"))


def check_output(place: str, output: str, shown: list[str], pattern: str):
    if shown:
        lines = [r"(?:.*\n)*?" if line.strip() == "…" else shown_line(line) + r"\n" for line in shown]
        expected = "".join(lines)
        found = "\n".join(line.strip() for line in output.splitlines()) + "\n"
        assert re.search(expected, found), f"{place} shows\n" + "\n".join(shown) + f"\nand the command prints\n{output}"
    assert re.search(pattern, output), f"{place}: no {pattern!r} in\n{output}"


def prepare(area: pathlib.Path, page: Page) -> pathlib.Path:
    """The reader's directory and programs."""
    for name in ("bin", "work", "home", "site"):
        (area / name).mkdir()
    (area / "bin" / "peeklock").symlink_to(binary())
    if NODE_MODULES.exists():
        (area / "node_modules").symlink_to(NODE_MODULES)
    for name, text in TOOLS.items():
        tool = area / "bin" / name
        tool.write_text(f"#!/usr/bin/env bash\n{text}\n")
        tool.chmod(0o755)
    for name in page.files:
        (area / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (area / "work" / name).symlink_to(ROOT / name)
    return area / "work"


def environment(area: pathlib.Path) -> dict[str, str]:
    foreign = ("PEEKLOCK_", "SERVICEBUS_", "SSL_CERT_", "REQUESTS_CA_", "CURL_CA_", "NODE_EXTRA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {
        "AREA": str(area),
        "HOME": str(area / "home"),
        "PATH": f"{area / 'bin'}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(area / "site"),
        "REPOSITORY": str(ROOT),
    }


#: Loopback is down in a new network.
UP = (
    "import fcntl, os, socket, struct, sys; probe = socket.socket();"
    " fcntl.ioctl(probe, 0x8914, struct.pack('16sh', b'lo', 1)); probe.close(); os.execvp(sys.argv[1], sys.argv[1:])"
)


def isolation() -> list[str] | None:
    """The command that runs another in a network of its own, or none."""
    ways = [["unshare", "--net"], ["unshare", "--net", "--map-root-user"]]
    for way in ways if shutil.which("unshare") else []:
        command = [*way, sys.executable, "-c", UP]
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


@contextlib.contextmanager
def network():
    isolated = isolation()
    if isolated:
        yield isolated
        return
    with open(pathlib.Path(tempfile.gettempdir()) / "peeklock-documented-ports", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield []
