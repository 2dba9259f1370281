"""Web pages in a real browser: pages of other sites can't send, list, delete or move the clock; a listed origin can.

Needs Debian's chromium, or the browser in PEEKLOCK_CHROMIUM; skipped if there is none.
"""

import contextlib
import http.server
import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from daemon import Daemon
from rest import Rest, signature

#: Time-out for a browser on a busy machine to start and run a page.
PATIENCE_SECS = 120

PAGE = """<!doctype html><title>page</title><script>
const broker = "BROKER", token = "TOKEN";
async function outcome(promise) {
  try { const answer = await promise; return answer.type === "opaque" ? "opaque" : answer.status; }
  catch (error) { return "blocked"; }
}
function amqp() {
  return new Promise(done => {
    const socket = new WebSocket(broker.replace("http", "ws") + "/$servicebus/websocket", ["AMQPWSB10"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(new Uint8Array([65, 77, 81, 80, 3, 1, 0, 0]));
    socket.onmessage = message => { done(new TextDecoder().decode(message.data.slice(0, 4))); socket.close(); };
    socket.onerror = () => done("blocked");
  });
}
async function run() {
  const authorized = {Authorization: token}, text = {"Content-Type": "text/plain"};
  const ask = (method, path, headers, body) => outcome(fetch(broker + path, {method, headers, body}));
  const simple = (path, body) => outcome(fetch(broker + path, {method: "POST", mode: "no-cors", headers: text, body}));
  const results = {
    amqp: await amqp(),
    simple_send: await simple("/victim/messages", "simple"),
    send: await ask("POST", "/victim/messages", authorized, "with a token"),
    list: await ask("GET", "/$Resources/Queues", authorized),
    clock: await simple("/development/clock", '{"advance":"PT1H"}'),
    remove: await ask("DELETE", "/doomed", authorized),
  };
  await fetch("/result", {method: "POST", body: JSON.stringify(results)});
}
run();
</script>"""


def chromium() -> str:
    found = os.environ.get("PEEKLOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("NOT TESTED: no browser; install chromium or set PEEKLOCK_CHROMIUM")
    return found


class Site:
    """A site with one page; all other requests go to the broker, as after DNS rebinding."""

    def __init__(self):
        site, self.results, self.broker_port = self, queue.Queue(), None

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/page":
                    return self._answer(site.page.encode(), "text/html")
                return self._forward()

            def do_POST(self):
                if self.path == "/result":
                    site.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                    return self._answer(b"", "text/plain")
                return self._forward()

            do_DELETE = do_OPTIONS = do_PUT = lambda self: self._forward()

            def _answer(self, body, kind):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.close_connection = True
                with contextlib.closing(socket.create_connection(("127.0.0.1", site.broker_port))) as broker:
                    head = f"{self.requestline}\r\n{self.headers.as_string().replace(chr(10), chr(13) + chr(10))}"
                    broker.sendall(head.replace("keep-alive", "close").encode() + body)
                    while part := broker.recv(65536):
                        self.wfile.write(part)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site():
    with contextlib.closing(Site()) as site:
        yield site


def browse(site: Site, daemon: Daemon, name: str, broker: str) -> dict:
    """The results of requests of a page with the given host name to the broker at the given address."""
    token = signature(f"http://127.0.0.1:{daemon.http_port}/")
    site.page = PAGE.replace("BROKER", broker).replace("TOKEN", token)
    site.broker_port = daemon.http_port
    with tempfile.TemporaryDirectory(prefix="peeklock-chromium-", ignore_cleanup_errors=True) as profile:
        command = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command += [f"--user-data-dir={profile}", "--host-resolver-rules=MAP *.example 127.0.0.1", "--no-proxy-server"]
        command += ["--disable-background-networking", "--disable-component-update", f"http://{name}:{site.port}/page"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return site.results.get(timeout=PATIENCE_SECS)
        finally:
            browser.kill()
            browser.wait()


def config(site: Site, required: bool, origins: list[str] = []) -> str:
    network = f"[network]\nallowed_origins = {json.dumps(origins)}\n" if origins else ""
    return (
        f"{network}[authorization]\nrequired = {json.dumps(required)}\n"
        '[[queues]]\nname = "victim"\n[[queues]]\nname = "doomed"\n'
    )


def state(daemon: Daemon) -> tuple:
    rest = Rest(daemon)
    count = int(rest.request("GET", "/victim").body.split(b"ActiveMessageCount>")[1].split(b"<")[0])
    # Without an entity of that name the answer is an empty feed.
    return count, b"<QueueDescription" in rest.request("GET", "/doomed").body


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("name", ["localhost", "evil.example"])
def test_a_foreign_page_can_not_send_list_delete_or_move_the_clock(site, name, required):
    with contextlib.closing(Daemon(config(site, required), time_travel=True).start()) as daemon:
        before = daemon.now()
        results = browse(site, daemon, name, f"http://127.0.0.1:{daemon.http_port}")
        # A page can't read the answer to a request that it may send without a preflight; the broker did nothing.
        assert results == {
            "amqp": "blocked", "simple_send": "opaque", "send": "blocked", "list": "blocked", "clock": "opaque",
            "remove": "blocked",
        }  # fmt: skip
        assert state(daemon) == (0, True)
        assert (daemon.now() - before).total_seconds() < 3000


@pytest.mark.parametrize("required", [True, False])
def test_dns_rebinding_gives_a_page_nothing(site, required):
    """The page's host name resolves to the broker's address, so both are one origin for the browser."""
    with contextlib.closing(Daemon(config(site, required), time_travel=True).start()) as daemon:
        before = daemon.now()
        results = browse(site, daemon, "evil.example", f"http://evil.example:{site.port}")
        assert results == {"amqp": "blocked"} | dict.fromkeys(["simple_send", "send", "list", "clock", "remove"], 421)
        assert state(daemon) == (0, True)
        assert (daemon.now() - before).total_seconds() < 3000


def test_a_page_of_a_listed_origin_works(site):
    origins = [f"http://shop.example:{site.port}"]
    with contextlib.closing(Daemon(config(site, True, origins), time_travel=True).start()) as daemon:
        results = browse(site, daemon, "shop.example", f"http://127.0.0.1:{daemon.http_port}")
        expected = {"amqp": "AMQP", "simple_send": "opaque", "send": 201, "list": 200, "clock": "opaque", "remove": 200}
        assert results == expected
        assert state(daemon) == (1, False), "with a token, and nothing without"
