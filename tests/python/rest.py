"""The messaging API over HTTP, one line per operation, with the standard library only."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import time
import urllib.parse
from typing import NamedTuple

from daemon import Subscription

BATCH = "application/vnd.microsoft.servicebus.json"
DEAD_LETTERS = "/$deadletterqueue"


def signature(resource: str, rule: str = "RootManageSharedAccessKey", key: str = "SAS_KEY_VALUE") -> str:
    """A shared access signature."""
    resource = urllib.parse.quote_plus(resource)
    expiry = int(time.time()) + 3600
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    sig = urllib.parse.quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={sig}&se={expiry}&skn={rule}"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def broker(self) -> dict:
        """The broker properties of the message."""
        return json.loads(self.headers["BrokerProperties"])

    @property
    def location(self) -> str:
        return self.headers["Location"]


class Rest:
    """Requests to one daemon, each on a connection of its own."""

    def __init__(self, daemon):
        self.port = daemon.http_port

    def request(self, method: str, path: str, body=None, headers: dict = {}, timeout: float = 60) -> Answer:
        headers = {"Authorization": signature(f"http://localhost:{self.port}/")} | headers
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)) as connection:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def send(self, entity: str, body=b"", broker: dict | None = None, headers: dict = {}) -> Answer:
        if broker is not None:
            headers = headers | {"BrokerProperties": json.dumps(broker)}
        return self.request("POST", f"/{entity}/messages", body, headers)

    def send_batch(self, entity: str, entries) -> Answer:
        return self.request("POST", f"/{entity}/messages", json.dumps(entries), {"Content-Type": BATCH})

    def peek_lock(self, entity, timeout: int = 20, under: str = "") -> Answer:
        return self.request("POST", f"/{path(entity)}{under}/messages/head?timeout={timeout}")

    def take(self, entity, timeout: int = 20, under: str = "") -> Answer:
        """Receives and deletes."""
        return self.request("DELETE", f"/{path(entity)}{under}/messages/head?timeout={timeout}")

    def at(self, method: str, location: str) -> Answer:
        """Completes (DELETE), unlocks (PUT) or renews (POST) at the address that came with the message."""
        url = urllib.parse.urlsplit(location)
        assert (url.scheme, url.port) == ("http", self.port), location
        return self.request(method, url.path)

    def socket(self, method: str, path: str, headers: dict = {}) -> socket.socket:
        """A request whose answer is not read yet; the caller sends its body."""
        headers = {"Host": "localhost", "Authorization": signature("http://localhost/")} | headers
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return peer


def path(entity) -> str:
    return f"{entity.topic}/Subscriptions/{entity.name}" if isinstance(entity, Subscription) else entity
