"""The Python example of the README runs as it stands."""

import re
import subprocess
import sys
import tempfile

from daemon import ROOT, Daemon

#: A fenced block of Python in the README that makes a client.
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
