"""Clients that take locks all the time, through every node, and know afterwards what they were promised."""

import http.client
import itertools
import json
import threading
import time

from harness import PATIENCE, read_answer, wait_until

PAUSE = 0.015  # between two requests of a client: the nodes have the machine, not we


class Load:
    """Each grant is kept, so that `check` can request it later. A request that gets 503 or 504, or whose node
    is gone, is repeated with its request_id elsewhere; anything else that goes wrong is remembered in `wrong`.

    `plugs_are_pulled` says that connections may break in the middle of a request; without it only a
    connection that cannot be made is nobody's fault."""

    def __init__(self, nodes, clients=2, plugs_are_pulled=False, prefix="load"):
        self.nodes = nodes
        self.plugs_are_pulled = plugs_are_pulled
        self.prefix = prefix
        self.grants = []  # (name, token, when it was first requested, when the answer came)
        self.wrong = []
        self.repeated = 0
        self.over = threading.Event()
        self.numbers = itertools.count()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(clients)]

    def work(self, which):
        connections = {}
        turn = which
        while not self.over.wait(PAUSE):
            name = f"{self.prefix}-{next(self.numbers)}"
            requested = time.monotonic()
            while True:
                turn += 1
                node = self.nodes[turn % len(self.nodes)]
                answer = self.request(connections, node, name)
                if answer is not None and answer.status == 200:
                    self.granted(name, answer, requested)
                    break
                if answer is not None and answer.status not in (503, 504):
                    self.wrong.append((name, answer))
                    break
                self.repeated += 1
                if time.monotonic() - requested > PATIENCE:
                    self.wrong.append((name, "no answer", answer))
                    break
                if self.over.wait(PAUSE):
                    break
        for connection in connections.values():
            connection.close()

    def granted(self, name, answer, requested):
        if answer.json["acquired"]:
            self.grants.append((name, answer.json["fencing_token"], requested, time.monotonic()))
        else:
            self.wrong.append((name, answer))

    def request(self, connections, node, name):
        """None where nobody answers."""
        path = f"/api/v1/locks/{name}/acquire"
        body = json.dumps({"client_id": "load", "ttl_ms": 3600000, "request_id": name})
        connection = connections.get(node.id)
        fresh = connection is None
        try:
            if fresh:
                connection = node.connect()
                connection.connect()
        except OSError:
            return None
        try:
            connection.request("POST", path, body=body)
            answer = read_answer(connection, "POST", path)
            connections[node.id] = connection
            if answer.headers.get("Connection") == "close":
                del connections[node.id]
            return answer
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            connections.pop(node.id, None)
            # A kept connection that the node closed while it was idle is no failed request.
            if fresh and not self.plugs_are_pulled:
                self.wrong.append((name, node.id, repr(problem)))
            return None

    @property
    def done(self):
        return len(self.grants)

    def wait_more(self, count):
        """It goes on: so many more grants."""
        target = self.done + count
        wait_until(lambda: self.done >= target or self.wrong, f"{count} more grants")
        assert not self.wrong, self.wrong[:3]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, problem, *_):
        try:
            if problem is None:
                self.wait_more(20)  # it goes on to the end
        finally:
            self.finish()

    def finish(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def check(self, node):
        """Nothing went wrong, tokens rise with time, and every grant stands in this node's own state."""
        assert not self.wrong, self.wrong[:3]
        latest = 0.0
        for name, _, requested, answered in sorted(self.grants, key=lambda grant: grant[1]):
            assert answered >= latest, f"{name} has a higher token than one requested later"
            latest = max(latest, requested)
        tokens = [grant[1] for grant in self.grants]
        assert len(set(tokens)) == len(tokens), "no token is given twice"
        newest = max(self.grants, key=lambda grant: grant[1])[0]
        wait_until(lambda: node.show(newest, stale=True).json["held"], f"node {node.id} has it all")
        connection = node.connect()
        for name, token, _, _ in self.grants:
            path = f"/api/v1/locks/{name}?stale=true"
            connection.request("GET", path)
            shown = read_answer(connection, "GET", path).json
            assert shown["held"] and shown["holders"][0]["fencing_token"] == token, (name, token, shown)
        connection.close()
