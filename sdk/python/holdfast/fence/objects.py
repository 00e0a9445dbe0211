"""The fence for object stores with conditional put (If-Match, If-None-Match), such as S3.

The first line of the object is its token. A writer reads it, refuses itself if it is newer than its own, and puts the object on
the condition that the ETag is the one that it read. If another writer was faster, the store refuses the put and the writer reads again.

The token is in the content, not in the metadata, on purpose: the ETag of S3 is the MD5 of the content. If a newer holder writes the same
content again, the ETag without the token would be the same, and the condition of a stale writer would hold."""

import http.client
from typing import Dict, Mapping, Optional, Protocol, Tuple
from urllib.parse import quote, urlsplit

from ..errors import HoldfastError
from .base import TOKENS, FenceBusy, StaleToken, check_arguments

WORD = b"holdfast-token "
LINE_BYTES = len(WORD) + 17  # a token has at most 16 digits
ATTEMPTS = 16


class NotFenced(HoldfastError):
    """The object exists and has no token: it was not written through the fence."""

    code = "not_fenced"


class ObjectStore(Protocol):
    def read(self, key: str, limit: Optional[int] = None) -> Optional[Tuple[bytes, str]]:
        """The content, or its first `limit` bytes, and the ETag of the whole object. None: there is no such object."""

    def write(self, key: str, body: bytes, etag: Optional[str]) -> bool:
        """Puts the object if its ETag is still this one; None: if it does not exist. False: the condition does not hold."""


def _split(key: str, body: bytes) -> Tuple[int, bytes]:
    line, end, data = body.partition(b"\n")
    digits = line[len(WORD):]
    if not end or not line.startswith(WORD) or not digits.isdigit() or len(digits) > 16 or not 0 < int(digits) < TOKENS:
        raise NotFenced(f"{key} was not written through the fence: write it under another key")
    return int(digits), data


def get(store: ObjectStore, key: str) -> Optional[bytes]:
    """The content without the line of the token."""
    found = store.read(key)
    return None if found is None else _split(key, found[0])[1]


def put(store: ObjectStore, key: str, data: bytes, token: int) -> None:
    """Raises StaleToken if a newer token was used for the object. After an error of the connection it may have been put: repeat it."""
    check_arguments(key, token)
    for _ in range(ATTEMPTS):
        found = store.read(key, LINE_BYTES)
        if found is not None:
            highest, _ = _split(key, found[0])
            if token < highest:
                raise StaleToken(key, token, highest)
        if store.write(key, WORD + str(token).encode() + b"\n" + data, None if found is None else found[1]):
            return
    raise FenceBusy(f"{key}: other writers changed it {ATTEMPTS} times")


class HttpStore:
    """An object store over HTTP: GET with Range, PUT with If-Match and If-None-Match. `url` is that of the bucket; `headers` are sent
    with each request. For S3 itself, implement ObjectStore with its own client, which signs: put_object(IfMatch=...)."""

    def __init__(self, url: str, headers: Optional[Mapping[str, str]] = None, timeout: float = 10) -> None:
        self._url = urlsplit(url)
        self._headers = dict(headers or {})
        self._timeout = timeout

    def _request(self, method: str, key: str, headers: Dict[str, str], body: Optional[bytes] = None) -> Tuple[int, str, bytes]:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.netloc, timeout=self._timeout)
        try:
            connection.request(method, f"{self._url.path.rstrip('/')}/{quote(key)}", body, {**self._headers, **headers})
            answer = connection.getresponse()
            return answer.status, answer.getheader("ETag") or "", answer.read()
        finally:
            connection.close()

    def read(self, key: str, limit: Optional[int] = None) -> Optional[Tuple[bytes, str]]:
        status, etag, body = self._request("GET", key, {} if limit is None else {"Range": f"bytes=0-{limit - 1}"})
        if status == 404:
            return None
        if status == 416:  # it is empty, so it has no first bytes
            return b"", etag
        if status not in (200, 206) or not etag:
            raise HoldfastError(f"{key}: the store answered GET with {status}, ETag {etag!r}", "object_store")
        return body, etag

    def write(self, key: str, body: bytes, etag: Optional[str]) -> bool:
        status, _, _ = self._request("PUT", key, {"If-None-Match": "*"} if etag is None else {"If-Match": etag}, body)
        if status in (404, 409, 412):  # 404: removed since; 409: another conditional put is under way
            return False
        if status not in (200, 201, 204):
            raise HoldfastError(f"{key}: the store answered PUT with {status}", "object_store")
        return True
