"""The program as it was linked: what makes an error in it harder to use. meson.build has the flags."""

import json
import platform
import re
import subprocess

import pytest

from conftest import ROOT

PROGRAM = ROOT / "build" / "holdfast"


def readelf(*flags):
    return subprocess.run(["readelf", "-W", *flags, PROGRAM], capture_output=True, text=True, check=True).stdout


def imported():
    """The functions that the program takes from shared libraries."""
    return set(re.findall(r" UND (\w+)", readelf("--dyn-syms")))


def test_the_program_can_be_loaded_at_any_address():
    assert re.search(r"Elf file type is DYN", readelf("-l"))
    assert re.search(r"FLAGS_1.*\bPIE\b", readelf("-d"))


def test_all_relocations_are_made_at_the_start_and_read_only_then():
    assert "GNU_RELRO" in readelf("-l")
    assert re.search(r"FLAGS\).*BIND_NOW|FLAGS_1\).*\bNOW\b", readelf("-d"))


def test_no_memory_is_writable_and_executable():
    segments = readelf("-l")
    stack = re.search(r"GNU_STACK .* (R\S*) +0x", segments)
    assert stack and "E" not in stack[1], segments
    assert not re.search(r"LOAD .* RWE ", segments)
    assert "TEXTREL" not in readelf("-d")


def test_functions_check_their_stack_and_the_sizes_of_their_buffers():
    assert "__stack_chk_fail" in imported()
    checked = {name for name in imported() if name.endswith("_chk")}
    assert {"__snprintf_chk", "__memcpy_chk"} <= checked, checked


def test_indirect_calls_land_on_marked_places():
    """The linker marks the whole program only if all its parts are marked, also libraft and the start files of the C
    library, so this looks at our own code."""
    if platform.machine() != "x86_64":
        pytest.skip("the mark of x86-64")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=serve_main", PROGRAM],
                          capture_output=True, text=True, check=True).stdout
    assert re.search(r"<serve_main>:\n\s*[0-9a-f]+:\s+endbr64", code), code[:500]


def test_all_of_our_code_is_compiled_with_the_checks():
    """What the linked program does not show: each file, with the highest level that the compiler has."""
    commands = json.loads((ROOT / "build" / "compile_commands.json").read_text(encoding="utf-8"))
    ours = [c for c in commands if re.search(r"\.\./src/\w+/", c["file"]) or c["file"].startswith("../src/")]
    assert len(ours) > 100
    known = subprocess.run(["cc", "-E", "-dM", "-x", "c", "-O2", "-D_FORTIFY_SOURCE=3", "-include", "features.h", "/dev/null"],
                           capture_output=True, text=True, check=True).stdout
    level = re.search(r"#define __USE_FORTIFY_LEVEL (\d)", known)[1]
    for command in ours:
        words = command["command"].split()
        for flag in ("-fstack-protector-strong", "-fstack-clash-protection", f"-D_FORTIFY_SOURCE={level}"):
            assert flag in words, (flag, command["file"])
        if platform.machine() == "x86_64":
            assert "-fcf-protection=full" in words, command["file"]
        assert "-fPIE" in words or "-fPIC" in words, command["file"]
