#!/bin/sh
# Five instances of an application start at once. The first one migrates the database, the others wait, find it migrated, and start.
set -eu
holdfast status >/dev/null # or it says what is missing

name=examples/migrate-$$
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Stands for a database: its version, and a log of the migrations that ran.
echo 1 >"$work/version"
cat >"$work/migrate" <<'MIGRATE'
database=$1
# Look again now that the lock is held: somebody may have migrated meanwhile.
[ "$(cat "$database/version")" -lt 2 ] || exit 0
echo "from 1 to 2, token $HOLDFAST_TOKEN" >>"$database/migrations"
sleep 0.5 # twice at once would destroy data
echo 2 >"$database/version"
MIGRATE

instance() {
    holdfast lock --wait 60s "$name" -- sh "$work/migrate" "$work" && echo "instance $1 starts with version $(cat "$work/version")" >>"$work/started"
}

for i in 1 2 3 4 5; do instance $i & done
wait

cat "$work/started" || { echo "failed: no instance started"; exit 1; }
[ "$(wc -l <"$work/migrations")" -eq 1 ] || { echo "failed: the migration ran more than once"; exit 1; }
[ "$(grep -c 'version 2' "$work/started")" -eq 5 ] || { echo "failed: not all instances started"; exit 1; }
echo "ok: one migration ($(cat "$work/migrations")), five instances"
