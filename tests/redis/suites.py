"""The suites: which package has the tests of which library, and how they are run.

Three kinds. `Debian`: the upstream archive of a Debian source package, of whichever release of Debian has this
version. `Npm`: a package of tests/node/package.json that has its tests in it. `Program`: a library whose packages
have no tests, driven by a program of ours in programs/."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Debian:
    package: str
    version: str  # of upstream
    releases: tuple  # code names, in the order in which they are tried
    folder: str = ""  # only this folder of the archive


@dataclass(frozen=True)
class Npm:
    package: str  # its name in node_modules
    uses: dict = field(default_factory=dict)  # a name that its tests require: the package of node_modules in its place


@dataclass(frozen=True)
class Program:
    file: str
    library: str  # as the program knows it
    source: object  # of the library


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    source: object
    runner: str  # a function of runners.py
    tests: tuple = ()  # files of the archive; a program of ours has its own
    options: tuple = ()
    env: dict = field(default_factory=dict)
    python: tuple = ()  # modules that it imports
    programs: tuple = ()  # programs that it needs
    port: int = 6379  # of the first node, and of Redis
    short: bool = False  # `make test` runs it
    seconds: int = 300


REDIS_PY = Debian("python-redis", "6.4.0", ("forky", "sid"))
REDIS_PY_OPTIONS = ("--redis-url", "redis://127.0.0.1:6379/0")


def npm(name, package, title, **more):
    uses = more.pop("uses", {})
    return Suite(name, title, Npm(package, uses), "mocha", programs=("node",), **more)


def program(library, title, **more):
    return Suite(f"ours-{library}", title, Program("locks.js", library, Npm(more.pop("package", library))), "mocha", programs=("node",),
                 short=True, **more)


SUITES = (
    Suite("redis-py-lock", "redis-py: locks, sync and asyncio", REDIS_PY, "pytest",
          ("tests/test_lock.py", "tests/test_asyncio/test_lock.py"), REDIS_PY_OPTIONS, python=("pytest_asyncio",), short=True),
    Suite("redis-py-client", "redis-py: pub/sub, scripts, pipelines, connections", REDIS_PY, "pytest",
          ("tests/test_pubsub.py", "tests/test_scripting.py", "tests/test_pipeline.py", "tests/test_connect.py", "tests/test_connection.py",
           "tests/test_connection_pool.py", "tests/test_encoding.py", "tests/test_multiprocessing.py",
           "tests/test_asyncio/test_pubsub.py", "tests/test_asyncio/test_scripting.py", "tests/test_asyncio/test_pipeline.py",
           "tests/test_asyncio/test_connection.py", "tests/test_asyncio/test_connection_pool.py"),
          REDIS_PY_OPTIONS, python=("pytest_asyncio",), seconds=600),
    Suite("sherlock", "sherlock: Redis locks", Debian("python-sherlock", "0.4.1", ("trixie", "forky", "sid")), "pytest",
          ("tests/integration/test_lock.py",), ("-k", "TestRedisLock"), {"REDIS_HOST": "127.0.0.1"}, python=("etcd", "kubernetes", "pylibmc")),
    Suite("portalocker", "portalocker: RedisLock", Debian("portalocker", "3.1.1", ("trixie",)), "pytest", ("portalocker_tests/test_redis.py",)),
    Suite("aiocache", "aiocache: RedLock and optimistic locks", Debian("aiocache", "0.12.3", ("trixie", "forky", "sid")), "pytest",
          ("tests/acceptance/test_lock.py",), ("-k", "not memcached and not memory"), python=("pytest_asyncio", "pytest_mock")),
    Suite("django-redis", "django-redis: cache.lock", Debian("django-redis", "5.4.0", ("trixie",)), "pytest", ("tests/test_backend.py",),
          ("-k", "lock"), {"DJANGO_SETTINGS_MODULE": "settings.sqlite"}, python=("django", "pytest_django", "pytest_mock", "msgpack")),
    Suite("symfony-lock", "Symfony Lock: stores of phpredis and Predis", Debian("symfony", "6.4.41+dfsg", ("trixie",), "src/Symfony/Component/Lock"),
          "phpunit", ("src/Symfony/Component/Lock/Tests/Store",),
          ("--filter", "RedisStoreTest|PredisStoreTest|RedisArrayStoreTest|RetryTillSaveStoreTest"),
          {"REDIS_HOST": "127.0.0.1:6379", "SUITE_CLASSES": r"Symfony\Component\Lock\=src/Symfony/Component/Lock"}, programs=("phpunit",)),
    Suite("malkusch-lock", "malkusch/lock: mutexes of phpredis and Predis", Debian("php-malkusch-lock", "2.3.0+ds", ("trixie", "sid")), "phpunit",
          ("tests/mutex/PHPRedisMutexTest.php", "tests/mutex/MutexTest.php"), ("--filter", "[Rr]edis"),
          {"REDIS_URIS": "redis://127.0.0.1:6379", "SUITE_CLASSES": r"malkusch\lock\Tests\=tests,malkusch\lock\=src"}, programs=("phpunit",)),
    Suite("aioredlock", "aioredlock", Program("locks_aioredlock.py", "aioredlock", Debian("python-aioredlock", "0.7.3", ("forky", "sid"))), "pytest",
          python=("aioredis",)),
    npm("redlock", "redlock", "redlock 4", tests=("test.js",), uses={"redis": "redis3"}, short=True),
    npm("redlock-3", "redlock3", "redlock 3", tests=("test.js",), uses={"redis": "redis2"}),
    npm("redlock-node", "redlock-node", "redlock-node", tests=("test.js",), uses={"redis": "redis2"}),
    npm("redis-lock", "redis-lock", "redis-lock", tests=("test/test.js",), uses={"redis": "redis4"}),
    npm("node-redis-lock", "node-redis-lock", "node-redis-lock", tests=("test/index.js",), uses={"redis": "redis2"}),
    npm("redis-mutex", "redis-mutex", "redis-mutex (npm)", tests=("test/test.js",), uses={"redis": "redis2"}, options=("-t", "10000")),
    npm("warlock", "node-redis-warlock", "node-redis-warlock", tests=("test/warlock.js",), uses={"redis": "redis3"}, port=6386),
    npm("redislock", "redislock", "redislock", tests=("spec/integration",), uses={"redis": "redis2"}),
    npm("ioredis", "ioredis1", "ioredis 1, the last version with its tests", options=("--file", "test/helpers/global.js"),
        tests=tuple(f"test/functional/{name}.js" for name in (
            "auth", "connection", "lazy_connect", "monitor", "pipeline", "pub_sub", "ready_check", "reconnect_on_error", "scan_stream",
            "scripting", "select", "send_command", "transaction", "transformer", "watch-exec")),
        uses={"redis": "redis2", "chai": "chai2"}),
    program("redlock5", "redlock 5"),
    program("sesamecare-redlock", "@sesamecare-oss/redlock", package="@sesamecare-oss/redlock"),
    program("microfleet-ioredis-lock", "@microfleet/ioredis-lock", package="@microfleet/ioredis-lock"),
    program("redis-semaphore", "redis-semaphore: mutex, semaphores, and their Redlock kinds"),
    program("simple-redis-mutex", "simple-redis-mutex"),
)
