#!/usr/bin/python3
"""A network between nodes for those who are not root, and one that can be slow: each machine's peer address is a
port of this process, which passes the bytes on as the orders on its standard input say.

    proxy.py MACHINE:PORT:TARGET_PORT ...

    node ID MACHINE          node ID runs on that machine now
    block FROM TO            bytes that FROM sends to TO stay here, and go on when they may
    delay FROM TO SECONDS    ... go on so much later
    heal                     no more of either
    (each order is answered with a line "done")

Who dials is read off the first frame of a connection, a HELLO, which names the node that sends it."""

import heapq
import selectors
import socket
import sys
import time

HOST = "127.0.0.1"
PIECE = 65536
MOST = 4 << 20  # bytes of one direction that are kept; then no more are read
now = time.monotonic


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def sender(data):
    """The node that sent this HELLO (src/node/peers/peer_protocol.c); None: it is not all here yet."""
    try:
        at = 5 + 8
        for _ in range(3):  # oldest, newest, purpose
            _, at = varint(data, at)
        at += 17 if data[at] else 1  # the cluster, if it knows it
        length, at = varint(data, at)
        return varint(data, at + length)[0]
    except IndexError:
        return None


class Side:
    """One direction of a connection: what was read from `source` and is to be written to `sink`."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.pieces = []  # (due, bytes)
        self.kept = 0
        self.ended = False


class Link:
    def __init__(self, near, far, machine):
        self.near, self.far = near, far  # the dialler, and the machine that it wants
        self.to = machine
        self.by = None
        self.first = b""
        self.wanted = {}  # what the selector waits for, by end
        self.up, self.down = Side(near, far), Side(far, near)

    def ways(self):
        return (self.up, self.by, self.to), (self.down, self.to, self.by)


class Proxy:
    def __init__(self, ports):
        self.poll = selectors.DefaultSelector()
        self.nodes = {}
        self.blocked = set()
        self.delays = {}
        self.links = set()
        self.due = []  # times at which something may go on
        for machine, port, target in ports:
            listener = socket.create_server((HOST, port))
            listener.setblocking(False)
            self.poll.register(listener, selectors.EVENT_READ, ("listen", machine, target))
        self.poll.register(sys.stdin, selectors.EVENT_READ, ("orders",))

    def accept(self, listener, machine, target):
        near, _ = listener.accept()
        try:
            far = socket.create_connection((HOST, target), 1)
        except OSError:  # nobody is there: as if the port were closed
            near.close()
            return
        link = Link(near, far, machine)
        self.links.add(link)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
            link.wanted[end] = selectors.EVENT_READ
            self.watch(end, selectors.EVENT_READ, link)

    def close(self, link):
        self.links.discard(link)
        for end in (link.near, link.far):
            self.watch(end, 0, link)
            end.close()

    def read(self, link, side, way):
        try:
            data = side.source.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            side.ended = True
            return
        if link.by is None and side is link.up:
            link.first += data
            data = b""
            ident = sender(link.first)
            if ident is not None:
                link.by = self.nodes.get(ident, ident)
                data, link.first = link.first, b""
                way = (link.by, link.to)
        if data:
            due = now() + self.delays.get(way, 0)
            side.pieces.append((due, data))
            side.kept += len(data)
            if way in self.delays:
                heapq.heappush(self.due, due)

    def write(self, side, way):
        """False: the connection is over."""
        while side.pieces and way not in self.blocked and side.pieces[0][0] <= now():
            due, data = side.pieces[0]
            try:
                sent = side.sink.send(data)
            except BlockingIOError:
                return True
            except OSError:
                return False
            side.kept -= sent
            if sent < len(data):
                side.pieces[0] = (due, data[sent:])
                return True
            side.pieces.pop(0)
        return not side.ended or bool(side.pieces)

    def watch(self, end, events, link):
        if not events:
            if end in self.poll.get_map():
                self.poll.unregister(end)
        elif end in self.poll.get_map():
            self.poll.modify(end, events, ("link", link))
        else:
            self.poll.register(end, events, ("link", link))

    def go_on(self, link):
        """Writes what may go, and says what the connection waits for next."""
        events = {link.near: 0, link.far: 0}
        for side, begin, to in link.ways():
            if not self.write(side, (begin, to)):
                self.close(link)
                return
            if side.kept < MOST and not side.ended:
                events[side.source] |= selectors.EVENT_READ
            if side.pieces and (begin, to) not in self.blocked and side.pieces[0][0] <= now():
                events[side.sink] |= selectors.EVENT_WRITE
        for end, wanted in events.items():
            if wanted != link.wanted.get(end):
                link.wanted[end] = wanted
                self.watch(end, wanted, link)

    def order(self, words):
        if words[0] == "node":
            self.nodes[int(words[1])] = int(words[2])
        elif words[0] == "block":
            self.blocked.add((int(words[1]), int(words[2])))
        elif words[0] == "delay":
            self.delays[int(words[1]), int(words[2])] = float(words[3])
        elif words[0] == "heal":
            self.blocked.clear()
            self.delays.clear()
        for link in list(self.links):
            self.go_on(link)
        print("done", flush=True)

    def turn(self):
        """False: whoever gives the orders is gone."""
        timeout = max(0, self.due[0] - now()) if self.due else None
        touched = set()
        for key, events in self.poll.select(timeout):
            kind, *what = key.data
            if kind == "orders":
                line = sys.stdin.buffer.raw.readline()
                if not line:
                    return False
                self.order(line.decode().split())
            elif kind == "listen":
                self.accept(key.fileobj, *what)
            elif what[0] in self.links:
                link = what[0]
                touched.add(link)
                if events & selectors.EVENT_READ:
                    side, begin, to = link.ways()[0 if key.fileobj is link.near else 1]
                    self.read(link, side, (begin, to))
        if self.due and self.due[0] <= now():
            touched |= self.links
        while self.due and self.due[0] <= now():
            heapq.heappop(self.due)
        for link in touched & self.links:
            self.go_on(link)
        return True


def main():
    proxy = Proxy([tuple(int(part) for part in word.split(":")) for word in sys.argv[1:]])
    print("done", flush=True)
    while proxy.turn():
        pass


if __name__ == "__main__":
    main()
