"""The Debian packages in a bare root: installed, started, upgraded with data, removed, purged. The root has no systemd that runs, so
the units are read, and the node is started by the command of the unit."""

import glob
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

BUILT = ROOT / "build-deb"

# Starts the node as the unit does, and waits until it is ready.
START = r"""
command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/holdfast.service)
data=$(sed -n 's/^Environment=//p' /lib/systemd/system/holdfast.service)
runuser -u holdfast -- env "$data" $command >/tmp/node.log 2>&1 &
node=$!
for i in $(seq 300); do holdfast status >/tmp/status 2>&1 && break; sleep 0.1; done
holdfast status || { cat /tmp/status /tmp/node.log; exit 1; }
"""
STOP = 'pkill -TERM -x holdfast; wait $node || { echo "the node ended with $?"; exit 1; }'
ACQUIRE = """python3 -c '
import json, urllib.request
body = json.dumps({"client_id": "test", "ttl_ms": 3600000}).encode()
request = urllib.request.Request("http://127.0.0.1:4653/api/v1/locks/kept/acquire", body, method="POST")
print("token", json.load(urllib.request.urlopen(request, timeout=10))["fencing_token"])'"""


# A systemd that runs, as far as the scripts of the packages see it: each node is active, none is enabled, and the calls are recorded.
SYSTEMD = r"""
mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$*" >>/tmp/calls\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/systemctl
: >/tmp/calls
"""
CALLS = "echo calls; cat /tmp/calls; rm /usr/local/bin/systemctl"


def packages():
    found = {path.name.split("_")[0]: path for path in BUILT.glob("*.deb") if "-dbgsym_" not in path.name}
    assert set(found) == {"holdfast", "holdfast-client", "libholdfast1", "libholdfast-dev", "python3-holdfast"}, sorted(found)
    return found


def older(package, folder):
    """The same package under an earlier version."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN/control"
    text = control.read_text(encoding="utf-8")
    control.write_text(re.sub(r"^Version: (\S+)$|(?<=\(= )([^)]+)", lambda m: (f"Version: {m[1]}~earlier" if m[1] else f"{m[2]}~earlier"),
                              text, flags=re.MULTILINE), encoding="utf-8")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, folder / package.name.replace("_", "_earlier-", 1)], check=True,
                   stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


FILES = {
    "holdfast": ["etc/holdfast/holdfast.ini", "lib/systemd/system/holdfast.service", "lib/systemd/system/holdfast@.service",
                 "usr/lib/sysusers.d/holdfast.conf", "usr/lib/tmpfiles.d/holdfast.conf", "usr/share/doc/holdfast/README.Debian",
                 "usr/share/holdfast/prometheus/alerts.yml", "usr/share/holdfast/grafana/holdfast.json"],
    "holdfast-client": ["usr/bin/holdfast", "usr/share/bash-completion/completions/holdfast", "usr/share/zsh/site-functions/_holdfast",
                        "usr/share/fish/vendor_completions.d/holdfast.fish", "usr/share/holdfast/postgres/holdfast_fence.sql",
                        "usr/share/holdfast/redis/fenced.lua", "usr/share/holdfast/sqlite/holdfast_fence.sql",
                        "usr/share/holdfast/nginx/holdfast_fence.conf",
                        *[f"usr/share/man/man1/{page.name}.gz" for page in (ROOT / "docs/man").glob("*.1")]],
    "libholdfast1": ["usr/lib/*/libholdfast.so.1"],
    "libholdfast-dev": ["usr/include/holdfast.h", "usr/lib/*/libholdfast.a", "usr/lib/*/libholdfast.so", "usr/lib/*/pkgconfig/holdfast.pc",
                        *[f"usr/share/man/man3/{page.name}.gz" for page in (ROOT / "docs/man").glob("*.3")]],
    "python3-holdfast": ["usr/lib/python3/dist-packages/holdfast/__init__.py", "usr/lib/python3/dist-packages/holdfast/py.typed",
                         "usr/lib/python3/dist-packages/holdfast/testing.py", "usr/lib/python3/dist-packages/holdfast/fence/__init__.py"],
}


@pytest.mark.parametrize("name", FILES)
def test_a_package_has_its_files_and_needs_no_libraft(name, tmp_path):
    """Debian 12 has an old libraft only, so ours is a part of the program."""
    package = packages()[name]
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    assert not [file for file in FILES[name] if not glob.glob(str(tmp_path / file))]  # a link may lead to another package
    fields = subprocess.run(["dpkg-deb", "--field", package, "Depends", "Pre-Depends", "Recommends"], check=True, stdout=subprocess.PIPE, text=True)
    assert "Depends: " in fields.stdout and "raft" not in fields.stdout


@pytest.fixture(scope="module", name="installed")
def installed_in_a_root(root, tmp_path_factory):
    """An earlier version of the packages is installed, from files and Debian's archive."""
    folder = tmp_path_factory.mktemp("earlier")
    for package in packages().values():
        older(package, folder)
    root.copy(*folder.glob("*.deb"), *packages().values())
    root.run("apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "
             "./holdfast_earlier-* ./holdfast-client_earlier-* ./libholdfast*_earlier-* ./python3-holdfast_earlier-* "
             "procps gcc libc6-dev pkg-config", timeout=900)
    return root


def test_a_fresh_install_has_a_user_a_folder_and_no_running_node(installed):
    out = installed.run("""
        getent passwd holdfast | cut -d: -f6,7
        stat -c '%U %G %a' /var/lib/holdfast
        ls /etc/systemd/system/multi-user.target.wants/ 2>/dev/null | grep holdfast || echo not enabled
        pgrep -x holdfast || echo not running
        holdfast --version
    """)
    assert out.splitlines()[:4] == ["/var/lib/holdfast:/usr/sbin/nologin", "holdfast holdfast 700", "not enabled", "not running"], out


def test_the_units_are_valid(installed):
    said = installed.run("""
        systemctl --version
        systemd-analyze verify --man=no /lib/systemd/system/holdfast.service /lib/systemd/system/holdfast@one.service 2>&1
    """)
    assert said.startswith("systemd ") and not [line for line in said.splitlines() if "holdfast" in line], said
    template = installed.run("cat /lib/systemd/system/holdfast@.service")
    assert "/etc/holdfast/%i.ini" in template and "HOLDFAST_DATA=/var/lib/holdfast/%i" in template
    assert "StateDirectory=holdfast/%i" in template and "/usr/local" not in template


def test_data_and_settings_survive_an_upgrade(installed):
    """The lock is held through it: same token, same holder. The setting that an administrator made stays."""
    before = installed.run(f"""
        printf 'cluster-name = kept\\n' >>/etc/holdfast/holdfast.ini
        {START}
        {ACQUIRE}
        {STOP}
    """)
    token = re.search(r"^token (\d+)$", before, re.MULTILINE)[1]
    earlier, now, *calls = installed.run(SYSTEMD + """
        dpkg-query -W -f='${Version}\\n' holdfast
        DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Path=$PATH install --no-install-recommends $(ls ./*.deb | grep -v earlier) >/tmp/upgrade.log 2>&1 || {
            cat /tmp/upgrade.log; exit 1; }
        dpkg-query -W -f='${Version}\\n' holdfast
    """ + CALLS).splitlines()
    assert earlier == f"{now}~earlier"
    assert [call for call in calls if "start" in call] == ["try-restart holdfast.service"], calls
    after = installed.run(f"""
        grep 'cluster-name = kept' /etc/holdfast/holdfast.ini
        {START}
        holdfast show kept --json
        {STOP}
    """)
    assert re.search(rf'"fencing_token": ?{token}\b', after) and '"test"' in after, after


def test_a_c_program_is_built_and_linked_with_the_library(installed):
    out = installed.run(r"""
        printf '#include <holdfast.h>\n#include <stdio.h>\nint main(void) { return puts(hf_version()) < 0; }\n' >/tmp/p.c
        cc -Wall -Werror -o /tmp/p /tmp/p.c $(pkg-config --cflags --libs holdfast)
        readelf -d /tmp/p | grep -o 'libholdfast[^]]*'
        /tmp/p
        cc -Wall -Werror -o /tmp/q /tmp/p.c $(pkg-config --cflags holdfast) -Wl,-Bstatic -lholdfast -Wl,-Bdynamic $(pkg-config --static --libs-only-l holdfast | sed 's/-lholdfast//')
        /tmp/q
    """)
    assert out.split()[0] == "libholdfast.so.1" and len(set(out.split()[1:])) == 1, out


def test_the_python_client_takes_a_lock(installed):
    out = installed.run(f"""
        {START}
        python3 -c '
from holdfast import Client
with Client("127.0.0.1:4653") as client, client.lock("python", ttl=30) as lock:
    print("python token", lock.fence_token)'
        {STOP}
    """)
    assert re.search(r"^python token \d+$", out, re.MULTILINE), out


def test_removal_keeps_the_data_and_purge_removes_everything(installed):
    calls = installed.run(SYSTEMD + """
        apt-get -q -y -o DPkg::Path=$PATH remove holdfast >/dev/null
        test -d /var/lib/holdfast && test -f /etc/holdfast/holdfast.ini
        test ! -e /lib/systemd/system/holdfast.service
    """ + CALLS).splitlines()
    assert "stop holdfast.service holdfast@*.service" in calls, calls
    installed.run("""
        apt-get -q -y purge holdfast holdfast-client libholdfast1 libholdfast-dev python3-holdfast
        test ! -e /var/lib/holdfast
        test ! -e /etc/holdfast
        test ! -e /usr/bin/holdfast
        ! find / -xdev -path /srv -prune -o -path /tmp -prune -o -path /var/log -prune -o -path /var/cache -prune -o -name '*holdfast*' -print | grep .
    """)
