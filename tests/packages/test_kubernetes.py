"""contrib/kubernetes/holdfast.yaml without Kubernetes: its commands, environment and probes, in the image of test_image.py. A pod is three
namespaces (mounts, processes, network) with the user, the mounts and the privileges that the manifest names. What a cluster adds (DNS,
scheduling, volumes, the filter of system calls) is not tested: names are in /etc/hosts."""

import http.client
import json
import re
import shlex
import ssl
import subprocess
import textwrap

import pytest
import yaml

import network
from conftest import ENTER, ROOT
from harness import PATIENCE, wait_until

MANIFEST = ROOT / "contrib/kubernetes/holdfast.yaml"
TEXT = MANIFEST.read_text(encoding="utf-8")
OBJECTS = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(TEXT)}
SPEC = OBJECTS["StatefulSet", "holdfast"]["spec"]["template"]["spec"]
NODE = SPEC["containers"][0]
HEAD = re.sub(r"^# ?", "", TEXT[:TEXT.index("\napiVersion")], flags=re.MULTILINE)


def client_port(probe):
    return next(port["containerPort"] for port in NODE["ports"] if port["name"] == probe["port"])


class Pod:
    """What a kubelet does with pod `index`: mounts, the init container, the container. It obeys lines of its input: `stop` runs preStop
    and sends SIGTERM, another line is a command in the container."""

    def __init__(self, root, space, index, bootstrap):
        self.name = f"holdfast-{index}"
        self.space = space
        self.address = f"10.77.0.{index + 1}"
        self.log = root.folder / "srv/logs" / self.name
        self.process = subprocess.Popen([*space.inside, *map(str, ENTER), root.folder, "bash", "-c", self.script(bootstrap)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.read_until("started")

    def script(self, bootstrap):
        who = SPEC["securityContext"]
        user = f"setpriv --reuid {who['runAsUser']} --regid {who['runAsGroup']} --groups {who['fsGroup']} --bounding-set -all --no-new-privs"
        settings = {"PATH": "/usr/bin:/bin", "HOSTNAME": self.name}
        for row in NODE["env"]:
            settings[row["name"]] = row["value"] if "value" in row else bootstrap
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        run = f"{user} env -i {words}"
        [prepare] = SPEC["initContainers"]
        return textwrap.dedent(f"""
            mkdir -p /srv/{self.name}
            chown root:{who['fsGroup']} /srv/{self.name} && chmod 2775 /srv/{self.name}
            mount --bind /srv/{self.name} /var/lib/holdfast
            mkdir -p /srv/logs
            mount --bind /srv/logs /mnt
            mkdir /run/holdfast
            mount -t tmpfs -o size=1m,mode=2777,gid={who['fsGroup']} tmpfs /run/holdfast
            mount -o remount,bind,ro /
            mount -o remount,ro /run
            {run} {shlex.join(prepare['command'] + prepare['args'])} || {{ echo "init failed"; exit 1; }}
            {run} {shlex.join(NODE['command'] + NODE['args'])} >>/mnt/{self.name} 2>&1 &
            node=$!
            echo started
            while read -r line; do
                [[ $line != stop ]] || break
                status=0
                {run} sh -c "$line" || status=$?
                echo "status $status"
            done
            {run} {shlex.join(NODE['lifecycle']['preStop']['exec']['command'])}
            echo "preStop $?"
            kill -TERM $node
            wait $node
            echo "ended $?"
        """)

    def read_until(self, word):
        """The lines up to the one that begins with `word`, and this one."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.split()[:1] == [word]:
                return "".join(lines[:-1]), line.strip()
        raise AssertionError(f"{self.name} ended:\n{''.join(lines)}")

    def run(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        output, status = self.read_until("status")
        assert status == "status 0", output
        return output

    def stop(self):
        """What preStop printed."""
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()
        said, status = self.read_until("preStop")
        assert status == "preStop 0", said
        _, status = self.read_until("ended")
        assert status == "ended 0"
        self.process.wait(PATIENCE)
        return said

    def kill(self):
        self.process.kill()
        self.process.wait()

    def probe(self, kind):
        """The status, as a kubelet gets it: by the address of the pod, and without verifying the certificate."""
        target = NODE[kind]["httpGet"]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        port = client_port(target)
        connection = http.client.HTTPConnection(self.address, port, timeout=PATIENCE)
        try:
            connection.sock = context.wrap_socket(self.space.socket(self.address, port, PATIENCE))
            connection.request("GET", target["path"])
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def wait_ready(self):
        wait_until(lambda: self.probe("readinessProbe") == 200, self.why_not_ready)

    def why_not_ready(self):
        return f"{self.name} is ready:\n{self.log.read_text(encoding='utf-8')}"


@pytest.fixture(name="pods")
def pods_of_the_stateful_set(image):
    if network.why_not() is not None:
        pytest.fail(network.why_not())
    with open(image.folder / "etc/hosts", "a", encoding="utf-8") as hosts:
        for index in range(3):
            print(f"10.77.0.{index + 1} holdfast-{index}.holdfast", file=hosts)
    # Step 1 of the head, up to kubectl. A secret is mounted with the group of fsGroup.
    step = HEAD[HEAD.index("holdfast cert init"):HEAD.index("kubectl create secret")]
    image.run(f"umask 022; {step}\nmv tls /tls; chgrp {SPEC['securityContext']['fsGroup']} /tls/*; chmod 755 /tls; chmod 644 /tls/*; mkdir /operator")
    cables = network.Network(3)
    running = []

    def start(index, bootstrap):
        running.append(Pod(image, cables.spaces[index + 1], index, bootstrap))
        return running[-1]

    try:
        yield start
    finally:
        for pod in running:
            pod.kill()
        cables.close()


def leader(pod):
    flags = f"--endpoints {pod.name}.holdfast:4653 --ca /run/holdfast/ca.pem --token-file /run/holdfast/admin"
    status = json.loads(pod.run(f"install -m 0600 /operator/token /run/holdfast/admin && holdfast status --json {flags}"))
    return status["leader"]


def test_three_pods_start_hand_their_leadership_over_and_start_again(pods, image):
    nodes = [pods(index, OBJECTS["ConfigMap", "holdfast"]["data"]["bootstrap"]) for index in range(3)]
    for pod in nodes:
        pod.wait_ready()
        assert pod.probe("startupProbe") == pod.probe("livenessProbe") == 200

    # Clients use the name of a service.
    for name in ("holdfast-client", "holdfast", "holdfast-0.holdfast"):
        assert ("Service", name) in OBJECTS or name.endswith(".holdfast")
        trusted = ssl.create_default_context(cafile=image.folder / "tls/ca.pem")
        trusted.wrap_socket(nodes[0].space.socket(nodes[0].address, 4653, PATIENCE), server_hostname=name).close()

    # Step 4 of the head.
    token = nodes[0].run(re.search(r"kubectl exec holdfast-0 -- (.*)$", HEAD, re.MULTILINE)[1]).split()[-1]  # after a message
    (image.folder / "operator/token").write_text(token + "\n", encoding="ascii")
    (image.folder / "operator/token").chmod(0o644)

    first = leader(nodes[0])
    assert re.search(r"^node \d is the leader$", nodes[first - 1].stop(), re.MULTILINE)
    others = [pod for pod in nodes if pod is not nodes[first - 1]]
    second = leader(others[0])
    assert second != first

    # Step 3: it starts again with its data, and as no new cluster.
    nodes[first - 1] = pods(first - 1, "off")
    nodes[first - 1].wait_ready()
    assert "nothing to transfer" in nodes[first - 1].stop()
    assert leader(others[0]) == second
