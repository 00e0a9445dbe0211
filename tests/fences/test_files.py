"""The fence for files, holdfast.fence.files: on a real file system, with writers in several processes."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

import harness
import holdfast
from conftest import ROOT
from holdfast.fence import FenceBusy, FileFence, StaleToken, files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fenced"


def read(path):
    return path.read_bytes().decode()


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, tmp_path, path):
    scenario.run("stale/file", "File", str(tmp_path), lambda: read(tmp_path / "bare"), lambda: read(path))


def compile_c(source, program):
    """With the libholdfast of this build."""
    library = harness.PROGRAM.parent / "src/client"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-o", program, source, library / "libholdfast.so",
                    f"-Wl,-rpath,{library}"], check=True)


@pytest.fixture(scope="module")
def c_writer(tmp_path_factory):
    program = tmp_path_factory.mktemp("c") / "c_writer"
    compile_c(ROOT / "tests/fences/c_writer.c", program)
    return program


def test_a_writer_in_c_that_was_stopped_past_its_ttl_is_refused(scenario, tmp_path, path, c_writer):
    scenario.run_programs("stale/c-file", [c_writer, tmp_path], lambda: read(tmp_path / "bare"), lambda: read(path))


def test_a_writer_in_python_is_refused_after_one_in_c(scenario, tmp_path, path, c_writer):
    scenario.run_programs("stale/c-file", [c_writer, tmp_path], lambda: read(tmp_path / "bare"), lambda: read(path))
    mark = FileFence(f"{path}.fence").marks()["file"]
    with pytest.raises(StaleToken):
        files.write_file(path, b"python", mark - 1)
    files.write_file(path, b"python", mark)
    assert read(path) == "python"


def test_the_mark_is_in_the_format_of_libholdfast(path):
    files.write_file(path, b"\0x\n", 1842)
    assert path.read_bytes() == b"\0x\n"
    assert read(path.with_name("fenced.fence")) == "holdfast-fence 1\n1842 file\nend 1\n"
    assert sorted(file.name for file in path.parent.iterdir()) == ["fenced", "fenced.fence", "fenced.fence.lock"]


def test_equal_and_higher_tokens_are_accepted_and_the_mode_is_kept(path):
    files.write_file(path, b"a", 5)
    path.chmod(0o640)
    files.write_file(str(path), b"b", 5)
    files.write_file(path, b"c", 7)
    with pytest.raises(StaleToken) as stale:
        files.write_file(path, b"d", 6)
    assert (stale.value.token, stale.value.highest, str(path) in str(stale.value)) == (6, 7, True)
    assert read(path) == "c" and path.stat().st_mode & 0o777 == 0o640


def test_mark_and_file_are_synced_before_and_with_their_folder_after_they_are_renamed(path):
    """The system calls, in order: the mark is durable before the file changes."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'sdk/python')!r})\nfrom holdfast.fence import files\n" \
           "done = []\n" \
           "for name in ('fsync', 'replace'):\n" \
           "    def call(*a, real=getattr(os, name), name=name):\n" \
           "        done.append(os.path.basename(os.readlink(f'/proc/self/fd/{a[0]}') if name == 'fsync' else a[1]))\n" \
           "        return real(*a)\n" \
           "    setattr(os, name, call)\n" \
           f"files.write_file({str(path)!r}, b'x', 5)\nprint(*done)"
    done = subprocess.run([sys.executable, "-c", "import os\n" + code], capture_output=True, text=True, check=True).stdout.split()
    assert done == ["fenced.fence.new", "fenced.fence", path.parent.name, "fenced.new", "fenced", path.parent.name]


def test_mark_and_file_are_synced_in_c_too(path, tmp_path_factory):
    """write_once.c prints its calls, which it makes in place of those of libc."""
    program = tmp_path_factory.mktemp("c") / "write_once"
    compile_c(ROOT / "tests/fences/write_once.c", program)
    done = subprocess.run([program, path], capture_output=True, text=True, check=True).stdout.split()
    assert done == ["fenced.fence.new", "fenced.fence", path.parent.name, "fenced.new", "fenced", path.parent.name]
    assert read(path) == "x"


def test_a_crash_after_the_mark_refuses_the_older_token_and_keeps_the_file(path, monkeypatch):
    files.write_file(path, b"a", 5)
    real = os.replace

    def crash(source, target):
        if target == str(path):
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        files.write_file(path, b"b", 6)
    monkeypatch.undo()
    assert read(path) == "a"
    with pytest.raises(StaleToken):
        files.write_file(path, b"c", 5)
    files.write_file(path, b"d", 6)
    assert read(path) == "d"


def test_a_writer_that_is_stopped_inside_its_write_delays_the_others_until_their_limit(path):
    files.write_file(path, b"a", 5)
    with open(f"{path}.fence.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FenceBusy):
            files.write_file(path, b"b", 6, wait=0.05)
    assert read(path) == "a"
    files.write_file(path, b"b", 6)


@pytest.mark.parametrize("text", ["", "x", "holdfast-fence 1\n", "holdfast-fence 1\n5 file\n", "holdfast-fence 1\n5 file\nend 2\n",
                                  "holdfast-fence 1\n5 file\nend 1", "holdfast-fence 1\n0 file\nend 1\n", "holdfast-fence 1\n5 \nend 1\n",
                                  "holdfast-fence 1\n-5 file\nend 1\n", "holdfast-fence 2\n5 file\nend 1\n", f"holdfast-fence 1\n{'5' * 5000} file\nend 1\n", "holdfast-fence 1\n5 file\nend 1\nx\n"],
                         ids=lambda text: repr(text[:30]))
def test_a_damaged_mark_is_refused(path, text):
    files.write_file(path, b"a", 5)
    path.with_name("fenced.fence").write_text(text, encoding="ascii")
    with pytest.raises(files.DamagedFence):
        files.write_file(path, b"b", 6)
    path.with_name("fenced.fence").write_bytes(b"\xff\xfe")
    with pytest.raises(files.DamagedFence):
        files.write_file(path, b"b", 6)
    assert read(path) == "a"


def test_what_is_no_regular_file_is_refused(path):
    (path.parent / "link").symlink_to(path)
    for wrong in (path.parent, path.parent / "link"):
        with pytest.raises(holdfast.Invalid):
            files.write_file(wrong, b"x", 5)
    for token in (0, True, "5", 2 ** 53):
        with pytest.raises(holdfast.Invalid):
            files.write_file(path, b"x", token)
    with pytest.raises(FileNotFoundError):
        files.write_file(path / "nowhere" / "x", b"x", 5)


def test_a_file_fence_has_many_resources_and_outlives_its_process(path):
    fence = FileFence(path)
    for resource, token in (("b", 5), ("a c", 7), ("é", 9)):
        with fence.guard(resource, token):
            pass
    assert FileFence(path).marks() == {"b": 5, "a c": 7, "é": 9}
    with pytest.raises(StaleToken):
        with FileFence(path).guard("a c", 6):
            pass


def test_writers_in_threads_and_processes_write_in_the_order_of_tokens(path):
    """Each write appends its token to what it read, so a lost or reordered write would show."""
    fence = FileFence(path.parent / "order")
    log = path.parent / "log"
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'sdk/python')!r})\n" \
           "from holdfast.fence import FileFence, StaleToken\n" \
           "fence, number = FileFence(sys.argv[1]), int(sys.argv[3])\n" \
           "for step in range(40):\n" \
           "    try:\n" \
           "        token = step * 3 + number + 1\n" \
           "        with fence.guard('r', token, 60), open(sys.argv[2], 'a') as log: print(token, file=log)\n" \
           "    except StaleToken: pass\n"
    running = [subprocess.Popen([sys.executable, "-c", code, fence.path, log, str(number)]) for number in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    tokens = [int(line) for line in read(log).split()]
    assert tokens and tokens == sorted(tokens)
    entered = []

    def enter():
        with fence.guard("r", 1000, 60):
            entered.append(1)
            assert len(entered) == 1
            entered.pop()

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fence.marks() == {"r": 1000}
