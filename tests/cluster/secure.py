"""Certificates and credentials for tests: a private authority made with the openssl command, so that what we accept and
refuse is compared with certificates that another program made."""

import hashlib
import json
import secrets
import socket
import ssl
import subprocess
from pathlib import Path

from harness import PATIENCE

OPENSSL_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {common}
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
{names}
"""


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
    return done.stdout


class Certificate:
    def __init__(self, folder, name):
        self.cert = folder / f"{name}.pem"
        self.key = folder / f"{name}-key.pem"


class Authority:
    """A certificate authority in a folder. `ca` is its certificate."""

    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        own = Certificate(self.folder, name)
        self.ca, self.key = own.cert, own.key
        config = self.config(name)
        self.new_key(self.key)
        openssl("req", "-x509", "-new", "-key", self.key, "-config", config, "-extensions", "ca", "-days", 3650,
                "-out", self.ca)

    def config(self, common, uris=(), hosts=()):
        names = [f"URI:{uri}" for uri in uris]
        for host in hosts:
            names.append(f"IP:{host}" if host.replace(".", "").isdigit() or ":" in host else f"DNS:{host}")
        path = self.folder / f"{common}.cnf"
        path.write_text(OPENSSL_CONFIG.format(
            common=common, names=f"subjectAltName = {', '.join(names)}" if names else ""), encoding="utf-8")
        return path

    @staticmethod
    def new_key(path):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        path.chmod(0o600)

    def issue(self, name, uris=(), hosts=(), days=30, not_before=None, not_after=None):
        """A certificate for client and server use. `not_before`, `not_after`: YYYYMMDDHHMMSSZ, for expired ones."""
        made = Certificate(self.folder, name)
        config = self.config(name, uris, hosts)
        request = self.folder / f"{name}.csr"
        self.new_key(made.key)
        openssl("req", "-new", "-key", made.key, "-config", config, "-out", request)
        if not_before is None and not_after is None:
            openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-days", days,
                    "-set_serial", secrets.randbits(100), "-extfile", config, "-extensions", "leaf", "-out", made.cert)
        else:
            self.issue_between(made, request, config, not_before, not_after)
        return made

    def issue_between(self, made, request, config, not_before, not_after):
        """`openssl x509` knows no dates; `openssl ca` does."""
        index = self.folder / "index.txt"
        index.write_text("", encoding="utf-8")
        ca_config = self.folder / "dates.cnf"
        ca_config.write_text(
            f"[ca]\ndefault_ca = it\n[it]\ndatabase = {index}\nnew_certs_dir = {self.folder}\nrand_serial = yes\n"
            "default_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n", encoding="utf-8")
        openssl("ca", "-batch", "-notext", "-config", ca_config, "-cert", self.ca, "-keyfile", self.key, "-in", request,
                "-startdate", not_before or "20200101000000Z", "-enddate", not_after or "20400101000000Z",
                "-extfile", config, "-extensions", "leaf", "-out", made.cert)

    def node(self, ident, cluster="test", hosts=("127.0.0.1", "localhost"), **more):
        return self.issue(f"node-{ident}", [f"holdfast-node:{cluster}/{ident}"], hosts, **more)

    def client(self, principal, **more):
        """`principal`: TENANT/NAME."""
        return self.issue("client-" + principal.replace("/", "-"), [f"holdfast:{principal}"], **more)

    def context(self, certificate=None):
        """For a client of ours: verifies the server; `certificate`: who it is itself."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        return context

    def flags(self, certificate):
        return ["--tls-cert", str(certificate.cert), "--tls-key", str(certificate.key), "--tls-ca", str(self.ca)]


def new_secret():
    """A token as `holdfast token create` makes it, and its SHA-256."""
    secret = "hf_" + secrets.token_urlsafe(32)
    return secret, hashlib.sha256(secret.encode()).hexdigest()


def admin_request(data, **fields):
    """One line to the admin socket in the data folder of a node, one line back."""
    with socket.socket(socket.AF_UNIX) as there:
        there.settimeout(PATIENCE)
        there.connect(str(Path(data) / "admin.sock"))
        there.sendall(json.dumps(fields).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = there.recv(65536)
            assert piece, f"the admin socket closed after {answer!r}"
            answer += piece
        return json.loads(answer)
