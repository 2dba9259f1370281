"""`GET /health` answers like the emulator."""

import json
import urllib.request


def test_health(daemon):
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/health", timeout=10) as answer:
        assert answer.status == 200
        assert json.load(answer) == {"status": "healthy", "message": "Service is healthy."}
