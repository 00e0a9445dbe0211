"""Real servers of others, each in a folder of its own, ended with the tests."""

import glob
import http.client
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import harness


def program(name, where="/usr/sbin:/usr/bin:/sbin:/bin"):
    found = shutil.which(name, path=where)
    if found is None:
        harness.skip_or_fail(f"{name} is not installed; run: scripts/setup test")
    return found


class Server:
    """A process in a folder, which `is_ready` when it answers."""

    stop_signal = signal.SIGTERM

    def __init__(self, folder):
        self.folder = Path(folder)
        self.process = None

    def spawn(self, command, **options):
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(harness.dies_with_us(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            **options)
        harness.wait_until(self.is_ready_or_ended, lambda: f"{command[0]} answers:\n{self.log()}")

    def is_ready_or_ended(self):
        assert self.process.poll() is None, self.log()
        return self.is_ready()

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")[-4000:]

    def __enter__(self):
        self.folder.mkdir(exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_):
        self.process.send_signal(self.stop_signal)
        self.process.wait(harness.PATIENCE)


class Postgres(Server):
    """Debian's PostgreSQL on a Unix socket in its folder. It refuses to run as root, and runs as `postgres` then."""

    stop_signal = signal.SIGINT  # does not wait for its clients

    def __init__(self):
        super().__init__(tempfile.mkdtemp(prefix="holdfast-pg-", dir="/tmp"))  # another user must reach it

    def tool(self, name):
        return program(name, ":".join(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)))

    def start(self):
        other = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        data = self.folder / "data"
        subprocess.run([self.tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=harness.PATIENCE, **other)
        # No test here cuts the power, so nothing waits for the disk.
        self.spawn([self.tool("postgres"), "-D", data, "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off",
                    "-c", "shared_buffers=16MB"], cwd=self.folder, **other)

    def is_ready(self):
        return subprocess.run([self.tool("pg_isready"), "-q", "-h", self.folder], check=False).returncode == 0

    def __exit__(self, *error):
        super().__exit__(*error)
        shutil.rmtree(self.folder)

    def dsn(self, user="postgres"):
        return f"host={self.folder} user={user} dbname=postgres"

    def psql(self, *files):
        """As the documents say it: psql reads the files."""
        self.run_tool("psql", "-q", "-X", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", *[word for file in files for word in ("-f", file)])

    def run_tool(self, name, *arguments):
        subprocess.run([self.tool(name), "-h", self.folder, "-U", "postgres", *arguments], check=True, timeout=harness.PATIENCE)


class Redis(Server):
    """Debian's Redis on a port of its own."""

    def start(self):
        self.port = harness.free_ports(1)[0]
        self.spawn([program("redis-server"), "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                    "--daemonize", "no"])

    def is_ready(self):
        return subprocess.run([program("redis-cli"), "-p", str(self.port), "ping"], capture_output=True, text=True,
                              check=False).stdout == "PONG\n"


class Web(Server):
    """web_service.py by a server of others: gunicorn (WSGI) or uvicorn (ASGI), with two processes that share the fence."""

    def __init__(self, folder, kind):
        super().__init__(folder)
        self.kind = kind
        self.address = f"127.0.0.1:{harness.free_ports(1)[0]}"

    def start(self):
        port = self.address.rpartition(":")[2]
        commands = {
            "wsgi": ["-m", "gunicorn", "--workers", "2", "--bind", self.address, "web_service:wsgi"],
            "plain_wsgi": ["-m", "gunicorn", "--worker-class", "gthread", "--threads", "4", "--bind", self.address, "web_service:plain_wsgi"],
            "asgi": ["-m", "uvicorn", "--workers", "2", "--host", "127.0.0.1", "--port", port, "--log-level", "warning", "web_service:asgi"],
        }
        path = f"{harness.ROOT}/sdk/python:{harness.ROOT}/tests/fences"
        for place in ("bare", "fenced"):
            (self.folder / place).touch()
        self.spawn([sys.executable, *commands[self.kind]], env={**harness.environment(), "PYTHONPATH": path, "WEB_SERVICE_FOLDER": str(self.folder)})

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=harness.PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def is_ready(self):
        try:
            return self.request("GET", "/bare")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def read(self, name):
        return (self.folder / name).read_text(encoding="ascii")


class Nginx(Server):
    """Debian's nginx with contrib/nginx/holdfast_fence.conf, between clients and `service`."""

    def __init__(self, folder, cluster, service):
        super().__init__(folder)
        self.cluster = cluster
        self.service = service
        self.address = f"127.0.0.1:{harness.free_ports(1)[0]}"

    def start(self):
        nodes = " ".join(f"server {node.client};" for node in self.cluster)
        (self.folder / "nginx.conf").write_text(f"""
            daemon off; worker_processes 1; pid {self.folder}/pid; error_log stderr;
            events {{ }}
            http {{
                access_log off;
                client_body_temp_path {self.folder}/body; proxy_temp_path {self.folder}/proxy; fastcgi_temp_path {self.folder}/fastcgi;
                uwsgi_temp_path {self.folder}/uwsgi; scgi_temp_path {self.folder}/scgi;
                upstream holdfast {{ {nodes} }}
                map $http_holdfast_token $holdfast_token {{ default ""; "~^[1-9][0-9]{{0,15}}$" $http_holdfast_token; }}
                server {{
                    listen {self.address};
                    include {harness.ROOT}/contrib/nginx/holdfast_fence.conf;
                    location / {{ proxy_pass http://{self.service.address}; }}
                    location /fenced {{
                        set $holdfast_resource "stale/nginx";
                        auth_request /holdfast-fence-check;
                        proxy_pass http://{self.service.address};
                    }}
                }}
            }}""", encoding="ascii")
        user = [] if os.geteuid() else ["-g", "user root;"]
        self.spawn([program("nginx"), "-p", self.folder, "-c", self.folder / "nginx.conf", *user])

    request = Web.request
    is_ready = Web.is_ready
