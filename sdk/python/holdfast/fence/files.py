"""The fence for files, and fences whose marks are in a file. The format is that of hf_fence_open_file, so programs in C and in Python
can share one:

    holdfast-fence 1
    TOKEN RESOURCE
    end COUNT

The lock is flock(2) on PATH.lock, which is never removed. A new file is written beside the old one, synced and renamed; then the folder
is synced. The mark is durable before the write that it permits: after a crash in between, an older token is refused, never accepted."""

import contextlib
import fcntl
import os
import time
from typing import Dict, Iterator, Union

from ..errors import HoldfastError, Invalid, LimitReached
from .base import RESOURCES, TOKENS, FenceBusy, StaleToken, check_arguments

FIRST_LINE = "holdfast-fence 1"
RESOURCE_OF_FILE = "file"  # in PATH.fence, which concerns one file
RETRY_S = 0.005  # flock(2) has no time limit
Path = Union[str, "os.PathLike[str]"]


class DamagedFence(HoldfastError):
    """The fence file cannot be read. Restore it, or remove it if the resource was never written."""

    code = "damaged_fence"


def replace_file(path: str, data: bytes) -> None:
    """Durably: after a crash the file is the old one or the new one."""
    new = path + ".new"
    try:
        mode = os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mode = None
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with open(fd, "wb") as file:
        if mode is not None:
            os.fchmod(fd, mode)
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.replace(new, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def parse(path: str, text: str) -> Dict[str, int]:
    lines = text.split("\n")
    marks: Dict[str, int] = {}
    good = len(lines) >= 3 and lines[0] == FIRST_LINE and lines[-1] == ""
    for line in lines[1:-2]:
        token, _, resource = line.partition(" ")
        good = good and token.isascii() and token.isdigit() and len(token) <= 16 and 0 < int(token) < TOKENS and resource != ""
        if good:
            marks[resource] = int(token)
    if not good or lines[-2] != f"end {len(marks)}":
        raise DamagedFence(f"{path} is no fence file, or is damaged: restore it, or remove it if the resource was never written")
    return marks


class FileFence:
    """Marks in a file, shared by all processes of the machine that open it. Not for a network file system. All its resources have
    one lock: use a file for each if their writes may run at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(os.fspath(path))

    @contextlib.contextmanager
    def _locked(self, resource: str, wait: float) -> Iterator[None]:
        fd = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            end = time.monotonic() + wait
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise FenceBusy(f"{resource}: {self.path}.lock was in use for longer than {wait:g} s") from None
                time.sleep(RETRY_S)
            yield
        finally:
            os.close(fd)

    def marks(self) -> Dict[str, int]:
        """The highest token of each resource."""
        try:
            with open(self.path, encoding="utf-8", newline="") as file:
                return parse(self.path, file.read())
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            return parse(self.path, "")

    @contextlib.contextmanager
    def guard(self, resource: str, token: int, wait: float = 5) -> Iterator[None]:
        check_arguments(resource, token)
        with self._locked(resource, wait):
            marks = self.marks()
            highest = marks.get(resource, 0)
            if token < highest:
                raise StaleToken(resource, token, highest)
            if token > highest:
                if highest == 0 and len(marks) >= RESOURCES:
                    raise LimitReached(f"{resource}: {self.path} has {RESOURCES} resources already", "too_many_resources")
                marks[resource] = token
                lines = [f"{marks[name]} {name}" for name in sorted(marks, key=lambda name: name.encode())]
                replace_file(self.path, "\n".join([FIRST_LINE, *lines, f"end {len(marks)}", ""]).encode())
            yield


def write_file(path: Path, data: bytes, token: int, wait: float = 5) -> None:
    """Replaces a file if no newer token was used for it; hf_fence_write_file in C. The mark is in PATH.fence. Raises StaleToken,
    FenceBusy, or OSError, after which the file is the old one."""
    place = os.path.abspath(os.fspath(path))
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isfile(place)):
        raise Invalid(f"{place} is not a regular file: pass the path of the file itself", "invalid_path")
    try:
        with FileFence(place + ".fence").guard(RESOURCE_OF_FILE, token, wait):
            replace_file(place, data)
    except StaleToken as stale:
        raise StaleToken(place, token, stale.highest) from None
