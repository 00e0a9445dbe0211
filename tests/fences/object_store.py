"""A stand-in for an object store, with conditional requests as S3 has them. It is no S3: its Server header says so. The ETag is the MD5
of the content, as for objects of S3 that were put in one part. Objects are in memory."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "holdfast-test-stand-in-for-S3"

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = self.server.objects.get(self.path)
        if body is None:
            return self.answer(404)
        wanted = self.headers["Range"]
        if wanted is None:
            return self.answer(200, body, ETag=etag_of(body))
        if body == b"":
            return self.answer(416)
        assert wanted.startswith("bytes=0-")
        return self.answer(206, body[:int(wanted[8:]) + 1], ETag=etag_of(body))

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.before_put(self.path)
        with self.server.lock:
            present = self.server.objects.get(self.path)
            if self.headers["If-Match"] is not None:
                if present is None:
                    return self.answer(404)
                if self.headers["If-Match"] != etag_of(present):
                    return self.answer(412)
            if self.headers["If-None-Match"] == "*" and present is not None:
                return self.answer(412)
            self.server.objects[self.path] = body
        return self.answer(200, ETag=etag_of(body))

    def log_message(self, *_):
        pass


def etag_of(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


class ObjectStore(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = {}
        self.lock = threading.Lock()
        self.before_put = lambda path: None
        self.url = f"http://127.0.0.1:{self.server_port}/bucket"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
