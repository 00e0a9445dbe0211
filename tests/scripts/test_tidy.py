"""tools/tidy.py: each rule catches a violation planted in an otherwise clean tree."""

import pytest

from conftest import ROOT, run, write

CLEAN = "/* A file. */\n#include <stdint.h>\n\nint answer(void)\n{\n    return 42;\n}\n"


def tidy(tree):
    return run(ROOT / "tools/tidy.py", tree)


def planted(tmp_path, path, text):
    """A tree with one clean file and one more."""
    write(tmp_path / "src/base/clean.c", CLEAN)
    write(tmp_path / path, text)
    return tidy(tmp_path)


def with_line(line):
    return CLEAN.replace("    return 42;\n", f"    {line}\n    return 42;\n")


def with_include(include):
    return CLEAN.replace("#include <stdint.h>", f"#include {include}")


def test_a_clean_tree_passes(tmp_path):
    result = planted(tmp_path, "src/core/lock.c", CLEAN)
    assert result.returncode == 0, result.stdout
    assert "2 files, 0 errors, 0 advice" in result.stdout


def test_a_tree_without_files_is_an_error(tmp_path):
    assert tidy(tmp_path).returncode == 2


@pytest.mark.parametrize("module, include", [
    ("base", '"core/core.h"'),
    ("core", '"wire/json.h"'),
    ("core", '"replica/ports.h"'),
    ("wire", '"core/core.h"'),
    ("replica", '"storage/disk.h"'),
    ("storage", '"core/core.h"'),
    ("service", '"storage/disk.h"'),
    ("net", '"wire/http.h"'),
    ("node", '"server/config.h"'),
    ("server", '"client/client.h"'),
    ("client", '"core/core.h"'),
    ("cli", '"core/core.h"'),
])
def test_an_include_against_the_flow_is_an_error(tmp_path, module, include):
    result = planted(tmp_path, f"src/{module}/x.c", with_include(include))
    assert result.returncode == 1
    assert f"src/{module}/x.c:2: error: {module} may not include" in result.stdout


@pytest.mark.parametrize("module, include", [
    ("core", '"base/pool.h"'),
    ("core", '"core/core.h"'),
    ("replica", '"core/core.h"'),
    ("replica", "<raft.h>"),
    ("net", "<uv.h>"),
    ("node", '"storage/disk.h"'),
    ("server", '"node/node.h"'),
    ("client", '"wire/http.h"'),
    ("client", '"holdfast.h"'),
    ("cli", '"server/serve.h"'),
])
def test_an_include_with_the_flow_is_fine(tmp_path, module, include):
    result = planted(tmp_path, f"src/{module}/x.c", with_include(include))
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("module, include, words", [
    ("service", "<raft.h>", "only replica may include raft.h"),
    ("replica", "<uv.h>", "only net, node, redis, server may include uv.h"),
    ("client", "<uv.h>", "only net, node, redis, server may include uv.h"),
    ("core", '"core.h"', 'name the module: "core/core.h"'),
    ("core", '"attic/old.h"', "is in no module of src/"),
    ("attic", '"base/pool.h"', "src/attic is no module"),
])
def test_a_header_in_the_wrong_place_is_an_error(tmp_path, module, include, words):
    result = planted(tmp_path, f"src/{module}/x.c", with_include(include))
    assert result.returncode == 1
    assert words in result.stdout


@pytest.mark.parametrize("header", [
    "time.h", "stdio.h", "stdlib.h", "pthread.h", "unistd.h", "sys/time.h", "errno.h", "assert.h",
])
def test_an_impure_header_in_core_is_an_error(tmp_path, header):
    result = planted(tmp_path, "src/core/x.c", with_include(f"<{header}>"))
    assert result.returncode == 1
    assert f"core is pure and may not include <{header}>" in result.stdout


def test_the_same_header_in_another_module_is_fine(tmp_path):
    assert planted(tmp_path, "src/storage/x.c", with_include("<stdio.h>")).returncode == 0


@pytest.mark.parametrize("call", [
    "strcpy(a, b);", "strcat(a, b);", "strncpy(a, b, 3);", "sprintf(a, b);", "gets(a);",
    "strtok(a, b);", "return atoi(a);", "alloca(3);", "system (a);", "x = rand();",
])
@pytest.mark.parametrize("folder", ["src/wire", "tests/unit"])
def test_a_banned_call_is_an_error(tmp_path, folder, call):
    result = planted(tmp_path, f"{folder}/x.c", with_line(call))
    assert result.returncode == 1
    assert f"{folder}/x.c:6: error: " in result.stdout
    assert "is not used here" in result.stdout


@pytest.mark.parametrize("call", [
    "malloc(3);", "free(a);", "time(NULL);", "clock_gettime(a, b);", "printf(a);", "assert(a);",
])
def test_an_impure_call_is_an_error_in_core_only(tmp_path, call):
    assert planted(tmp_path, "src/core/x.c", with_line(call)).returncode == 1
    (tmp_path / "src/core/x.c").unlink()
    assert planted(tmp_path, "src/net/x.c", with_line(call)).returncode == 0


@pytest.mark.parametrize("line", [
    "/* system(a) */", "// strcpy(a, b)", 'puts("call gets() now");', "my_system(a);",
    "memory->free(a);", "memory.free(a);", "char system;",
])
def test_a_name_that_is_no_call_is_fine(tmp_path, line):
    result = planted(tmp_path, "src/core/x.c", with_line(line))
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path, text, words", [
    ("src/core/x.c", "int x;\n", "x.c:1: error: a file opens with a comment"),
    ("src/core/x.h", "\n#ifndef X\n#endif\n", "x.h:1: error: a file opens with a comment"),
    ("src/core/x.c", with_line("\tint x;"), "x.c:6: error: a tab"),
    ("tests/unit/x.c", with_line("int x; "), "x.c:6: error: trailing spaces"),
    ("bench/x.c", with_line("/* TO" "DO: later */"), "x.c:6: error: TO" "DO"),
    ("src/core/x.c", with_line("// FIX" "ME"), "x.c:6: error: FIX" "ME"),
])
def test_an_untidy_file_is_an_error(tmp_path, path, text, words):
    result = planted(tmp_path, path, text)
    assert result.returncode == 1
    assert words in result.stdout


def test_a_long_file_is_advice(tmp_path):
    result = planted(tmp_path, "src/core/x.c", "/* Long. */\n" + "int x;\n" * 600)
    assert result.returncode == 0
    assert "x.c:1: advice: 601 lines" in result.stdout


def test_a_long_function_is_advice(tmp_path):
    result = planted(tmp_path, "src/core/x.c", with_line("x++;\n" * 80))
    assert result.returncode == 0
    assert "x.c:5: advice: a function of" in result.stdout


def test_a_function_that_fits_gives_no_advice(tmp_path):
    result = planted(tmp_path, "src/core/x.c", with_line("\n".join(["x++;"] * 79)))
    assert "0 advice" in result.stdout, result.stdout


def test_private_words_are_found_in_code_documents_and_file_names(tmp_path):
    write(tmp_path / "src/net/x.c", with_line("int crowd_size = 1; /* atomic_exchange is a name of C11 */"))
    write(tmp_path / "tests/cluster/test_x.py", "told = 1\n")
    write(tmp_path / "tests/scenario/story.txt", "advance 1s\n")
    write(tmp_path / "docs/CORE.md", "It is told later.\n")
    write(tmp_path / "proto/x.proto", "enum News {}\n")
    result = tidy(tmp_path)
    assert result.returncode == 1
    assert 'src/net/x.c:6: error: "crowd" is not a word of the field' in result.stdout
    assert 'tests/cluster/test_x.py:1: error: "told" is not a word of the field' in result.stdout
    assert 'tests/scenario/story.txt:2: error: "story" is not a word of the field' in result.stdout
    assert 'docs/CORE.md:1: error: "told" is not a word of the field' in result.stdout
    assert "tidy: 1 files, 4 errors" in result.stdout


def test_the_table_of_old_words_may_name_them(tmp_path):
    write(tmp_path / "src/base/clean.c", CLEAN)
    write(tmp_path / "CONTRIBUTING.md", "Words\n\n| not | but |\n|---|---|\n| door | listener |\n\nA door.\n")
    result = tidy(tmp_path)
    assert 'CONTRIBUTING.md:7: error: "door"' in result.stdout and "1 errors" in result.stdout


def test_a_tag_has_one_definition(tmp_path):
    write(tmp_path / "src/net/a.c", CLEAN + "struct link {\n    int x;\n};\n")
    write(tmp_path / "src/net/b.h", "/* Only declares it: struct link { */\nstruct link;\nvoid use(struct link *link);\n")
    write(tmp_path / "tests/unit/c.c", "struct link {\n    int x;\n};\n")
    assert tidy(tmp_path).returncode == 0
    write(tmp_path / "src/node/d.c", CLEAN + "enum link { UP, DOWN };\n")
    result = tidy(tmp_path)
    assert result.returncode == 1
    assert "src/node/d.c:8: error: src/net/a.c defines link too" in result.stdout
    assert "1 errors" in result.stdout
