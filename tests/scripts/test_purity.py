"""tools/purity: it lets the allowed symbols through and nothing else."""

import pytest

from conftest import ROOT, run, write

PANIC = """
#include <stdlib.h>
void hf_panic(void);
void hf_panic(void) { abort(); }
"""
BASE = "void *base_help(void); void *base_help(void) { return 0; }"


def purity(tmp_path, core, base=BASE):
    """Builds the two libraries as Meson does, thin, and checks them."""
    for library, sources in {"core": {"core.c": core},
                             "base": {"help.c": base, "panic.c": PANIC}}.items():
        folder = tmp_path / f"src/{library}"
        objects = []
        for name, text in sources.items():
            source = write(folder / name, text)
            objects.append(folder / f"lib{library}.a.p" / f"{name}.o")
            objects[-1].parent.mkdir(exist_ok=True)
            compiled = run("gcc", "-O1", "-fno-builtin", "-c", source, "-o", objects[-1])
            assert compiled.returncode == 0, compiled.stdout
        assert run("ar", "csrDT", folder / f"lib{library}.a", *objects).returncode == 0
    return run(ROOT / "tools/purity", tmp_path)


def test_pure_code_passes(tmp_path):
    result = purity(tmp_path, """
        #include <string.h>
        void hf_panic(void);
        void *base_help(void);
        static const char *const names[] = {"one", "two"};
        const char *core(char *a, const char *b, unsigned i)
        {
            if (base_help() == 0)
                hf_panic();
            memcpy(a, b, strlen(b));
            return names[i];
        }""")
    assert result.returncode == 0, result.stdout
    assert "are pure" in result.stdout


@pytest.mark.parametrize("call, symbol", [
    ("time(0)", "time"),
    ("malloc(8)", "malloc"),
    ("puts(\"x\")", "puts"),
    ("rand()", "rand"),
])
def test_an_impure_call_is_named_with_its_file(tmp_path, call, symbol):
    result = purity(tmp_path, f"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        long core(void) {{ return (long){call}; }}""")
    assert result.returncode == 1
    assert f"core calls {symbol} (in core.c.o)" in result.stdout


def test_impurity_in_a_part_of_base_that_core_uses_is_found(tmp_path):
    result = purity(
        tmp_path,
        "void *base_help(void); void *core(void) { return base_help(); }",
        "#include <stdlib.h>\nvoid *base_help(void) { return malloc(1); }")
    assert result.returncode == 1
    assert "core calls malloc (in help.c.o)" in result.stdout


def test_impurity_in_a_part_of_base_that_core_does_not_use_is_fine(tmp_path):
    result = purity(
        tmp_path,
        "int core(void) { return 1; }",
        "#include <stdlib.h>\nvoid *base_help(void) { return malloc(1); }")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("state, section", [
    ("static int counter", ".bss"),
    ("static int counter = 7", ".data"),
    ("static _Thread_local int counter", ".tbss"),
])
def test_a_global_that_changes_is_found(tmp_path, state, section):
    result = purity(tmp_path, f"{state}; int core(void) {{ return counter++; }}")
    assert result.returncode == 1
    assert f"changing state in {section}" in result.stdout


def test_a_missing_build_is_said(tmp_path):
    result = run(ROOT / "tools/purity", tmp_path)
    assert result.returncode == 2
    assert "scripts/build release" in result.stdout
