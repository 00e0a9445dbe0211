"""The tarball in a bare root that has none of its libraries."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

BUILT = ROOT / "build-dist"


@pytest.fixture(scope="module", name="unpacked")
def unpacked_in_a_root(root):
    archive = next(BUILT.glob("*.tar.gz"))
    root.copy(archive, f"{archive}.sha256")
    root.run(f"sha256sum --check {archive.name}.sha256 && mkdir -p /opt/tools && tar -xf {archive.name} -C /opt/tools --strip-components=1")
    return root


def test_the_program_runs_from_any_folder(unpacked):
    out = unpacked.run(r"""
        ldconfig -p | grep -E 'libuv|libnghttp2' && exit 1
        mv /opt/tools '/opt/other place'
        cd '/opt/other place'
        bin/holdfast --version
        bin/holdfast serve --data /tmp/data --log-file /tmp/log &
        node=$!
        for i in $(seq 300); do bin/holdfast status >/dev/null 2>&1 && break; sleep 0.1; done
        bin/holdfast lock a -- sh -c 'echo token $HOLDFAST_TOKEN'
        kill -TERM $node && wait $node
        mv '/opt/other place' /opt/tools
    """)
    assert re.search(r"^token \d+$", out, re.MULTILINE), out


def test_every_library_is_there(unpacked):
    out = unpacked.run("for file in /opt/tools/bin/holdfast /opt/tools/lib/holdfast/*.so*; do LD_LIBRARY_PATH=/opt/tools/lib/holdfast ldd $file; done")
    assert "not found" not in out
    found = set(re.findall(r"=> (\S+) ", unpacked.run("ldd /opt/tools/bin/holdfast")))
    assert any(path.startswith("/opt/tools/") and "libuv" in path for path in found), found


def test_sinks_load_their_libraries(unpacked):
    out = unpacked.run(r"""
        cd /opt/tools
        printf %032d 1 >/tmp/secret && chmod 600 /tmp/secret
        bin/holdfast serve --data /tmp/sinks --log-file /tmp/log2 --sink-kafka-brokers 127.0.0.1:1 --sink-webhook-url https://127.0.0.1:1/ \
            --sink-webhook-secret-file /tmp/secret &
        node=$!
        for i in $(seq 300); do bin/holdfast status >/dev/null 2>&1 && break; sleep 0.1; done
        cat /proc/$node/maps
        kill -TERM $node && wait $node
    """)
    for library in ("librdkafka.so.1", "libcurl.so.4"):
        assert f"/opt/tools/lib/holdfast/{library}" in out, library


PROGRAM = """
#include <holdfast.h>
#include <stdio.h>
int main(void)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client;
    options.call_timeout_ms = 50;
    if (hf_client_open(&client, "127.0.0.1:1", &options) != 0 || hf_client_wait_ready(client, 50) != HF_ERR_UNREACHABLE)
        return 1;
    hf_client_close(client);
    return puts(hf_version()) < 0;
}
"""


def test_a_c_program_is_built_with_it(unpacked, tmp_path):
    """By the compiler of this machine; it runs in the root, which has none of the libraries that libholdfast needs."""
    folder = unpacked.folder / "opt/tools"
    (tmp_path / "p.c").write_text(PROGRAM, encoding="ascii")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "holdfast"], check=True, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(folder / "lib/pkgconfig")}).stdout.split()
    assert [Path(flag[2:]).resolve() for flag in flags[:2]] == [folder / "include", folder / "lib"], flags
    subprocess.run(["cc", "-Wall", "-Werror", "-o", unpacked.folder / "opt/p", tmp_path / "p.c", *flags, "-Wl,-rpath,/opt/tools/lib"], check=True)
    assert re.fullmatch(r"[0-9.]+\n", unpacked.run("/opt/p"))


def test_it_has_the_documents_and_the_licence_of_each_library(unpacked):
    folder = unpacked.folder / "opt/tools"
    for name in ("include/holdfast.h", "lib/libholdfast.a", "share/man/man1/holdfast.1", "share/man/man3/hf_acquire.3", "holdfast.cdx.json",
                 "LICENSE", "contrib/systemd/holdfast.service", "contrib/postgres/holdfast_fence.sql"):
        assert (folder / name).is_file(), name
    licences = {file.name for file in (folder / "share/doc/holdfast/licences").iterdir()}
    assert {"libuv1", "libssl3", "libnghttp2-14", "librdkafka1", "libcurl4"} <= licences
