"""The examples of the README run as they stand."""

import datetime
import json
import re
import subprocess
import sys
import tempfile
import urllib.request

from daemon import ROOT, Daemon

#: A fenced block of Python in the README that makes a client.
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


#: What it says to send to the clock, and where.
CLOCK = re.compile(r"^curl -d '([^']+)' http://localhost:5300(\S+)$", re.MULTILINE)


def example() -> str:
    found = [code for code in EXAMPLE.findall((ROOT / "README.md").read_text()) if "ServiceBusClient" in code]
    assert found, "README.md has no Python example that makes a ServiceBusClient"
    return found[0]


def queue_of(code: str) -> str:
    return re.search(r"get_queue_(?:sender|receiver)\(\s*(?:queue_name=)?[\"']([^\"']+)", code)[1]


def test_the_example_sends_and_receives():
    code = example()
    daemon = Daemon(f'[[queues]]\nname = "{queue_of(code)}"\n').start()
    try:
        # Only the port differs from a reader's machine.
        ported = re.sub(r"localhost(:\d+)?", f"localhost:{daemon.amqp_port}", code)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(ported)
            script.flush()
            run = subprocess.run([sys.executable, script.name], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        assert run.stdout.strip(), "the example shows nothing"
    finally:
        daemon.close()


def test_the_clock_moves_as_described(traveller):
    body, path = CLOCK.search((ROOT / "README.md").read_text()).groups()
    before = traveller.now()
    # As `curl -d` and `urllib` alike: without saying that it is JSON.
    url = f"http://127.0.0.1:{traveller.http_port}{path}"
    with urllib.request.urlopen(url, body.encode(), timeout=30) as answer:
        now = datetime.datetime.fromisoformat(json.load(answer)["now"].replace("Z", "+00:00"))
    assert now >= before + datetime.timedelta(hours=1)
