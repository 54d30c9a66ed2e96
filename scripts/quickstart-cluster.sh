# `scripts/quickstart cluster`: three masters that act as one, to look at (docs/cluster.md). scripts/quickstart sources it.

masters="master1 master2 master3"
minions="minion1 minion2 minion3 minion4"
servers="nats1 nats2 nats3"
# All masters have the same ports, as if each were on a host of its own; minions know only the relay's address.
declare -A address=([master1]=127.0.0.2 [master2]=127.0.0.3 [master3]=127.0.0.4)
addresses="127.0.0.1 ${address[*]}"
# Until all answer, ask again soon.
patience=1
# Clusters come with the feature `gateways`.
features=openssl,gateways
# Below the ports that the system gives to connections.
port=$((10000 + RANDOM % 14000))
# Process ids of the NATS servers and the relay.
declare -A pids=()
steps=0

# Says what comes next and what it means.
step() {
    steps=$((steps + 1))
    say
    say "$steps. $*" | fold -s -w 96 | sed '2,$s/^/   /; s/ $//'
}

pid_file() { say "$dir/$1/var/run/halite-${1%[0-9]}.pid"; }

log_of() {
    case $1 in
    master*) say "$dir/$1/var/log/halite/master" ;;
    minion*) say "$dir/$1/var/log/halite/minion" ;;
    *) say "$dir/$1.log" ;;
    esac
}

# failed MESSAGE NAME: ends with the message and the last lines of the log of NAME.
failed() {
    local log
    log=$(log_of "$2")
    if [ -s "$log" ]; then
        printf '\nthe last lines of the log of %s:\n' "$2"
        tail -n 15 "$log"
    fi >&2
    die "$1"
}

# at MASTER COMMAND...: runs it for this master.
at() {
    local config=$dir/$1/etc/halite
    shift
    "$@"
}

# Sets port to the next free one.
next_port() { port=$(free_port $((port + 1))) || exit 1; }

# The process ids of a master with its roles, or of a minion.
processes() {
    local file pid
    for file in $(grep -lsaF -- "$dir/$1/etc/halite" /proc/[0-9]*/cmdline); do
        pid=${file//[^0-9]/}
        [[ $(tr '\0' ' ' 2>/dev/null <"$file") != "$bin/halite-m"* ]] || say "$pid"
    done
}

# kill_all NAME: kills a master and its roles, or a minion.
kill_all() {
    local -a found
    mapfile -t found < <(processes "$1")
    [ ${#found[@]} != 0 ] && kill -9 "${found[@]}" 2>/dev/null
}

is_gone() { [ -z "$(processes "$1")" ]; }
lives() { kill -0 "${pids[$1]}" 2>/dev/null; }
has_ended() { ! lives "$1"; }

# run NAME PROGRAM...: runs it in the background.
run() {
    local name=$1
    shift
    "$@" >"$(log_of "$name")" 2>&1 </dev/null &
    pids[$name]=$!
}

# The NATS server answers, and has found the others.
is_healthy() {
    lives "$1" || failed "$1 has ended" "$1"
    (exec 3<>"/dev/tcp/127.0.0.1/$2" && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && grep -q '^HTTP/1.. 200' <&3) 2>/dev/null
}

start_servers() {
    local name routes=
    local -A client=() route=() http=()
    server_list=
    for name in $servers; do
        next_port && client[$name]=$port
        next_port && route[$name]=$port
        next_port && http[$name]=$port
        server_list+="${server_list:+, }127.0.0.1:${client[$name]}"
        routes+="${routes:+, }\"nats://127.0.0.1:${route[$name]}\""
    done
    for name in $servers; do
        cat >"$dir/$name.conf" <<END
server_name: $name
listen: "127.0.0.1:${client[$name]}"
http: "127.0.0.1:${http[$name]}"
jetstream: {store_dir: "$dir/$name"}
cluster: {name: quickstart, listen: "127.0.0.1:${route[$name]}", routes: [$routes]}
END
        run "$name" "$nats" -c "$dir/$name.conf"
    done
    for name in $servers; do
        wait_for 30 is_healthy "$name" "${http[$name]}" || failed "$name does not get ready" "$name"
    done
}

write_master() {
    cat >"$dir/$1/etc/halite/master" <<END
id: $1
root_dir: $dir/$1
sock_dir: /s
user: $user
interface: ${address[$1]}
publish_port: $publish_port
ret_port: $ret_port
metrics_address: ''
# Seconds until a minion that does not answer counts as not connected.
gather_job_timeout: 1
cluster_id: quickstart
cluster_secret: $dir/secret
cluster:
  servers: [$server_list]
  replicas: 3
  # Little, for a directory that may be small.
  keep_bytes: 16777216
END
}

is_member() { at "$1" halite_run fleet.status --out json 2>/dev/null | grep -q '"member": 1\b'; }

# start_masters NAME...: starts them and waits until they act as one with the others.
start_masters() {
    local name
    for name in "$@"; do
        "$bin/halite-master" -c "$dir/$name/etc/halite" -d || failed "$name does not start" "$name"
    done
    for name in "$@"; do
        wait_for 30 is_member "$name" || failed "$name does not become a member of the cluster" "$name"
    done
}

relay_is_ready() {
    lives relay || failed "the relay has ended" relay
    grep -sqx ready "$dir/relay.log"
}

# in_state MASTER DIRECTORY: all minions have their keys there.
in_state() {
    local id
    for id in $minions; do
        [ -e "$dir/$1/etc/halite/pki/master/$2/$id" ] || return 1
    done
}

# The minions that are connected to a master.
here() { at "$1" halite --here -t 1 --out txt '*' test.ping 2>/dev/null | sed -n 's/: True$//p' | sort; }

# Sets where to a line for each of $masters; succeeds if each minion is at one of them.
find_minions() {
    local name found all=
    local -a asked=()
    for name in $masters; do
        here "$name" >"$dir/$name.here" &
        asked+=($!)
    done
    wait "${asked[@]}"
    where=
    for name in $masters; do
        found=$(cat "$dir/$name.here")
        where+="   $name: ${found//$'\n'/ }"$'\n'
        all+=$found$'\n'
    done
    [ "$(grep . <<<"$all" | sort -u | wc -l)" = "$(wc -w <<<"$minions")" ]
}

show_minions() {
    wait_for 60 find_minions || failed "not all minions are connected to a master" minion1
    printf '\n%s' "$where"
}

# wait_for_minions MASTER: waits until it reaches all.
wait_for_minions() { wait_for 60 at "$1" all_answer || failed "not all minions answer $1" "$1"; }

ping_everywhere() {
    local name
    for name in $masters; do
        wait_for_minions "$name"
        printf '\n%s$ halite %s test.ping\n' "$name" "'*'"
        at "$name" halite '*' test.ping || failed "not all minions answer $name" "$name"
    done
}

# Ends what runs, and removes its files.
clean_up() {
    local status=$? name pid
    trap '' INT TERM HUP PIPE
    for name in $minions master1 $masters; do
        pid=$(running "$name") && kill "$pid" 2>/dev/null
    done
    for name in $minions master1 $masters; do
        wait_for 10 is_gone "$name" || kill_all "$name"
    done
    for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null; done
    for name in "${!pids[@]}"; do
        wait_for 10 has_ended "$name" || kill -9 "${pids[$name]}"
        wait "${pids[$name]}" 2>/dev/null
    done
    [ -n "${HALITE_QUICKSTART:-}" ] || rm -rf "$dir"
    exit $status
}

cluster() {
    local name id begun parent=${TMPDIR:-/tmp} files=", and its files are removed"
    # It is in a directory that PATH often lacks for other accounts than root.
    nats=$(PATH=$PATH:/usr/sbin command -v nats-server) ||
        die "there is no nats-server, which masters of a cluster need; as root, run: apt-get install nats-server"
    has python3 || die "there is no python3, which the relay needs; as root, run: apt-get install python3"
    build
    [ -x "$bin/halite-master" ] || die "there is no halite-master in $bin"
    if [ -n "${HALITE_QUICKSTART:-}" ]; then
        mkdir -p "$dir" || die "$dir cannot be made"
        parent=$dir
    fi
    dir=$(cd "$parent" && mktemp -d "$PWD/cluster.XXXXXX") || die "no directory can be made in $parent"
    [ -z "${HALITE_QUICKSTART:-}" ] || files="; its files stay in $dir"
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP PIPE
    short_enough "$dir"

    step "Three NATS servers. The masters tell each other everything through them. Each server has a copy, so one of them may fail."
    start_servers
    say "   nats1, nats2, nats3: $server_list"

    step "master1. At its first start it makes the key by which minions know their master. It shares a secret with the other masters, so that nobody else can speak for one."
    (umask 077 && head -c 48 /dev/urandom | base64 >"$dir/secret") || die "$dir/secret cannot be written"
    next_port && publish_port=$port
    next_port && ret_port=$port
    for name in $masters; do
        mkdir -p "$dir/$name/etc/halite/pki" || die "$dir/$name cannot be made"
        write_master "$name"
    done
    start_masters master1

    step "master2 and master3, with the same secret: they take over master1's key. To a minion, all three are the same master."
    start_masters master2 master3

    step "A relay, and four minions that know no other address than the relay's. It leads each connection to the master that has the fewest. All masters show the keys of all minions."
    run relay "$top/scripts/relay" 127.0.0.1 "$publish_port,$ret_port" "${address[master1]}" "${address[master2]}" "${address[master3]}"
    wait_for 10 relay_is_ready || failed "the relay does not get ready" relay
    for id in $minions; do
        write_minion "$dir/$id/etc/halite" "$dir/$id" "$id"
        # Soon, for somebody who watches.
        say "recon_max: 1000" >>"$dir/$id/etc/halite/minion"
        "$bin/halite-minion" -c "$dir/$id/etc/halite" -d || failed "$id does not start" "$id"
    done
    for name in $masters; do
        wait_for 30 in_state "$name" minions_pre || failed "$name does not have the keys of all minions" "$name"
    done

    step "Their keys are accepted at master1. What is accepted at one master is accepted at all."
    printf '\nmaster1$ halite-key -y -A\n'
    at master1 halite_key -y -A || failed "the keys cannot be accepted" master1
    for name in $masters; do
        wait_for 30 in_state "$name" minions || failed "the keys are not accepted at $name" "$name"
    done

    step "Each minion gets its jobs over a connection to one of the masters:"
    wait_for_minions master1
    show_minions

    step "Still each master reaches all minions: it hands a job to the other masters, and they hand it the returns of their minions."
    ping_everywhere

    step "master1 is killed with all its processes (kill -9), as if its host failed. Its minions go through the relay to the other masters. Their keys stay accepted, and they do not sign in again."
    begun=$SECONDS
    kill_all master1 && wait_for 10 is_gone master1 || die "master1 cannot be killed"
    masters="master2 master3"
    wait_for_minions master2
    begun=$((SECONDS - begun))
    show_minions
    say
    say "   They all answered about $begun s after the end of master1."

    step "The two masters that are left reach all minions:"
    ping_everywhere

    step "All of this is ended now$files. To set up a cluster, see docs/cluster.md."
}
