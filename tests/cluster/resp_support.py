"""redis-py for the tests of the Redis port. Debian 12 has 4.3, Debian 13 has 6.1; this hides what they do differently."""

import contextlib
import socket
import subprocess

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import PATIENCE, dies_with_us, wait_until

# Errors that have a class of their own in newer versions, which then take the word off the text.
CLASSES = {
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
}


def connect(node, **options):
    """A client that sends each request once. From 6.0 on redis-py repeats a request whose connection broke, an INCR
    too, and a test could not say what was counted."""
    return redis.Redis(host="127.0.0.1", port=node.resp_port, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0),
                       **{"decode_responses": True, **options})


def error_word(error):
    """The first word of an error reply, as the node sent it."""
    for kind, word in CLASSES.items():
        if isinstance(error, kind):
            return word
    return str(error).split()[0]


class RawClient:
    """Requests as arrays, answers as bytes."""

    def __init__(self, family, address):
        self.socket = socket.socket(family)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address)
        self.buffer = self.socket.makefile("rb")

    def request(self, *words):
        self.send(*words)
        return self.value()

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def value(self):
        line = self.buffer.readline()
        assert line.endswith(b"\r\n"), line
        kind, number = line[:1], line[1:-2]
        if kind in b"$=" and int(number) >= 0:
            return line + self.buffer.read(int(number) + 2)
        count = {b"*": 1, b"~": 1, b"%": 2}.get(kind, 0) * max(int(number), 0) if kind in b"*~%" else 0
        return line + b"".join(self.value() for _ in range(count))

    def close(self):
        self.buffer.close()
        self.socket.close()


@contextlib.contextmanager
def real_redis(folder):
    """A redis-server; the path of its socket."""
    path = folder / "socket"
    server = subprocess.Popen(dies_with_us(["redis-server", "--port", 0, "--unixsocket", path, "--save", "",
                                            "--appendonly", "no", "--daemonize", "no"]),
                              stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder)
    try:
        wait_until(path.exists, "redis-server listens")
        yield str(path)
    finally:
        server.kill()
        server.wait()
