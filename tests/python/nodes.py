"""A broker as a node on PostgreSQL, with fixed ports, for tests of one or two of them."""

import json
import urllib.error
import urllib.request

import postgres
from daemon import Daemon

LEASE_SECS = 3

CONFIG = """
[storage]
engine = "postgres"
url = "{url}"
durability = "service"

[cluster]
node = "{node}"
advertise = "amqp://{node}"
lease_time = "PT{lease}S"

[metrics]
open_on_loopback = true

[[queues]]
name = "orders"

[[queues]]
name = "short"
lock_duration = "PT5S"
"""


class Node(Daemon):
    """A broker with fixed ports, which may stand by."""

    def __init__(self, url: str, name: str):
        self.amqp_port, self.http_port = postgres.free_port(), postgres.free_port()
        listen = (f"127.0.0.1:{self.amqp_port}", f"127.0.0.1:{self.http_port}")
        environment = {"PEEKLOCK_STORAGE_URL": url}
        super().__init__(CONFIG.format(url=url, node=name, lease=LEASE_SECS), listen=listen, environment=environment)
        self.name = name

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self) -> bool:
        return self.get("/health/ready")[0] == 200

    def is_standby(self) -> bool:
        status, text = self.get("/health/ready")
        return status == 503 and json.loads(text) == {"status": "standby"}
