"""`holdfast lock` on a terminal: ^C and ^Z reach the command, the shell's job control works."""

import os
import pty
import re
import select
import time

from cli_support import cluster, endpoints  # noqa: F401  (a fixture)
from harness import PATIENCE, PROGRAM, environment


class Terminal:
    """A program as the leader of a session with a terminal of its own."""

    def __init__(self, cluster, *command):
        env = environment(HOLDFAST_ENDPOINTS=endpoints(cluster), PS1="$ ", TERM="dumb", HISTFILE="")
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
            while os.read(self.fd, 4096):
                pass
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
    deadline = time.monotonic() + PATIENCE
    while cluster.nodes[1].show("tty/held").json["queue_length"] == 0:
        assert time.monotonic() < deadline
    t.type("\x03")
    t.expect("ended by a signal")
    assert t.end() == 130


def test_stop_and_foreground_work_as_with_any_job(cluster):
    t = Terminal(cluster, "bash", "--norc", "-i")
    t.expect(r"\$ ")
    t.type(f"{PROGRAM} lock tty/job -- sh -c 'echo up; while :; do sleep 0.05; done'\n")
    t.expect(r"\nup")
    t.type("\x1a")
    t.expect("Stopped")
    t.type("echo shell $((6 * 7))\n")
    t.expect("shell 42")
    t.type("fg\n")
    t.expect("holdfast lock")
    t.type("\x03")
    t.expect(r"\$ ")
    t.type("echo code $?\n")
    t.expect("code 130")
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
