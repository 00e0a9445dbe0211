"""HTTP/1.1 over asyncio streams: one request at a time on a connection, connections are kept (no use of any other package)."""

import asyncio
import json
import ssl
from typing import Any, Dict, List, Optional, Tuple

from .credentials import TokenSource, check_header
from .endpoints import Endpoint

MAX_LINE = 64 * 1024
MAX_BODY = 16 * 1024 * 1024


class NotSent(Exception):
    """No byte of the request left: it was certainly not done."""


class Broken(Exception):
    """The connection ended or brought something else than an answer: the request may have been done."""


class Response:
    def __init__(self, status: int, headers: Dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Dict[str, Any]:
        try:
            value = json.loads(self.body) if self.body else {}
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {}


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.reusable = False

    @property
    def alive(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def send(self, head: bytes, body: bytes) -> None:
        self._writer.write(head + body)
        await self._writer.drain()

    async def line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise Broken("the connection ended")
        return line.rstrip(b"\r\n")

    async def head(self) -> Tuple[int, Dict[str, str]]:
        words = (await self.line()).split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise Broken("the endpoint does not speak HTTP/1.1")
        headers: Dict[str, str] = {}
        while True:
            line = await self.line()
            if not line:
                break
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(words[1]), headers

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int((await self.line()).split(b";")[0], 16)
        if size > MAX_BODY:
            raise Broken("the answer is too large")
        data = await self._reader.readexactly(size)
        await self.line()
        return data

    async def answer(self) -> Response:
        status, headers = await self.head()
        body = b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                data = await self.chunk()
                if not data:
                    break
                body += data
        elif "content-length" in headers:
            size = int(headers["content-length"])
            if size > MAX_BODY:
                raise Broken("the answer is too large")
            body = await self._reader.readexactly(size)
        else:
            headers["connection"] = "close"
            body = await self._reader.read(MAX_BODY)
        self.reusable = headers.get("connection", "").lower() != "close"
        return Response(status, headers, body)

    async def exactly(self, size: int) -> bytes:
        return await self._reader.readexactly(min(size, MAX_BODY))

    async def stream_line(self, buffer: bytearray, chunked: bool) -> Optional[str]:
        """A line of an endless body; None at its end."""
        while b"\n" not in buffer:
            data = await (self.chunk() if chunked else self._reader.read(65536))
            if not data:
                return None
            buffer += data
        line, _, rest = bytes(buffer).partition(b"\n")
        buffer[:] = rest
        return line.rstrip(b"\r").decode()


class Transport:
    """Connections to all nodes. Belongs to the event loop of the engine."""

    def __init__(self, token: TokenSource, tenant: Optional[str], tls: Optional[ssl.SSLContext], server_name: Optional[str],
                 connect_timeout: float) -> None:
        self._token = token
        self._tenant = f"Holdfast-Tenant: {check_header('tenant', tenant)}\r\n" if tenant else ""
        self._tls = tls
        self._server_name = server_name if tls else None
        self._connect_timeout = connect_timeout
        self._idle: Dict[Endpoint, List[Connection]] = {}

    async def open(self, endpoint: Endpoint) -> Connection:
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(endpoint.host, endpoint.port, ssl=self._tls, server_hostname=self._server_name,
                                        limit=MAX_LINE),
                self._connect_timeout)
        except asyncio.TimeoutError:
            raise NotSent("connecting timed out") from None
        except (OSError, ssl.SSLError) as error:
            raise NotSent(str(error)) from None
        return Connection(reader, writer)

    def head(self, endpoint: Endpoint, method: str, path: str, length: int, more: str = "") -> bytes:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return (f"{method} {path} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\n{self._token.header()}{self._tenant}{more}"
                f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n").encode()

    def _take(self, endpoint: Endpoint) -> Optional[Connection]:
        idle = self._idle.get(endpoint, [])
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
            connection.close()
        return None

    async def request(self, endpoint: Endpoint, method: str, path: str, body: bytes, timeout: float) -> Response:
        """One attempt. Raises NotSent or Broken; of a timeout, Broken. After a 401, a token that has changed in its file is tried."""
        response = await self._request_once(endpoint, method, path, body, timeout)
        if response.status == 401 and self.reload_token():
            return await self._request_once(endpoint, method, path, body, timeout)
        return response

    def reload_token(self) -> bool:
        return self._token.reload()

    async def _request_once(self, endpoint: Endpoint, method: str, path: str, body: bytes, timeout: float) -> Response:
        connection = self._take(endpoint) or await self.open(endpoint)
        done = False
        try:
            response = await asyncio.wait_for(self._talk(connection, self.head(endpoint, method, path, len(body)), body),
                                              timeout)
            done = connection.reusable
            return response
        except asyncio.TimeoutError:
            raise Broken("no answer in time") from None
        except (OSError, EOFError, ValueError) as error:
            raise Broken(str(error) or "the connection broke") from None
        finally:
            if done:
                self._idle.setdefault(endpoint, []).append(connection)
            else:
                connection.close()

    async def _talk(self, connection: Connection, head: bytes, body: bytes) -> Response:
        await connection.send(head, body)
        return await connection.answer()

    def close_idle(self, endpoint: Endpoint) -> None:
        for connection in self._idle.pop(endpoint, []):
            connection.close()

    def close(self) -> None:
        for endpoint in list(self._idle):
            self.close_idle(endpoint)
