# shellcheck shell=bash disable=SC2034
# What the scripts have in common: where the repository is, which libraft we
# want and where a private copy of it lives, the machine's Debian mirror. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

RAFT_FLOOR=0.22
RAFT_VERSION=0.22.1
# In the user's cache folder, so that a second clone finds it.
RAFT_PREFIX=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/raft-$RAFT_VERSION

# The packages of npm that tests/node/ wants, a folder for each state of its lock
# file. tests/cluster/test_lock_node.py looks there.
node_prefix() {
    local sum
    sum=$(sha256sum <"$ROOT/tests/node/package-lock.json")
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/node-${sum:0:12}"
}

# Debian's own interpreter: python3-pytest is installed for that one, and
# whatever else `python3` may mean on this machine does not see it.
PYTHON=/usr/bin/python3

# The user's own pkg-config path comes first, the private prefix after it.
pkg_config_path() {
    echo "${PKG_CONFIG_PATH:+$PKG_CONFIG_PATH:}$RAFT_PREFIX/lib/pkgconfig"
}

# The Debian mirror of this machine. apt itself reads sources.list and *.sources
# and names what it would fetch: 'URI/dists/SUITE/InRelease'. The caller has read /etc/os-release.
debian_mirror() {
    local suite mirror
    for suite in "$VERSION_CODENAME" oldstable stable; do
        mirror=$(apt-get --print-uris update 2>/dev/null |
            sed -n "s|^'\(.*\)/dists/$suite/InRelease'.*|\1|p" | head -n 1) || true
        if [[ -n $mirror ]]; then
            echo "$mirror"
            return
        fi
    done
    return 1
}

say() { echo "${0##*/}: $*"; }

# die SENTENCE...: what failed, then what to do about it, a line each.
die() {
    echo "${0##*/}: error: $1" >&2
    shift
    local line
    for line in "$@"; do
        echo "    $line" >&2
    done
    exit 1
}
