"""The proxies of the cluster's tests have the stated effects on a link."""

import contextlib
import socket
import threading

import pytest

from proxies import Node, Proxies, Way

PATIENCE_SECS = 30
SHORT_SECS = 0.2


class Echo:
    """A server that echoes data, or sends the answer of a node to /health/ready."""

    def __init__(self, greeting: bytes = b"", answer: bytes | None = None):
        self._greeting = greeting
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = self._socket.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._socket.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket):
        with connection, contextlib.suppress(OSError):
            connection.sendall(self._greeting)
            while data := connection.recv(65_536):
                connection.sendall(data if self._answer is None else self._answer)

    def close(self):
        # Otherwise the accepting thread would keep the port.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def echo():
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def link(echo):
    with Proxies() as proxies:
        yield proxies.link("test", lambda: echo.address)


def connect(link) -> socket.socket:
    return socket.create_connection(link.address, timeout=PATIENCE_SECS)


def says(client: socket.socket, words: bytes) -> bytes:
    client.sendall(words)
    return client.recv(65_536)


def hears_nothing(client: socket.socket) -> bool:
    client.settimeout(SHORT_SECS)
    try:
        client.recv(1)
        return False
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_SECS)


def is_reset(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def resets_new_ones(link) -> bool:
    try:
        with connect(link) as client:
            return is_reset(client)
    except ConnectionError:
        return True


def test_a_healthy_link_passes_bytes_and_ends(link):
    with connect(link) as client:
        assert says(client, b"one") == b"one"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_a_cut_link_resets_old_and_new_connections_until_it_heals(link):
    with connect(link) as old:
        assert says(old, b"one") == b"one"
        link.cut()
        assert is_reset(old)
        assert resets_new_ones(link)
        link.heal()
        with connect(link) as healed:
            assert says(healed, b"two") == b"two"


@pytest.mark.parametrize("way", Way)
def test_a_link_cut_one_way_delivers_after_it_healed(link, way):
    with connect(link) as client:
        assert says(client, b"one") == b"one"
        link.hold(way)
        client.sendall(b"two")
        assert hears_nothing(client)
        link.heal()
        assert client.recv(3) == b"two"


def test_a_silent_link_accepts_and_swallows(link):
    with connect(link) as old:
        assert says(old, b"one") == b"one"
        link.silence()
        with connect(link) as new:
            for client in (old, new):
                client.sendall(b"lost")
                assert hears_nothing(client)
            link.heal()
            assert is_reset(old)
            assert is_reset(new)
        with connect(link) as healed:
            assert says(healed, b"two") == b"two"


def test_a_delayed_link_keeps_the_order(link):
    with connect(link) as client:
        link.delay(0.05)
        client.sendall(b"a")
        client.sendall(b"b")
        assert client.recv(1) + client.recv(1) == b"ab"


def test_a_target_that_is_gone_resets(link, echo):
    echo.close()
    assert resets_new_ones(link)


def test_a_balancer_leads_to_the_node_that_is_ready():
    passive, active = (Echo(answer=b"HTTP/1.1 %d x\r\n\r\n" % status) for status in (503, 200))
    wrong, right = Echo(b"wrong"), Echo(b"right")
    nodes = [Node(wrong.address, passive.address), Node(right.address, active.address)]
    with Proxies() as proxies:
        balancer = proxies.balancer("nodes", lambda: nodes)
        with connect(balancer) as client:
            assert client.recv(5) == b"right"
        nodes.clear()
        with connect(balancer) as client:
            assert hears_nothing(client)
            nodes.append(Node(right.address, active.address))
            assert client.recv(5) == b"right"
