#!/bin/sh
# Three instances of a service, one of which leads. They are restarted one after the other. Each time the leader goes, it
# gives the leadership back, and the next in the queue leads at once: nobody waits for a TTL.
set -eu
holdfast status >/dev/null # or it says what is missing

name=examples/service-$$
work=$(mktemp -d)
trap 'kill $(cat "$work"/pid.*) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

: >"$work/service.log"
cat >"$work/service" <<'SERVICE'
# What only the leader does. TERM ends it in order.
now() { date +%s%3N; }
trap 'echo "end $1 $HOLDFAST_TOKEN $(now)" >>"$0.log"; exit 0' TERM
echo "begin $1 $HOLDFAST_TOKEN $(now)" >>"$0.log"
while :; do sleep 0.05; done
SERVICE

start() {
    holdfast elect "$name" "$1" -- sh "$work/service" "$1" 2>/dev/null &
    echo $! >"$work/pid.$1"
}

wait_for() {
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "failed: not within 60 s: $*"; exit 1; }
        sleep 0.1
    done
}

begun() { [ "$(grep -c ^begin "$work/service.log")" -ge "$1" ]; }
queued() {
    length=$(holdfast show --json "$name" | sed -n 's/.*"queue_length":\([0-9]*\).*/\1/p')
    [ "${length:-0}" -ge "$1" ]
}

start a
wait_for begun 1
start b
wait_for queued 1
start c
wait_for queued 2

terms=1
for instance in a b c; do
    pid=$(cat "$work/pid.$instance")
    # Only one restart at a time, also if two operators begin one. The replacement queues up before the next restart.
    holdfast lock "$name/restart" -- kill "$pid"
    wait "$pid" || true
    terms=$((terms + 1))
    wait_for begun $terms
    start "$instance"
    wait_for queued 2
done

cat "$work/service.log"
# begin and end alternate: there was never more than one leader. Tokens rise.
awk '
    ($1 == "begin") != (NR % 2) { print "failed: two leaders at once, in line " NR; bad = 1 }
    $1 == "begin" && $3 <= token { print "failed: the token did not rise, in line " NR; bad = 1 }
    $1 == "begin" && NR > 1 && $4 - ended > gap { gap = $4 - ended }
    { token = $3; ended = $4 }
    END {
        if (!bad && gap >= 15000) { print "failed: " gap " ms without a leader"; bad = 1 }
        if (!bad) print "ok: three restarts, at most " gap " ms without a leader"
        exit bad
    }' "$work/service.log"
