"""Credentials for a run with TLS and `auth = on`: certificates of all nodes, an administrator for the operator and the
faults, a principal for the clients. Without them every request is anonymous and in clear text."""

import os

import secure
from harness import environment, wait_until

CLUSTER = "chaos"
WORKER = "work/worker"  # all clients want the same names, so they are of one tenant


class Credentials:
    def __init__(self, folder, hosts):
        """`hosts`: where nodes are reached."""
        self.authority = secure.Authority(folder / "certificates")
        self.hosts = hosts
        self.context = self.authority.context()
        self.admin, self.admin_digest = secure.new_secret()
        self.worker, self.worker_digest = secure.new_secret()
        self.headers = {"Authorization": f"Bearer {self.admin}"}  # of all nodes' own requests
        self.files = {}
        for name, secret in (("admin", self.admin), ("worker", self.worker)):
            self.files[name] = folder / f"{name}.token"
            self.files[name].touch(mode=0o600)
            self.files[name].write_text(secret + "\n", encoding="utf-8")

    def equip(self, node):
        """Before its start."""
        certificate = self.authority.node(node.id, CLUSTER, self.hosts)
        node.flags = [*node.flags, *self.authority.flags(certificate), "--auth", "on"]
        node.tls = self.context
        node.headers = self.headers

    def of_client(self):
        return {"Authorization": f"Bearer {self.worker}"}

    def environment(self, who, **more):
        return environment(HOLDFAST_CA=self.authority.ca, HOLDFAST_TOKEN_FILE=self.files[who], **more)

    def set_up(self, node):
        """The first administrator, then a tenant and its principal."""
        def made():
            answer = secure.admin_request(node.folder, op="bootstrap", principal="default/admin", sha256=self.admin_digest,
                                          description="chaos")
            return "version" in answer

        wait_until(made, "the first administrator exists")
        tenant, name = WORKER.split("/")
        policy = node.request("GET", "/api/v1/auth/policy").json
        policy["tenants"].append({"name": tenant})
        policy["principals"].append({"tenant": tenant, "name": name,
                                     "grants": [{"tenant": tenant, "prefix": "*", "rights": ["lock", "read"]}]})
        answer = node.request("PUT", "/api/v1/auth/policy", policy)
        assert answer.status == 200, answer
        answer = node.request("POST", "/api/v1/auth/tokens", {"principal": WORKER, "sha256": self.worker_digest})
        assert answer.status == 200, answer
        self.headers["Holdfast-Tenant"] = tenant


class Nobody:
    """Clear text, no credentials."""

    context = None

    def equip(self, node):
        pass

    def of_client(self):
        return {}

    def environment(self, who, **more):
        return environment(**more)

    def set_up(self, node):
        pass


def make(options, folder, hosts):
    os.makedirs(folder, exist_ok=True)
    return Credentials(folder, hosts) if options.secure else Nobody()
