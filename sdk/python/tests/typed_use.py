"""Checked by mypy (test_package.py), never run: what an application writes, and what it must not write."""

from typing import Optional

import holdfast
from holdfast.testing import FakeCluster


def threads(client: holdfast.Client) -> int:
    def lost(lock: holdfast.Lock) -> None:
        print(lock.name)

    def requested(lock: holdfast.Lock, revocation: holdfast.Revocation) -> None:
        print(lock.name, revocation.actor, revocation.deadline)

    with client.lock("n", ttl=30, wait=0, tier=holdfast.CORRECTNESS, metadata={"a": [1]}, on_lost=lost, on_revoke=requested) as lock:
        lock.check()
        token: int = lock.fence_token
    maybe: Optional[holdfast.Lock] = client.lock("n", shared=True).try_acquire()
    with client.semaphore("pool", 3, permits=2) as permit:
        slot: Optional[int] = permit.slot
    with client.multi_lock(["a", "b"]) as both, client.lead("cron", "host") as leader:
        both.renew(20)
        leader.on_jeopardy(lost)
    with client.watch("prefix/") as watch:
        for event in watch:
            name: str = event.type
            print(name, slot, maybe)

    @client.lock("job")
    def job(number: int) -> str:
        return str(number)

    text: str = job(1)
    job("1")  # type: ignore[arg-type]
    client.lock("n", waits=5)  # type: ignore[call-arg]
    client.lead("n", tier=holdfast.EFFICIENCY)  # type: ignore[call-arg]
    client.lock("n", on_lost=requested)  # type: ignore[arg-type]
    lock.fence_token = 1  # type: ignore[misc]
    return token + len(text)


async def tasks(client: holdfast.AsyncClient) -> int:
    async with client.lock("n", on_lost=lambda lock: print(lock.fence_token)) as lock:
        await lock.renew(30)
    async for event in client.watch():
        print(event.data)

    @client.lock("job")
    async def job(number: int) -> str:
        return str(number)

    client.lock("n").__enter__()  # type: ignore[attr-defined]
    return lock.fence_token + len(await job(1))


def fake() -> None:
    cluster = FakeCluster()
    with cluster.client("a") as client, client.lock("n") as lock:
        cluster.lose(lock)
        cluster.revoke(lock, 5, reason="r")
    cluster.advance("1")  # type: ignore[arg-type]
