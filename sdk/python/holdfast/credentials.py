"""What a client shows to a cluster: a token, also from a file, and certificates (C7). And the settings of the environment."""

import os
import ssl
from typing import Any, Dict, Mapping, Optional

from .errors import Invalid


def check_header(what: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise Invalid(f"the {what} has characters that a header cannot have", f"invalid_{what}")
    return value


def read_token(file: str) -> str:
    try:
        with open(file, encoding="ascii") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o777
            token = stream.read().strip()
    except (OSError, ValueError) as error:
        raise Invalid(f"the token file {file} cannot be read: {error.__class__.__name__}", "invalid_token_file") from None
    if os.name == "posix" and mode & 0o077:
        raise Invalid(f"the token file {file} can be read by other users (mode {mode:04o}); run: chmod 600 {file}", "invalid_token_file")
    if not token:
        raise Invalid(f"the token file {file} is empty", "invalid_token_file")
    return check_header("token", token)


class TokenSource:
    """A token from a file is read again when a node refuses it."""

    def __init__(self, token: Optional[str] = None, file: Optional[str] = None) -> None:
        if token and file:
            raise Invalid("token and token_file are both given; give one of them", "invalid_token")
        self._file = file
        self._token = read_token(file) if file else check_header("token", token or "")

    def header(self) -> str:
        return f"Authorization: Bearer {self._token}\r\n" if self._token else ""

    def reload(self) -> bool:
        """Whether the file has another token now."""
        before = self._token
        if self._file:
            try:
                self._token = read_token(self._file)
            except Invalid:
                return False
        return self._token != before


def tls_context(ca: Optional[str] = None, cert: Optional[str] = None, key: Optional[str] = None) -> ssl.SSLContext:
    """From PEM files. `ca` verifies the nodes; None and "system" are the CAs of the machine. `cert` and `key`: of the client."""
    try:
        context = ssl.create_default_context(cafile=None if ca in (None, "system") else ca)
        if cert or key:
            context.load_cert_chain(cert or "", key)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"the certificates cannot be used (CA {ca}, certificate {cert}, key {key}): {error}", "invalid_certificate") from None
    return context


def of_environment(environment: Mapping[str, str]) -> Dict[str, Any]:
    """The settings that libholdfast and the command line use, too, as arguments of a client. TLS is on if one of the four of TLS
    is there."""
    values = {name: environment.get(f"HOLDFAST_{name}") or None
              for name in ("ENDPOINTS", "CA", "CERT", "KEY", "SERVER_NAME", "TOKEN_FILE", "TENANT")}
    settings: Dict[str, Any] = {"token_file": values["TOKEN_FILE"], "tenant": values["TENANT"], "server_name": values["SERVER_NAME"]}
    if values["ENDPOINTS"]:
        settings["endpoints"] = values["ENDPOINTS"]
    if any(values[name] for name in ("CA", "CERT", "KEY", "SERVER_NAME")):
        settings["tls"] = tls_context(values["CA"], values["CERT"], values["KEY"])
    return settings
