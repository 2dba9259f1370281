"""TCP proxies that tests put on the links between processes, to cut, delay and silence them.

All run on one event loop in a thread of their own; their methods may be called from any other thread.
"""

import asyncio
import contextlib
import enum
import socket
import struct
import threading
import time
from typing import Awaitable, Callable

CHUNK_BYTES = 64 << 10
#: Time-out of a balancer's request for readiness.
READY_SECS = 1.0
#: How long a balancer keeps a connection waiting if no node is ready, and its polling interval.
QUEUE_SECS = 30.0
ASK_SECS = 0.1

Address = tuple[str, int]


class Way(enum.Enum):
    """A direction on a link, as seen from the side that connects."""

    UP = "from the client"
    DOWN = "to the client"


class Fault(enum.Enum):
    """The state of a link, which applies to its connections, also new ones."""

    #: Resets them.
    CUT = "cut"
    #: Accepts and discards data without closing. The data is lost, so healing resets these connections.
    SILENT = "silent"


class Link:
    """One proxy. Connections go to the address that `target()` returns at that time; without a listener, they wait, and are then reset."""

    def __init__(self, name: str, target: Callable[[], Awaitable[Address | None]], loop, queue_secs: float = 0.0):
        self.name = name
        self._target = target
        self._loop: asyncio.AbstractEventLoop = loop
        self._queue_secs = queue_secs
        self._connections: set[Connection] = set()
        self._fault: Fault | None = None
        self._held: set[Way] = set()
        self._delay_secs = 0.0
        self._changed = asyncio.Event()

    async def _listen(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> Address:
        return ("127.0.0.1", self.port)

    def cut(self):
        self._change(lambda: self._set_fault(Fault.CUT))

    def silence(self):
        self._change(lambda: self._set_fault(Fault.SILENT))

    def hold(self, way: Way):
        """A cut in one direction: data sent there arrives after `heal`, as TCP retransmits lost data."""
        self._change(lambda: self._held.add(way))

    def delay(self, seconds: float):
        """For each piece of data, in both directions."""
        self._change(lambda: setattr(self, "_delay_secs", seconds))

    def reset(self):
        """Ends the existing connections; new ones are served."""
        self._change(self._reset)

    def heal(self):
        self._change(self._heal)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _set_fault(self, fault: Fault):
        self._fault = fault
        if fault is Fault.CUT:
            self._reset()

    def _reset(self):
        for connection in list(self._connections):
            connection.abort()

    def _heal(self):
        self._fault, self._delay_secs = None, 0.0
        self._held.clear()
        for connection in list(self._connections):
            if connection.lost_data:
                connection.abort()

    def _change(self, change: Callable[[], object]):
        """Runs a change on the loop's thread, and returns when it is done."""
        done = threading.Event()

        def make():
            change()
            self._changed.set()
            self._changed = asyncio.Event()
            done.set()

        self._loop.call_soon_threadsafe(make)
        assert done.wait(timeout=30), "the proxies' thread is dead"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        connection = Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve()
        except (OSError, asyncio.CancelledError):
            connection.abort()
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _passing(self, way: Way) -> bool:
        """Waits as long as that direction is held; returns whether data may pass then."""
        while way in self._held:
            await self._changed.wait()
        if self._delay_secs:
            await asyncio.sleep(self._delay_secs)
        return self._fault is not Fault.SILENT


class Connection:
    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._link = link
        self._client = (reader, writer)
        self._writers = [writer]
        self._tasks: list[asyncio.Task] = []
        self.lost_data = False

    async def serve(self):
        link = self._link
        server = None if link._fault is Fault.CUT else await self._connect()
        if server is None:
            self.abort()
            return
        (from_client, to_client), (from_server, to_server) = self._client, server
        self._writers.append(to_server)
        self._tasks = [
            asyncio.create_task(self._pump(from_client, to_server, Way.UP)),
            asyncio.create_task(self._pump(from_server, to_client, Way.DOWN)),
        ]
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self):
        """Connects to the target. A silent link accepts connections too, but gets its target only after it is healed."""
        while self._link._fault is Fault.SILENT:
            self.lost_data = True
            await self._link._changed.wait()
        deadline = time.monotonic() + self._link._queue_secs
        while not self.lost_data:
            if (address := await self._link._target()) is not None:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection(*address)
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(ASK_SECS)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way):
        try:
            while data := await reader.read(CHUNK_BYTES):
                if await self._link._passing(way):
                    writer.write(data)
                    await writer.drain()
                else:
                    self.lost_data = True
            if await self._link._passing(way):
                writer.write_eof()
            else:
                self.lost_data = True
        except OSError:
            # One side was reset: reset the other one as well.
            self.abort()

    def close(self):
        """Ends both sides when all is sent."""
        for writer in self._writers:
            writer.close()

    def abort(self):
        """Resets both sides."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            if (raw := writer.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Proxies:
    """The links of a test; closes them at the end of `with`."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._links: list[Link] = []

    def __enter__(self) -> "Proxies":
        self._thread.start()
        return self

    def __exit__(self, *error):
        for link in self._links:
            link.cut()
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()

    async def _close(self):
        for link in self._links:
            link._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def link(self, name: str, target: Callable[[], Address | None]) -> Link:
        """A link to the one address that `target()` names when a connection comes."""

        async def resolve() -> Address | None:
            return target()

        return self._add(name, resolve, 0.0)

    def balancer(self, name: str, nodes: Callable[[], list["Node"]]) -> Link:
        """A load balancer: a new connection goes to a node that is ready, and waits for one as in the queue of HAProxy."""

        async def resolve() -> Address | None:
            candidates = nodes()
            answers = await asyncio.gather(*(is_ready(node.health) for node in candidates))
            return next((node.address for node, ready in zip(candidates, answers) if ready), None)

        return self._add(name, resolve, QUEUE_SECS)

    def _add(self, name: str, target, queue_secs: float) -> Link:
        async def make() -> Link:
            link = Link(name, target, self._loop, queue_secs)
            await link._listen()
            return link

        self._links.append(self._run(make()))
        return self._links[-1]


class Node:
    """A node of a balancer: the address for clients, and that of `/health/ready`."""

    def __init__(self, address: Address, health: Address):
        self.address = address
        self.health = health


async def is_ready(health: Address) -> bool:
    """Whether a node answers 200 to /health/ready in time."""
    writer = None

    async def ask() -> bool:
        nonlocal writer
        reader, writer = await asyncio.open_connection(*health)
        writer.write(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await reader.readline()).split()[1:2] == [b"200"]

    try:
        return await asyncio.wait_for(ask(), READY_SECS)
    except (OSError, asyncio.TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
