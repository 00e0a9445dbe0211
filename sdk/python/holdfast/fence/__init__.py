"""Fences: a resource refuses a write with a stale token. docs/FENCES.md says which one fits which store.

    with MemoryFence().guard("wallet:7", token): ...       the mark in this process
    with FileFence("/var/lib/app/fence").guard(...): ...   the mark in a file, for all processes of a machine
    files.write_file(path, data, token)                    a file
    sqlite.transaction(connection, "wallet:7", token)      a database of SQLite
    objects.put(store, key, data, token)                   an object, by conditional put
    web.FenceWSGI, web.FenceASGI, grpc.FenceInterceptor    requests to a service"""

from .base import Fence, FenceBusy, MemoryFence, StaleToken
from .files import FileFence

__all__ = ["Fence", "FenceBusy", "FileFence", "MemoryFence", "StaleToken"]
