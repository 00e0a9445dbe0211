#!/usr/bin/python3
"""The adapter of the Python client; README.md has the protocol. `adapter.py asyncio` uses holdfast.AsyncClient instead of holdfast.Client.

The main thread has a loop of asyncio. It reads the commands; what blocks runs on threads."""

import asyncio
import inspect
import json
import logging
import os
import ssl
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk" / "python"))

import holdfast  # noqa: E402
from holdfast.clock import BootClock, system_clock  # noqa: E402
from holdfast.fence.base import MemoryFence, StaleToken  # noqa: E402

ASYNC = sys.argv[1:] == ["asyncio"]
FEATURES = ["shared", "semaphore", "multi", "lead", "efficiency", "http", "max_hold", "lock_delay", "try_acquire", "renew", "threads", "watch",
            "fence", "fork", "tls", "client_certificate", "token", "circuit", "jeopardy", "safe", "revoke", "cancel"] + ([] if ASYNC else ["slow_callback"])

WORDS = [  # the special errors first
    (holdfast.WaitTimeout, "timeout"), (holdfast.LockLost, "lost"), (holdfast.NotHeld, "released"), (holdfast.Unreachable, "unreachable"),
    (holdfast.OutcomeUnknown, "unknown"), (holdfast.Denied, "denied"), (holdfast.Invalid, "invalid"), (holdfast.LimitReached, "limit"),
    (holdfast.Forked, "forked"), (holdfast.Closed, "closed"), (StaleToken, "stale"),
]
CODES = {"held": "held", "delayed": "delayed", "deadlock": "deadlock", "mode_mismatch": "mismatch", "limit_mismatch": "mismatch"}


class Unsupported(Exception):
    pass


def word_of(error):
    if isinstance(error, Unsupported):
        return "unsupported"
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    for kind, word in WORDS:
        if isinstance(error, kind):
            return word
    return CODES.get(getattr(error, "code", ""), "other")


writing = threading.Lock()


def write(**line):
    with writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def seconds(ms):
    return None if ms is None else ms / 1000


def safe_ms(lock):
    return int(lock.safe_for * 1000)


def nothing(_):
    return {}


def why(lock):
    try:
        lock.check()
    except holdfast.HoldfastError as error:
        return {"why": error.code}
    return {"why": ""}


def deadline(_, revocation):
    at = revocation.deadline
    return {} if at is None else {"deadline_ms": int(1000 * (at - datetime.now(timezone.utc)).total_seconds())}


class Adapter:
    def __init__(self):
        self.client = None
        self.locks = {}
        self.watches = {}
        self.running = {}
        self.fence = MemoryFence()
        self.threads = ThreadPoolExecutor(64)

    async def blocking(self, call, *arguments):
        """The facade for threads blocks, that for asyncio is awaited."""
        if ASYNC:
            value = call(*arguments)
            return await value if inspect.isawaitable(value) else value
        return await asyncio.get_running_loop().run_in_executor(self.threads, call, *arguments)

    def open(self, endpoints, session_ttl_ms=None, timeout_ms=None, client_id=None, ca=None, cert=None, key=None, server_name=None,
             token_file=None, tenant=None):
        more = {"session_ttl": seconds(session_ttl_ms), "timeout": seconds(timeout_ms), "client_id": client_id, "tenant": tenant,
                "server_name": server_name, "token_file": token_file}
        if ca is not None:
            more["tls"] = ssl.create_default_context(cafile=ca)
            if cert is not None:
                more["tls"].load_cert_chain(cert, key)
        kind = holdfast.AsyncClient if ASYNC else holdfast.Client
        self.client = kind(endpoints, **{name: value for name, value in more.items() if value is not None})

    def request(self, do, handle, name=None, names=None, ttl_ms=None, wait_ms=-1, mode="exclusive", limit=None, permits=None,
                tier=None, max_hold_ms=None, lock_delay_ms=None, slow_callback_ms=0, value=None):
        def report(kind, more):
            def callback(*arguments):
                time.sleep(slow_callback_ms / 1000)
                write(event=kind, handle=handle, **more(*arguments))
            return callback

        more = {"ttl": seconds(ttl_ms), "wait": None if wait_ms == -1 else seconds(wait_ms), "tier": tier, "max_hold": seconds(max_hold_ms),
                "lock_delay": seconds(lock_delay_ms), "permits": permits, "value": value}
        more = {key: value for key, value in more.items() if value is not None}
        more.update(on_lost=report("lost", why), on_jeopardy=report("jeopardy", nothing), on_safe=report("safe", nothing),
                    on_revoke=report("revoke_requested", deadline))
        if do == "lead":
            return self.client.lead(name, **more)
        if names is not None:
            return self.client.multi_lock(names, **more)
        if mode == "semaphore":
            return self.client.semaphore(name, limit, **more)
        return self.client.lock(name, shared=mode == "shared", **more)

    def granted(self, handle, lock):
        self.locks[handle] = lock
        answer = {"token": str(lock.fence_token), "safe_for_ms": safe_ms(lock)}
        return answer if lock.slot is None else {**answer, "slot": lock.slot}

    async def acquire(self, do, handle, **more):
        request = self.request(do, handle, **more)
        try:
            return self.granted(handle, await self.blocking(request.acquire))
        except asyncio.CancelledError:
            if not ASYNC:
                request.cancel()  # its thread still waits
            raise

    async def try_acquire(self, do, handle, **more):
        lock = await self.blocking(self.request(do, handle, wait_ms=0, **more).try_acquire)
        return {"acquired": False} if lock is None else {"acquired": True, **self.granted(handle, lock)}

    lead = acquire

    def cancel(self, command):
        if command in self.running:
            self.running[command].cancel()

    async def check(self, handle, thread=False):
        lock = self.locks[handle]
        if thread:
            await asyncio.get_running_loop().run_in_executor(self.threads, lock.check)
        else:
            lock.check()
        return {"safe_for_ms": safe_ms(lock)}

    def token(self, handle):
        return {"token": str(self.locks[handle].fence_token)}

    async def renew(self, handle, ttl_ms):
        await self.blocking(self.locks[handle].renew, ttl_ms / 1000)
        return {"safe_for_ms": safe_ms(self.locks[handle])}

    async def release(self, handle):
        await self.blocking(self.locks[handle].release)

    def watch(self, handle, prefix="", last_id=None):
        watch = self.watches[handle] = self.client.watch(prefix, last_id)

        def write_event(event):
            more = {"id": event.id} if event.id else {}
            if "name" in event.data:
                more["name"] = event.data["name"]
            write(event="watch", handle=handle, type=event.type, **more)

        async def read_async():
            async for event in watch:
                write_event(event)

        def read():
            for event in watch:
                write_event(event)

        if ASYNC:
            self.watches[handle] = asyncio.get_running_loop().create_task(read_async())
        else:
            threading.Thread(target=read, daemon=True).start()

    def unwatch(self, handle):
        watch = self.watches.pop(handle)
        watch.cancel() if ASYNC else watch.close()

    def fence_check(self, resource, token):
        with self.fence.guard(resource, int(token)):
            pass

    async def close(self):
        await self.blocking(self.client.close)

    def fork_check(self, handle):
        """The child counts what does not raise Forked, and tells by a pipe."""
        lock, client = self.locks[handle], self.client

        def started(make):  # a coroutine does nothing before it is awaited
            value = make()
            if inspect.iscoroutine(value):
                value.send(None)
            return value

        uses = [lock.check, lambda: lock.fence_token, lambda: lock.held, lambda: lock.safe_for, lambda: lock.in_jeopardy,
                lambda: started(lock.release), lambda: started(lambda: lock.renew(5)), lambda: started(client.lock("n", wait=0).acquire),
                lambda: started(client.lead("n", wait=0).acquire)]
        if not ASYNC:
            uses.append(lambda: next(client.watch()))
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            not_raised = 0
            for use in uses:
                try:
                    use()
                    not_raised += 1
                except holdfast.Forked:
                    pass
                except BaseException:  # another error is not the one that was promised
                    not_raised += 1
            os.write(theirs, bytes([not_raised]))
            os._exit(0)
        os.close(theirs)
        not_raised = os.read(ours, 1)
        os.close(ours)
        os.waitpid(child, 0)
        return {"uses": len(uses), "not_raised": not_raised[0]}

    async def run(self, line):
        ident, do = line.pop("id"), line.pop("do")
        try:
            call = getattr(self, do) if do in COMMANDS else None
            if call is None:
                raise Unsupported(do)
            if do in ("acquire", "try_acquire", "lead"):
                line["do"] = do
            try:
                inspect.signature(call).bind(**line)
            except TypeError as error:
                raise Unsupported(str(error)) from None
            value = call(**line)
            answer = {"ok": True, **((await value if inspect.isawaitable(value) else value) or {})}
        except (Exception, asyncio.CancelledError) as error:
            word = word_of(error)
            answer = {"ok": False, "error": word, "code": getattr(error, "code", word), "message": str(error)}
        self.running.pop(ident, None)
        write(id=ident, **answer)

    async def serve(self):
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader(limit=1 << 20)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while text := await lines.readline():
            line = json.loads(text)
            ident = line["id"]
            self.running[ident] = loop.create_task(self.run(line))
        os._exit(0)


COMMANDS = {"open", "acquire", "try_acquire", "lead", "cancel", "check", "token", "renew", "release", "watch", "unwatch", "fence_check",
            "close", "fork_check"}


def main():
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    clock = "boottime" if isinstance(system_clock(), BootClock) else "larger"
    write(hello=1, client="python-asyncio" if ASYNC else "python", clock=clock, features=FEATURES)
    asyncio.run(Adapter().serve())


if __name__ == "__main__":
    main()
