"""The clusters of the suite: what scenarios do to them, and what an operator does."""

import signal
import threading

from auth_support import bearer, secure_cluster
from harness import Cluster, wait_until
from secure import Authority, new_secret

TENANT = "red"
PRINCIPAL = f"{TENANT}/lock"


class ScenarioCluster:
    """Real nodes. Several scenarios may use it at a time if none disturbs it."""

    def __init__(self, folder, nodes, secure):
        self.folder = folder
        self.secure = secure
        self.credentials = {}
        self._next = 0
        self._lock = threading.Lock()
        folder.mkdir()
        if secure:
            self.nodes = secure_cluster(self._start_with_tls, nodes)
            self._issue_credentials()
        else:
            self.nodes = Cluster(folder / "nodes", nodes, name="conformance")
            self.nodes.folder.mkdir()
            self.nodes.start()

    def _start_with_tls(self, count, *flags):
        self.authority = Authority(self.folder / "authority")
        cluster = self.nodes = Cluster(self.folder / "nodes", count, flags)
        cluster.folder.mkdir()
        for node in cluster:
            node.flags += self.authority.flags(self.authority.node(node.id, cluster="test", hosts=["127.0.0.1"]))
            node.tls = self.authority.context()
        return cluster.start()

    def _file_of(self, name, text):
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n", encoding="utf-8")
        return str(path)

    def _issue_credentials(self):
        ca, client = {"ca": str(self.authority.ca)}, self.authority.client(PRINCIPAL)
        wrong, _ = new_secret()
        self.secrets = {self.nodes.tokens[PRINCIPAL], wrong}
        self.credentials = {
            "certificate": {**ca, "cert": str(client.cert), "key": str(client.key)},
            "token": {**ca, "token_file": self._file_of("token", self.nodes.tokens[PRINCIPAL])},
            "wrong_token": {**ca, "token_file": self._file_of("wrong-token", wrong)},
            "nobody": ca,
            "other_authority": {"ca": str(Authority(self.folder / "other").ca)},
        }

    # --- of clients ---

    def unique(self):
        """A number for the names of one client of one scenario."""
        with self._lock:
            self._next += 1
            return self._next

    def endpoints(self, which):
        dead = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]  # privileged ports of no service
        if which == "dead":
            return dead
        if which == "leader":
            return [self.nodes.leader().client]
        if which == "followers":
            return [node.client for node in self.nodes.followers()]
        if which == "leader_first":
            return [self.nodes.leader().client, *(node.client for node in self.nodes.followers())]
        if isinstance(which, list):
            return [self.nodes.nodes[i].client for i in which]
        everyone = [node.client for node in self.nodes]
        if which == "by_name":  # in a secure cluster, the certificates have the address only
            return [address.replace("127.0.0.1", "localhost") for address in everyone]
        return dead[:1] + everyone[1:] if which == "one_dead" else everyone

    # --- faults of nodes ---

    def _chosen(self, which):
        if which == "all":
            return self.nodes.running()
        if which == "leader":
            return [self.nodes.leader()]
        if which == "follower":
            return self.nodes.followers()[:1]
        return [self.nodes.nodes[which]]

    def disturb(self, step):
        kind = step["fault"]
        if kind == "kill":
            chosen = self._chosen(step["node"])
            for node in chosen:
                node.process.kill()
            for node in chosen:
                node.process.wait()
        elif kind == "pause":
            for node in self._chosen(step["node"]):
                node.signal(signal.SIGSTOP)
        elif kind == "continue":
            self._continue()
        elif kind == "restart":
            self._restart()
        else:
            assert kind == "none", kind

    def _continue(self):
        for node in self.nodes:
            if node.paused:
                node.signal(signal.SIGCONT)

    def _restart(self):
        down = [node for node in self.nodes if not node.running]
        for node in down:
            node.start()
        for node in down:
            node.wait_ready()

    def restore(self):
        """As it was before a scenario."""
        self._continue()
        self._restart()
        self.nodes.leader()

    def logs(self):
        return "\n".join(f"node {node.id}, running: {node.running}\n{node.log()[-2000:]}" for node in self.nodes)

    def end(self):
        for node in self.nodes:
            node.close_ready()
            if node.running:
                node.kill()

    # --- the operator ---

    def request(self, method, path, body=None):
        """Repeated until a node serves it."""
        def served():
            for node in self.nodes.running():
                if node.paused:
                    continue
                headers = bearer(self.nodes.tokens["default/root"], TENANT) if self.secure else None
                answer = node.try_request(method, path, body, timeout=5, headers=headers)
                if answer is not None and answer.status not in (503, 504):
                    return answer
            return None

        return wait_until(served, f"an answer to {method} {path}")

    def operate(self, step, name, session_of):
        """`session_of`: the session of the holder of a name."""
        by = {"actor_id": "conformance", "reason": "a scenario"}
        kind = step["fault"]
        if kind == "force_unlock":
            answer = self.request("POST", f"/api/v1/locks/{name}/force-unlock", {**by, "now": True})
        elif kind == "revoke":
            answer = self.request("POST", f"/api/v1/locks/{name}/revoke", {**by, "deadline_ms": step["deadline_ms"]})
        else:
            answer = self.request("DELETE", f"/api/v1/sessions/{session_of(name)}")
        assert answer.status == 200, answer
