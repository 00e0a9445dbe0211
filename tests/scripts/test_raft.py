"""The build takes a libraft that is new enough, and no other."""

from conftest import ROOT, run, write


def configure(tmp_path, **environment):
    return run("meson", "setup", tmp_path / "build", ROOT, **environment)


def test_an_old_libraft_is_refused_with_the_reason(tmp_path):
    write(tmp_path / "raft.pc", "\n".join([
        "libdir=/nowhere", "Name: raft", "Description: too old", "Version: 0.15.0",
        "Libs: -lraft", ""]))
    result = configure(tmp_path, PKG_CONFIG_PATH=tmp_path)
    assert result.returncode != 0
    for words in ("libraft 0.15.0 is too old, at least 0.22 is needed",
                  "commits entries of earlier terms by counting replicas",
                  "acknowledge entries that it never matched",
                  "acknowledged writes are lost",
                  "scripts/setup"):
        assert words in result.stdout, result.stdout


def test_a_missing_libraft_is_said(tmp_path):
    result = configure(tmp_path, PKG_CONFIG_PATH=tmp_path, PKG_CONFIG_LIBDIR=tmp_path)
    assert result.returncode != 0
    assert "libraft >= 0.22 was not found. Run scripts/setup" in result.stdout


def test_the_installed_libraft_links_statically_and_needs_nothing_else(tmp_path):
    source = write(tmp_path / "main.c", """
        #include <raft.h>
        int main(int argc, char **argv)
        {
            struct raft_event event;
            struct raft_update update;
            return argc > 9 ? raft_step(0, &event, &update) : raft_version_number() < 2200;
        }""")
    path = run("bash", "-c", "source scripts/common.sh && pkg_config_path").stdout.strip()
    flags = run("pkg-config", "--cflags", "raft", PKG_CONFIG_PATH=path).stdout.split()
    libdir = run("pkg-config", "--variable=libdir", "raft", PKG_CONFIG_PATH=path).stdout.strip()

    program = tmp_path / "main"
    linked = run("gcc", source, *flags, f"{libdir}/libraft.a", "-o", program)
    assert linked.returncode == 0, linked.stdout
    assert run(program).returncode == 0
    assert "raft" not in run("ldd", program).stdout.replace(str(program), "")
