# Completion of `holdfast` for bash. Written by tools/cli_docs.py from the program's help.

_holdfast_names() {
    COMPREPLY+=($(compgen -W "$(holdfast ls --timeout 500ms 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur"))
}

_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "help lock elect acquire renew release session serve dev ls show history watch sessions sinks status doctor top hot ttl-advice audit force-unlock revoke reset-fence alert member log-level cert auth token recover bench snapshot" -- "$cur"))
        return
    fi
    case $command in
    lock | elect)
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [[ ${COMP_WORDS[i]} == -- ]]; then
                declare -F _command_offset >/dev/null && _command_offset $((i + 1))
                return
            fi
        done
        ;;
    help)
        COMPREPLY=($(compgen -W "lock elect acquire renew release session serve dev ls show history watch sessions sinks status doctor top hot ttl-advice audit force-unlock revoke reset-fence alert member log-level cert auth token recover bench snapshot" -- "$cur"))
        return
        ;;
    esac
    case $command in
    lock)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--nonblock --wait --shared --exclusive --limit --permits --ttl --kill-after --lock-delay --max-hold --conflict-exit-code --command --status-fd --linger --tier --detect-deadlock --trace --verbose --endpoints --timeout --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    elect)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--listen --changes --nonblock --wait --ttl --kill-after --lock-delay --max-hold --conflict-exit-code --status-fd --trace --verbose --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    acquire)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--nonblock --wait --shared --exclusive --limit --permits --ttl --session --lock-delay --max-hold --conflict-exit-code --tier --detect-deadlock --client --request-id --trace --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    renew)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--ttl --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    release)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    session)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--ttl --client --request-id --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "open renew close" -- "$cur"))
        ;;
    serve)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--id --data --client --peer --resp --resp-tier --resp-ping --resp-del --advertise-client --cluster --cluster-name --bootstrap --join --auth --server-names --tls-cert --tls-key --tls-ca --tls-min --peer-secret-file --peer-secret-required --insecure --election-timeout --heartbeat --request-timeout --slow-request --ttl-min --resp-ttl-min --resp-ttl-max --resp-value-max --snapshot-log-size --segment-size --connections-max-bytes --state-max --events-max-bytes --events-max-age --disk-io --max-clients --max-clients-per-address --sandbox --log-format --log-level --log-file --efficiency-backend --efficiency-fallback --redis --redis-user --redis-db --redis-prefix --redis-timeout --sink-file --sink-file-max-bytes --sink-file-keep --sink-kafka-brokers --sink-kafka-topic --sink-kafka-config --sink-webhook-url --sink-webhook-secret-file --sink-webhook-ca --sink-webhook-http --sink-webhook-timeout --sink-prefix --config --check --help" -- "$cur"))
        ;;
    dev)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--nodes --dir --base-port --restart-after --no-restart --secure --chaos --chaos-seed --chaos-interval --help" -- "$cur"))
        ;;
    ls)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--no-ttl --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    show)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--no-graph --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    history)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--at --since --until --limit --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    watch)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--since --list --events --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    sessions)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--private --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    sinks)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    status)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    doctor)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--config --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    top)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--sort --interval --rows --once --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    hot)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--by --limit --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    ttl-advice)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--prefix --for --outage --pause --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    audit)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--name --prefix --actor --action --since --until --limit --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    force-unlock)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--reason --now --if-token --actor --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    revoke)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--reason --deadline --if-token --actor --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $cur == -* ]] || _holdfast_names
        ;;
    reset-fence)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--reason --token --slot --actor --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    alert)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--reason --actor --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "set list remove" -- "$cur"))
        ;;
    member)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--wait --no-wait --from --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "list add remove promote demote transfer" -- "$cur"))
        ;;
    log-level)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--node --actor --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        ;;
    cert)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--dir --id --host --cluster --name --days --json --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "init node client show" -- "$cur"))
        ;;
    auth)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--data --name --secret-file --out --dry-run --end-sessions --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "bootstrap rescue show apply explain tenants whoami" -- "$cur"))
        ;;
    token)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--description --ttl --out --endpoints --timeout --json --ca --cert --key --server-name --token-file --tenant --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "create list revoke" -- "$cur"))
        ;;
    recover)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--data --id --cluster --reason --actor --confirm --into --force --json --help" -- "$cur"))
        ;;
    bench)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--clients --seconds --warmup --connections --api --via --tier --endpoints --rate --held --contended --resp --samples --ca --cert --key --server-name --token-file --tenant --json --help" -- "$cur"))
        ;;
    snapshot)
        [[ $cur == -* ]] && COMPREPLY=($(compgen -W "--endpoints --timeout --json --data --id --cluster --reason --actor --force --help" -- "$cur"))
        [[ $COMP_CWORD -eq 2 ]] && COMPREPLY+=($(compgen -W "save inspect restore" -- "$cur"))
        ;;
    esac
}

complete -o default -F _holdfast holdfast
