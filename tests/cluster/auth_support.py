"""A cluster with auth = on: two tenants, one principal for each role, and their tokens."""

from harness import wait_until

ROLES = {  # name of the principal in each tenant: rights on the prefix app/
    "none": [],
    "lock": ["lock"],
    "read": ["read"],
    "operate": ["operate", "read"],
}


def grant(tenant, prefix, *rights):
    return {"tenant": tenant, "prefix": prefix, "rights": list(rights)}


def policy():
    """Tenants red and blue with the roles, an administrator of each, and one of the cluster."""
    principals = [{"tenant": "default", "name": "root",
                   "grants": [grant("*", "*", "lock", "read", "operate", "admin")]}]
    for tenant in ("red", "blue"):
        for role, rights in ROLES.items():
            principals.append({"tenant": tenant, "name": role,
                               "grants": [grant(tenant, "app/", *rights)] if rights else []})
        principals.append({"tenant": tenant, "name": "admin",
                           "grants": [grant(tenant, "*", "admin", "operate", "read", "lock")]})
    return {"tenants": [{"name": "default"}, {"name": "red"}, {"name": "blue"}], "principals": principals}


def bearer(token, tenant=None):
    return {"Authorization": f"Bearer {token}", **({"Holdfast-Tenant": tenant} if tenant else {})}


def secure_cluster(make_cluster, count, *flags):
    """The policy is made while auth is off; then every node starts again with auth = on."""
    cluster = make_cluster(count, *flags)
    node = cluster.nodes[1]

    def applied():
        answer = node.request("PUT", "/api/v1/auth/policy", policy())
        return answer if answer.status == 200 else None

    wait_until(applied, "the policy is applied")
    tokens = {}
    for row in policy()["principals"]:
        name = f"{row['tenant']}/{row['name']}"
        made = node.request("POST", "/api/v1/auth/tokens", {"principal": name, "description": "test"})
        assert made.status == 200, made
        tokens[name] = made.json["token"]
    for node in cluster:
        assert node.stop() == 0
        node.flags += ["--auth", "on"]
    for node in cluster:
        node.start()
    cluster.wait_ready()
    cluster.tokens = tokens
    for node in cluster:
        node.headers = bearer(tokens["default/root"])
    return cluster


def call(node, who, method, path, body=None, **options):
    """A request of a principal; `who` may be None, or have a tenant: ("red/lock", "blue")."""
    principal, tenant = who if isinstance(who, tuple) else (who, None)
    headers = bearer(node.tokens[principal], tenant) if principal else {"Authorization": None}
    return node.request(method, path, body, headers=headers, **options)
