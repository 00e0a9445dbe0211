"""aioredlock, whose packages have no tests, through its documented API."""

import asyncio
import time
import uuid

import aioredis
import pytest
from aioredlock import Aioredlock, LockError

ADDRESS = "redis://127.0.0.1:6379/0"


def run(routine):
    """Calls routine(two managers, a plain client, a fresh key)."""
    async def all_of_it():
        managers = [Aioredlock([ADDRESS], retry_count=1), Aioredlock([ADDRESS], retry_count=100, retry_delay_min=0.02, retry_delay_max=0.05)]
        client = await aioredis.create_redis(ADDRESS)
        try:
            await routine(managers, client, uuid.uuid4().hex)
        finally:
            for manager in managers:
                await manager.destroy()
            client.close()
            await client.wait_closed()

    asyncio.run(all_of_it())


def test_acquires_and_releases():
    async def routine(managers, client, key):
        lock = await managers[0].lock(key, lock_timeout=5)
        assert lock.valid and await managers[1].is_locked(key)
        assert 0 < await client.pttl(key) <= 5000
        await managers[0].unlock(lock)
        assert not lock.valid and not await managers[1].is_locked(key)

    run(routine)


def test_refuses_a_lock_that_is_held():
    async def routine(managers, client, key):
        await managers[1].lock(key, lock_timeout=5)
        with pytest.raises(LockError):
            await managers[0].lock(key, lock_timeout=5)

    run(routine)


def test_waits_for_the_release():
    async def routine(managers, client, key):
        lock = await managers[0].lock(key, lock_timeout=10)
        waiting = asyncio.create_task(managers[1].lock(key, lock_timeout=10))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await managers[0].unlock(lock)
        assert (await waiting).valid

    run(routine)


def test_acquires_after_the_end_of_a_lease_not_before():
    async def routine(managers, client, key):
        began = time.monotonic()
        await client.set(key, "a client that is gone", pexpire=300)
        assert (await managers[1].lock(key, lock_timeout=5)).valid
        assert time.monotonic() - began >= 0.295

    run(routine)


def test_extends():
    async def routine(managers, client, key):
        lock = await managers[0].lock(key, lock_timeout=1)
        await managers[0].extend(lock, lock_timeout=10)
        assert await client.pttl(key) > 5000

    run(routine)


def test_refuses_to_extend_and_to_release_the_lock_of_another():
    async def routine(managers, client, key):
        lock = await managers[0].lock(key, lock_timeout=5)
        await client.delete(key)
        await client.set(key, "another holder", pexpire=5000, exist=client.SET_IF_NOT_EXIST)
        with pytest.raises(LockError):
            await managers[0].extend(lock, lock_timeout=10)
        with pytest.raises(LockError):
            await managers[0].unlock(lock)
        assert await client.get(key) == b"another holder"

    run(routine)


def test_never_has_two_holders():
    async def routine(managers, client, key):
        inside = entered = 0

        async def work():
            nonlocal inside, entered
            manager = Aioredlock([ADDRESS], retry_count=500, retry_delay_min=0.01, retry_delay_max=0.03)
            try:
                for _ in range(4):
                    async with await manager.lock(key, lock_timeout=10):
                        inside += 1
                        assert inside == 1
                        await asyncio.sleep(0.005)
                        inside -= 1
                        entered += 1
            finally:
                await manager.destroy()

        await asyncio.gather(*[work() for _ in range(5)])
        assert entered == 20

    run(routine)
