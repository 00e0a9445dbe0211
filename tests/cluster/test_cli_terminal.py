"""`holdfast lock` on a terminal: ^C and ^Z reach the command, the shell's job control works."""

import os
import pty
import re
import select
import signal
import sys
import time

import pytest

from cli_support import cluster, endpoints  # noqa: F401  (a fixture)
from harness import PATIENCE, PROGRAM, SANITIZED, environment, need_terminal, wait_until


# A command that is to be stopped must not be a shell about to start another one: dash uses vfork, and when
# ^Z stops its child before execve the shell hangs in the kernel and is never reported as stopped, with or
# without us. Hence `exec`.


class Terminal:
    """A program as the leader of a session with a terminal of its own."""

    def __init__(self, cluster, *command, term="dumb"):
        env = environment(HOLDFAST_ENDPOINTS=endpoints(cluster), PS1="$ ", TERM=term, HISTFILE="")
        need_terminal()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(str(command[0]), [str(word) for word in command], env)
        self.text = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=PATIENCE):
        """Reads until the pattern has come, and forgets what was up to there."""
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], \
                f"{pattern!r} did not come, but {self.text!r}"
            try:
                self.text += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the end came before {pattern!r}: {self.text!r}") from None

    def end(self):
        """The exit code."""
        try:
            while piece := os.read(self.fd, 4096):
                self.text += piece.decode(errors="replace")
        except OSError:
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_the_command_has_the_terminal_and_reads_from_it(cluster):
    t = Terminal(cluster, PROGRAM, "lock", "tty", "--", "sh", "-c",
                 "test -t 0 && test -t 1 && echo it is one; read word; echo got $word; exit 6")
    t.expect("it is one")
    t.type("hello\n")
    t.expect("got hello")
    assert t.end() == 6


def test_interrupt_reaches_the_command(cluster):
    t = Terminal(cluster, PROGRAM, "lock", "tty", "--", "sh", "-c",
                 "trap 'echo interrupted; exit 7' INT; echo up; while :; do sleep 0.05; done")
    t.expect("up")
    t.type("\x03")
    t.expect("interrupted")
    assert t.end() == 7


def test_interrupt_while_it_waits_ends_it(cluster):
    cluster.nodes[1].acquire("tty/held", client="other")
    t = Terminal(cluster, PROGRAM, "lock", "-v", "tty/held", "--", "echo", "never")
    wait_until(lambda: cluster.nodes[1].show("tty/held").json["queue_length"] == 1, "it waits")
    t.type("\x03")
    t.expect("ended by a signal")
    assert t.end() == -signal.SIGINT  # a shell calls it 130


JOB = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGCONT, lambda *_: print("again", flush=True))
print("up", flush=True)
while True:
    signal.pause()
"""


def test_stop_and_foreground_work_as_with_any_job(cluster, tmp_path):
    job = tmp_path / "job"
    job.write_text(JOB)
    t = Terminal(cluster, "bash", "--norc", "-i")
    t.expect(r"\$ ")
    t.type(f"{PROGRAM} lock tty/job -- {sys.executable} {job}\n")
    t.expect(r"\nup")
    t.type("\x1a")
    t.expect("Stopped")
    t.type("echo shell $((6 * 7))\n")
    t.expect("shell 42")
    t.type("fg\n")
    t.expect("again")  # it has the terminal now, and not the shell
    t.type("\x03")
    t.expect(r"\$ ")
    t.type("echo code $?\n")
    t.expect("code 130")
    t.type("exit\n")
    t.end()


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("name", ["tty/script", "tty/kept"])
def test_interrupt_ends_the_script_around_it_too(cluster, shell, name):
    cluster.nodes[1].acquire("tty/kept", client="other")  # there it waits
    t = Terminal(cluster, shell, "-c", f"{PROGRAM} lock {name} -- sh -c 'echo up; sleep 60'; echo went on")
    if name == "tty/kept":
        wait_until(lambda: cluster.nodes[1].show(name).json["queue_length"] == 1, "it waits")
    else:
        t.expect("up")
    t.type("\x03")
    assert t.end() == -signal.SIGINT
    assert "went on" not in t.text
    if name == "tty/kept":
        wait_until(lambda: cluster.nodes[1].show(name).json["queue_length"] == 0, "it has left")


def test_a_job_that_stays_stopped_loses_its_lock_and_is_ended(cluster):
    t = Terminal(cluster, "bash", "--norc", "-i")
    t.expect(r"\$ ")
    t.type(f"{PROGRAM} lock --ttl {6 if SANITIZED else 2}s tty/late -- sh -c 'echo up; exec sleep 600'\n")
    t.expect(r"\nup")
    t.type("\x1a")
    t.expect("Stopped")
    wait_until(lambda: not cluster.nodes[1].show("tty/late").json["held"], "it is lost")
    t.type("fg\n")
    t.expect(r"tty/late was lost \(")
    t.type("echo code $?\n")
    t.expect("code 79")
    t.type("exit\n")
    t.end()


def test_a_pipeline_keeps_the_terminal_for_its_other_end(cluster):
    t = Terminal(cluster, "bash", "--norc", "-i")
    t.expect(r"\$ ")
    t.type(f"{PROGRAM} lock tty/pipe -- echo through | sh -c 'cat; read word </dev/tty; echo got $word'\n")
    t.expect(r"\nthrough")
    t.type("it\n")
    t.expect("got it")
    t.type("exit\n")
    t.end()


def test_a_background_job_that_reads_is_stopped_and_goes_on_in_the_foreground(cluster):
    t = Terminal(cluster, "bash", "--norc", "-i")
    t.expect(r"\$ ")
    t.type(f"{PROGRAM} lock tty/back -- sh -c 'echo up; read word; echo got $word' &\n")
    t.expect(r"(\n|\$ )up\r")  # it writes where the prompt is
    word = "Running"
    while word != "Stopped":
        t.type("jobs\n")
        word = t.expect(r"\[1\]\+? +(Stopped|Running)").group(1)
    t.type("fg\n")
    t.expect("holdfast lock")
    t.type("word\n")
    t.expect("got word")
    t.type("exit\n")
    t.end()
