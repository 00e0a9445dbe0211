#!/bin/sh
# A cron that runs on one of three machines. When that machine dies, another one goes on, with a higher token.
set -eu
holdfast status >/dev/null # or it says what is missing

name=examples/cron-$$
work=$(mktemp -d)
# Each machine is a process. TERM ends the job and gives the leadership back.
trap 'kill $(cat "$work"/pid.*) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

: >"$work/job.ticks"
cat >"$work/job" <<'JOB'
# The job of the leader: a line for each tick. A real one passes the token to what it writes to.
while :; do
    echo "$HOLDFAST_TOKEN $1" >>"$0.ticks"
    sleep 0.1
done
JOB

machine() {
    holdfast elect "$name" "$1" --ttl 2s -- sh "$work/job" "$1" 2>/dev/null &
    echo $! >"$work/pid.$1"
}

# wait_for COMMAND...: at most 60 s.
wait_for() {
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "failed: not within 60 s: $*"; exit 1; }
        sleep 0.1
    done
}

leaders() { awk '{ print $1 }' "$work/job.ticks" | uniq | wc -l; }
# Tokens only rise: the ticks of one leader are never between those of another.
check_order() { sort -n -c "$work/job.ticks" || { echo "failed: an older leader ran after a newer one"; exit 1; }; }
# leads N: the Nth leader has made five ticks.
leads() { check_order && [ "$(leaders)" -ge "$1" ] && [ "$(awk 'NR > 1 && $1 != last { n = 0 } { last = $1; n++ } END { print n }' "$work/job.ticks")" -ge 5 ]; }

for m in one two three; do machine $m; done
wait_for leads 1
first=$(awk 'NR == 1 { print $2 }' "$work/job.ticks")
echo "machine $first leads"

kill -9 "$(cat "$work/pid.$first")" # its job dies with it
wait_for leads 2
second=$(awk 'END { print $2 }' "$work/job.ticks")
echo "machine $first was killed; machine $second leads"

check_order
[ "$second" != "$first" ] || { echo "failed: the dead machine leads"; exit 1; }
echo "ok: $(wc -l <"$work/job.ticks") ticks of $(leaders) leaders, one at a time"
