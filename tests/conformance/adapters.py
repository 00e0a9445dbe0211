"""The programs that drive the clients, one process for each client of a scenario."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import PATIENCE, ROOT, allowed, dies_with_us, environment

HELLO = 1
WORDS = {"held", "timeout", "delayed", "deadlock", "mismatch", "limit", "lost", "released", "cancelled", "denied", "invalid",
         "unreachable", "unknown", "closed", "forked", "stale", "unsupported", "other"}
EVENTS = {"jeopardy", "safe", "lost", "revoke_requested", "watch"}
C_ADAPTER = Path(os.environ.get("HOLDFAST_CONFORMANCE_C", ROOT / "build" / "tests" / "conformance" / "adapter"))
HERE = Path(__file__).resolve().parent


class Failed(AssertionError):
    """A client broke a rule, or its adapter the protocol."""


class Missing(Exception):
    """The adapter or the language is not on this machine."""


def need(program):
    found = f"/usr/bin/{program}" if os.access(f"/usr/bin/{program}", os.X_OK) else shutil.which(program)
    if found is None:
        raise Missing(f"{program} is not installed")
    return found


def c_command(_):
    if not C_ADAPTER.exists():
        raise Missing(f"there is no {C_ADAPTER}; run scripts/build release")
    return [C_ADAPTER]


def python_command(_):
    return [sys.executable, HERE / "adapter.py"]


def asyncio_command(_):
    return [sys.executable, HERE / "adapter.py", "asyncio"]


def go_command(folder):
    """Built in the scratch folder, with the compiled packages of this user if there are any."""
    go, program = need("go"), folder / "go-adapter"
    env = environment(GOENV="off", GOFLAGS="", GOPROXY="off", GOTOOLCHAIN="local", GO111MODULE="on")
    built = subprocess.run(dies_with_us([go, "build", "-o", program, "./conformance"]), cwd=ROOT / "sdk" / "go", env=env,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
    assert built.returncode == 0, f"go build ./conformance in sdk/go fails:\n{built.stderr}"
    return [program]


def node_command(_):
    script = ROOT / "sdk" / "node" / "conformance" / "adapter.mjs"
    if not script.exists():
        raise Missing(f"there is no {script}")
    return [need("node"), script]


class Language:
    """A client to test: its name, its column of the table, and how its adapter is started."""

    patience = PATIENCE  # seconds until a wait without another limit is given up

    def __init__(self, name, title, make_command):
        self.name = name
        self.title = title
        self._make_command = make_command
        self._lock = threading.Lock()
        self._command = None
        self._missing = None
        self._hello = None

    def command(self, folder):
        """Made once. Raises Missing."""
        with self._lock:
            if self._missing is not None:
                raise Missing(self._missing)
            if self._command is None:
                try:
                    self._command = [str(word) for word in self._make_command(folder)]
                except Missing as missing:
                    self._missing = str(missing)
                    raise
            return self._command

    def hello(self, folder):
        """What its adapter says of itself."""
        command = self.command(folder)
        with self._lock:
            if self._hello is None:
                client = Client("hello", command, folder / f"{self.name}-hello.stderr")
                self._hello = client.hello
                client.kill()
            return self._hello


LANGUAGES = [
    Language("c", "C", c_command),
    Language("python", "Python", python_command),
    Language("python-asyncio", "Python asyncio", asyncio_command),
    Language("go", "Go", go_command),
    Language("node", "Node.js", node_command),
]


class Command:
    """One command that was sent to an adapter."""

    def __init__(self, ident, words):
        self.id = ident
        self.words = words
        self.sent = time.monotonic()
        self.answered = None
        self.answer = None


class Event:
    def __init__(self, words):
        self.words = words
        self.at = time.monotonic()
        self.taken = False


class Client:
    """One adapter, and what it has said. The runner's thread sends; a thread of its own reads."""

    def __init__(self, name, command, stderr_path):
        self.name = name
        self.stderr_path = stderr_path
        self.transcript = []
        self.events = []
        self.paused = False
        self.fault = None  # a line that breaks the protocol, or the end of the process
        self._commands = {}
        self._changed = threading.Condition()
        self._is_ending = False
        with open(stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(dies_with_us(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                                            env=environment(PYTHONDONTWRITEBYTECODE=1))
        self.hello = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait(lambda: self.hello, "the hello of the adapter")
        except Failed:
            self.kill()
            raise

    def stderr(self):
        return self.stderr_path.read_text(encoding="utf-8", errors="replace")

    # --- lines ---

    def note(self, arrow, words):
        self.transcript.append((time.monotonic(), self.name, arrow, words))

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError, AssertionError) as error:
                    self.fault = self.fault or f"the adapter wrote a line that is not of the protocol: {line!r} ({error!r})"
                self._changed.notify_all()
        with self._changed:
            if not self._is_ending:
                self.fault = self.fault or "the adapter ended"
            self._changed.notify_all()

    def _take(self, words):
        assert isinstance(words, dict), "no object"
        self.note("<-", words)
        if self.hello is None:
            assert words["hello"] == HELLO and isinstance(words["features"], list), f"no hello of version {HELLO}"
            assert words["clock"] in ("boottime", "larger"), "no clock of the protocol"
            self.hello = words
        elif "id" in words and "event" not in words:
            command = self._commands[words["id"]]
            assert command.answer is None, "a second answer"
            assert words["ok"] is True or words["error"] in WORDS, "no word of the protocol"
            command.answer, command.answered = words, time.monotonic()
        else:
            assert words["event"] in EVENTS and isinstance(words["handle"], str), "no event of the protocol"
            self.events.append(Event(words))

    def send(self, do, **arguments):
        with self._changed:
            ident = len(self._commands) + 1
            command = self._commands[ident] = Command(ident, {"id": ident, "do": do, **arguments})
            self.note("->", command.words)
        try:
            self.process.stdin.write(json.dumps(command.words).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Failed(f"the adapter of {self.name} has ended") from None
        return command

    def wait(self, condition, what, seconds=PATIENCE):
        """Until it is true; `condition` is called with the lock."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                value = condition()
                if value:
                    return value
                if self.fault is not None:
                    raise Failed(f"{self.name}: {self.fault}\n{self.stderr()[-2000:]}")
                left = end - time.monotonic()
                if left <= 0:
                    raise Failed(f"{self.name}: not within {seconds:.1f} s: {what}")
                self._changed.wait(left)

    def answer(self, command, seconds=PATIENCE):
        self.wait(lambda: command.answer, f"the answer to {command.words}", seconds)
        return command.answer

    def next_event(self, kind, handle):
        """The next one that was not taken yet, or None."""
        for event in self.events:
            if not event.taken and event.words["event"] == kind and event.words["handle"] == handle:
                return event
        return None

    # --- the process ---

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def kill(self):
        with self._changed:
            self._is_ending = True
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
