"""Lock libraries whose packages do not run here, by what they do on the wire: the commands and scripts of Redisson's
RedissonLock, of redsync (Go), bsm/redislock (Go) and Spring Integration's RedisLockRegistry (Java). The scripts are
written anew from those libraries' documentation and do the same commands on the same keys in the same order."""

import threading
import uuid

COMPARE_AND_DELETE = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
"""
COMPARE_AND_EXPIRE = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
"""


def token(client, lock):
    """The fencing token, which Holdfast gives to whoever names what only the owner knows; None: it is lost."""
    owner = lock.owner if hasattr(lock, "owner") else lock.local.token  # redis-py's own
    return client.execute_command("HF.TOKEN", lock.name, owner)


class ValueLock:
    """redsync's Mutex, and bsm/redislock's Lock up to 0.9.3: SET NX PX, and a random value that release and extension
    compare. Their scripts differ in the case of their commands only."""

    def __init__(self, client, name, ttl_ms=30000):
        self.client = client
        self.name = name
        self.ttl_ms = ttl_ms
        self.owner = self.value = uuid.uuid4().hex
        self._release = client.register_script(COMPARE_AND_DELETE.replace("'get'", "'GET'").replace("'del'", "'DEL'"))
        self._extend = client.register_script(COMPARE_AND_EXPIRE)

    def acquire(self):
        return self.client.set(self.name, self.value, nx=True, px=self.ttl_ms) is True

    def extend(self, ttl_ms):
        return self._extend(keys=[self.name], args=[self.value, ttl_ms]) == 1

    def release(self):
        return self._release(keys=[self.name], args=[self.value]) == 1


class BsmLock(ValueLock):
    """bsm/redislock's Lock of 0.9.4: obtained by a script, again by whoever has the same token in front of its value."""

    OBTAIN = """
    if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then
        return redis.status_reply('OK')
    end
    local size = tonumber(ARGV[2])
    if redis.call('getrange', KEYS[1], 0, size - 1) == string.sub(ARGV[1], 1, size) then
        return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[3])
    end
    """

    def __init__(self, client, name, ttl_ms=30000, token=None, metadata="of the lock"):
        super().__init__(client, name, ttl_ms)
        self.token = token or self.value
        self.owner = self.value = self.token + metadata
        self._obtain = client.register_script(self.OBTAIN)

    def acquire(self):
        return self._obtain(keys=self.keys(), args=[self.value, len(self.token), self.ttl_ms]) is not None

    def keys(self):
        return [self.name]


class BsmMultiLock(BsmLock):
    """bsm/redislock's Lock of 0.10: the same for several keys at once; here there are two."""

    OBTAIN = """
    local pairs = {}
    for _, key in ipairs(KEYS) do
        pairs[#pairs + 1] = key
        pairs[#pairs + 1] = ARGV[1]
    end
    if redis.call('msetnx', unpack(pairs)) ~= 1 then
        local size = tonumber(ARGV[2])
        for _, key in ipairs(KEYS) do
            if redis.call('getrange', key, 0, size - 1) ~= string.sub(ARGV[1], 1, size) then
                return false
            end
        end
        redis.call('mset', unpack(pairs))
    end
    for _, key in ipairs(KEYS) do
        redis.call('pexpire', key, ARGV[3])
    end
    return redis.status_reply('OK')
    """
    RELEASE = """
    local values = redis.call('mget', unpack(KEYS))
    for i in ipairs(KEYS) do
        if values[i] ~= ARGV[1] then
            return 0
        end
    end
    return redis.call('del', unpack(KEYS))
    """

    def __init__(self, client, name, *args, **options):
        super().__init__(client, name, *args, **options)
        self._release_all = client.register_script(self.RELEASE)

    def keys(self):
        return [self.name, self.name + "/second"]

    def release(self):
        return self._release_all(keys=self.keys(), args=[self.value]) == 2


class SpringLock:
    """RedisLockRegistry with pub/sub: obtains by script, is reentrant by its client's id, and tells a channel."""

    OBTAIN = """
    local holder = redis.call('GET', KEYS[1])
    if holder == ARGV[1] then
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return true
    elseif not holder then
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return true
    end
    return false
    """
    UNLINK = """
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('UNLINK', KEYS[1])
        redis.call('PUBLISH', ARGV[2], KEYS[1])
        return true
    end
    return false
    """

    def __init__(self, client, name, ttl_ms=30000):
        self.client = client
        self.name = name
        self.ttl_ms = ttl_ms
        self.channel = name + ":channel"
        self.owner = self.id = str(uuid.uuid4())
        self._obtain = client.register_script(self.OBTAIN)
        self._unlink = client.register_script(self.UNLINK)

    def acquire(self):
        return self._obtain(keys=[self.name], args=[self.id, self.ttl_ms]) == 1

    def release(self):
        return self._unlink(keys=[self.name], args=[self.id, self.channel]) == 1


class RedissonLock:
    """RedissonLock: a hash with one field, the holder (client id and thread), whose number is the depth; unlocking is
    published to a channel, which waiters listen to; a latch makes an unlock that is sent again harmless."""

    LOCK = """
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])
    """
    UNLOCK = """
    local done = redis.call('get', KEYS[3])
    if done ~= false then
        return tonumber(done)
    end
    if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
        return nil
    end
    local depth = redis.call('hincrby', KEYS[1], ARGV[3], -1)
    if depth > 0 then
        redis.call('pexpire', KEYS[1], ARGV[2])
        redis.call('set', KEYS[3], 0, 'px', ARGV[5])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call(ARGV[4], KEYS[2], ARGV[1])
    redis.call('set', KEYS[3], 1, 'px', ARGV[5])
    return 1
    """
    RENEW = """
    if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 1
    end
    return 0
    """
    FORCE_UNLOCK = """
    if redis.call('del', KEYS[1]) == 1 then
        redis.call(ARGV[2], KEYS[2], ARGV[1])
        return 1
    end
    return 0
    """
    UNLOCKED = "0"  # the message

    def __init__(self, client, name, ttl_ms=30000, thread=1):
        self.client = client
        self.name = name
        self.ttl_ms = ttl_ms
        self.owner = self.holder = f"{uuid.uuid4()}:{thread}"
        self.channel = "redisson_lock__channel:{" + name + "}"
        self._lock = client.register_script(self.LOCK)
        self._unlock = client.register_script(self.UNLOCK)
        self._renew = client.register_script(self.RENEW)
        self._force = client.register_script(self.FORCE_UNLOCK)

    def try_lock(self):
        """None: it is ours; else the milliseconds that it is another's."""
        return self._lock(keys=[self.name], args=[self.ttl_ms, self.holder])

    def acquire(self):
        return self.try_lock() is None

    def lock(self, timeout, subscribed=None):
        """Waits for the channel, as Redisson does, and tries again at a message or when the TTL is over."""
        if self.acquire():
            return True
        with self.client.pubsub() as pubsub:
            pubsub.subscribe(self.channel)
            assert pubsub.get_message(timeout=timeout)["type"] == "subscribe"
            while True:
                ttl_ms = self.try_lock()
                if ttl_ms is None:
                    return True
                if subscribed is not None:
                    subscribed.set()
                message = pubsub.get_message(timeout=min(ttl_ms / 1000, timeout))
                if message is None and ttl_ms / 1000 >= timeout:
                    return False

    def release(self):
        """True, False while it is still ours, None when it was not."""
        latch = f"redisson_unlock_latch:{{{self.name}}}:{uuid.uuid4().hex}"
        keys = [self.name, self.channel, latch]
        args = [self.UNLOCKED, self.ttl_ms, self.holder, "PUBLISH", 4500]
        first = self._unlock(keys=keys, args=args)
        if first is not None:
            assert self._unlock(keys=keys, args=args) == first  # as if the answer had been lost
            self.client.delete(latch)
        return None if first is None else first == 1

    def renew(self):
        return self._renew(keys=[self.name], args=[self.ttl_ms, self.holder]) == 1

    def force_unlock(self):
        return self._force(keys=[self.name, self.channel], args=[self.UNLOCKED, "PUBLISH"]) == 1

    def depth(self):
        return int(self.client.hget(self.name, self.holder) or 0)


class Alone:
    """Whoever is within is alone, and its token is higher than all before it."""

    def __init__(self):
        self.inside = threading.Lock()
        self.last = 0
        self.entered = 0

    def enter(self, client, lock):
        assert self.inside.acquire(blocking=False), "two are inside"
        try:
            mine = token(client, lock)
            assert mine > self.last, f"the token {mine} does not rise above {self.last}"
            self.last = mine
            self.entered += 1
        finally:
            self.inside.release()
