"""An HTTP/1.1 proxy before a node, for what a cluster alone does not do: a node whose streams fail, and one of an earlier version."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STREAMS = ("/events", "/watch")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status, code):
        self._answer(status, json.dumps({"error": {"code": code, "message": "refused by the test"}}).encode())

    def _serve(self):
        proxy, body = self.server.proxy, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if proxy.is_earlier and path.startswith("/api/v1/sessions/") and path.endswith("/events"):
            self._refuse(404, "not_found")
        elif proxy.is_earlier and path.endswith("/keepalive") and b"lock_" in body:
            self._refuse(400, "field_unknown")
        elif path.endswith(STREAMS):
            self._stream(proxy)
        else:
            self._forward(proxy, body)

    do_GET = do_POST = do_DELETE = _serve

    def _send_on(self, proxy, body, timeout):
        connection = http.client.HTTPConnection(proxy.node.client_host, proxy.node.client_port, timeout=timeout)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "content-length")}
        connection.request(self.command, self.path, body=body or None, headers=headers)
        return connection, connection.getresponse()

    def _forward(self, proxy, body):
        try:
            connection, answer = self._send_on(proxy, body, 60)
            data = answer.read()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # as a node that died
            return
        connection.close()
        self._answer(answer.status, data)

    def _stream(self, proxy):
        if not proxy.streams.is_set():
            self._refuse(503, "no_leader")
            return
        self.close_connection = True
        connection = None
        try:
            connection, answer = self._send_on(proxy, b"", 60)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Connection", "close")
            self.end_headers()
            while data := answer.read1(65536):
                self.wfile.write(data)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            if connection is not None:
                connection.close()


class Proxy:
    """`streams` is set: streams are passed on. Until then they are refused with 503."""

    def __init__(self, node, is_earlier=False):
        self.node = node
        self.is_earlier = is_earlier
        self.streams = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.proxy = self
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self):
        self._server.shutdown()
        self._server.server_close()
