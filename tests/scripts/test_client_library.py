"""libholdfast as others get it: its header, its symbols, installed and linked, and under valgrind."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, run, write

LIBRARY = ROOT / "build/src/client"
HEADER = ROOT / "include/holdfast.h"

PROGRAM = """
#include <holdfast.h>
#include <stdio.h>
#include <string.h>

/* Names that a program may well have, and that are names inside of the library, too. */
int buffer_init(void);
int buffer_init(void) { return 7; }
int lock_new(void);
int lock_new(void) { return 8; }

int main(void)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client;
    hf_fence *fence;
    options.call_timeout_ms = 50;
    if (hf_client_open(&client, "127.0.0.1:1", &options) != 0 ||
        hf_client_wait_ready(client, 50) != HF_ERR_UNREACHABLE)
        return 1;
    hf_client_close(client);
    if (hf_fence_open_memory(&fence) != 0 || hf_fence_guard(fence, "a", 2, NULL) != 0 ||
        hf_fence_guard(fence, "a", 1, NULL) != HF_ERR_STALE)
        return 2;
    hf_fence_close(fence);
    puts(hf_version());
    return 0;
}
"""


def declared():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"HF_API[^;(]*?\b(hf_\w+)\(", text))


def listed():
    text = (ROOT / "src/client/libholdfast.map").read_text(encoding="utf-8")
    return set(re.findall(r"^ +(hf_\w+);$", text, re.MULTILINE))


def symbols(*arguments):
    result = run("nm", "--defined-only", *arguments)
    assert result.returncode == 0, result.stdout
    return {line.split()[-1].split("@")[0] for line in result.stdout.splitlines()
            if len(line.split()) == 3}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `meson install` gives, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    result = run("meson", "install", "-C", ROOT / "build", "--no-rebuild", "--destdir", folder)
    assert result.returncode == 0, result.stdout
    return folder


def pkg_config(installed, *flags):
    found = next(installed.rglob("holdfast.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(found.parent),
                   "PKG_CONFIG_SYSROOT_DIR": str(installed)}
    return subprocess.run(["pkg-config", *flags, "holdfast"], env=environment, check=True,
                          stdout=subprocess.PIPE, text=True).stdout.split()


@pytest.mark.parametrize("compiler", [
    ["cc", "-std=c11", "-x", "c"],
    ["clang", "-std=c11", "-x", "c"],
    ["g++", "-std=c++17", "-x", "c++"],
    ["clang++", "-std=c++17", "-x", "c++"],
])
def test_the_header_is_c11_and_cpp17(tmp_path, compiler):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    source = write(tmp_path / "use.c", """
        #include <holdfast.h>
        int use(void);
        int use(void)
        {
            struct hf_options options = HF_OPTIONS;
            struct hf_lock_options lock = HF_LOCK_OPTIONS;
            return options.size == sizeof(options) && lock.size == sizeof(lock);
        }
""")
    result = run(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Wno-missing-field-initializers",
                 "-Werror", "-fsyntax-only", "-I", ROOT / "include", source)
    assert result.returncode == 0, result.stdout


def test_header_list_and_libraries_name_the_same_functions():
    assert declared() == listed()
    assert symbols("-D", LIBRARY / "libholdfast.so") == listed()
    assert symbols("-g", LIBRARY / "libholdfast.a") == listed()


def test_the_soname_is_one():
    result = run("readelf", "-d", LIBRARY / "libholdfast.so")
    assert "Library soname: [libholdfast.so.1]" in result.stdout


@pytest.mark.parametrize("static", [False, True])
def test_a_program_is_built_with_what_is_installed(installed, tmp_path, static):
    source = write(tmp_path / "program.c", PROGRAM)
    program = tmp_path / "program"
    flags = pkg_config(installed, "--cflags", "--libs", *(["--static"] if static else []))
    if static:
        archive = next(installed.rglob("libholdfast.a"))
        flags = [str(archive) if flag == "-lholdfast" else flag for flag in flags]
    result = run("cc", "-std=c11", source, "-o", program, *flags)
    assert result.returncode == 0, result.stdout
    library = next(installed.rglob("libholdfast.so.1")).parent
    environment = {**os.environ, "LD_LIBRARY_PATH": "" if static else str(library)}
    result = subprocess.run([program], env=environment, timeout=60, check=False,
                            stdout=subprocess.PIPE, text=True)
    assert (result.returncode, result.stdout.strip()) == (0, "0.1.0")


def test_the_pages_of_the_manual_are_installed_and_well_formed(installed):
    for page in ["libholdfast.3", "hf_acquire.3", "hf_fence_guard.3"]:
        assert list(installed.rglob(page + "*")), page
        if shutil.which("groff"):
            result = run("groff", "-t", "-man", "-Tutf8", "-ww", "-z", ROOT / "docs/man" / page)
            assert result.stdout == "", result.stdout


def test_every_function_is_in_the_manual():
    pages = "".join((ROOT / "docs/man" / page).read_text(encoding="utf-8")
                    for page in ["libholdfast.3", "hf_acquire.3", "hf_fence_guard.3"])
    assert {name for name in declared() if name not in pages} == set()


def test_threads_sockets_and_callbacks_are_valgrind_clean(tmp_path):
    """The whole public face against a fake node; this build has no sanitizers. Debian 12's valgrind
    cannot read what its clang says for debuggers, so that is taken away."""
    program = tmp_path / "test_client_api"
    stripped = run("objcopy", "--strip-debug", ROOT / "build-clang/tests/unit/test_client_api", program)
    assert stripped.returncode == 0, stripped.stdout
    # Not what is only reachable: a forked child has the stacks of threads that it does not have.
    result = run("valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
                 f"--suppressions={ROOT}/tests/scripts/valgrind.supp", "--error-exitcode=99", program, timeout=300)
    assert result.returncode == 0, result.stdout
