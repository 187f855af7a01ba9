#!/usr/bin/env bash
# What a round costs on two ranks with a delay between them: measured, beside what bench/ranks/tables.py predicts.
#
#   bench/latency/latency.sh ROUNDS OUT [DELAY…]     (root; default delays, in seconds: 0 0.001 0.01 0.1)
#
# ROUNDS is a `rounds` with the feature mpi. Where ROUNDS_DATA names the folder of data files, time to a target on MNIST is
# measured too. Two network namespaces are joined by a veth pair, and `tc netem` delays each direction. A kernel without netem
# (sch_netem) gets two tun devices and delay.py instead, which holds back every packet in user space; the output says so.
# Namespaces, devices and processes are removed at the end, whatever happens.
set -euo pipefail

rounds=$(readlink -f "$1")
tables=$(readlink -f "$(dirname "$0")/../ranks/tables.py")
out=$2
shift 2
delays=("$@")
[ ${#delays[@]} -gt 0 ] || delays=(0 0.001 0.01 0.1)
here=$(cd "$(dirname "$0")" && pwd)
left=rounds-left-$$ right=rounds-right-$$
relay=
scratch=$(mktemp -d)

[ "$(id -u)" = 0 ] || { echo "latency.sh: network namespaces need root" >&2; exit 2; }

down() {
  if [ -n "$relay" ]; then kill "$relay" 2>/dev/null || true; wait "$relay" 2>/dev/null || true; relay=; fi
  ip netns del "$left" 2>/dev/null || true
  ip netns del "$right" 2>/dev/null || true
}
clean() { down; rm -rf "$scratch"; }
trap clean EXIT
trap 'exit 130' INT TERM

namespaces() {
  ip netns add "$left"
  ip netns add "$right"
  ip -n "$left" link set lo up
  ip -n "$right" link set lo up
}

# Addresses, an MTU that takes a sum in few packets on both kinds of link, buffers that take it whole (else its end waits for
# the answer to its begin: two delays more), and no slow start after a pause: a round is one.
join() {
  for side in left right; do
    namespace=${!side}
    device=$1
    [ "$side" = left ] || device=$2
    ip -n "$namespace" addr add "10.77.0.$([ "$side" = left ] && echo 1 || echo 2)/24" dev "$device"
    ip -n "$namespace" link set "$device" mtu 65000 txqueuelen 10000 up
    ip netns exec "$namespace" sysctl -qw net.ipv4.tcp_slow_start_after_idle=0 \
      net.ipv4.tcp_rmem="4096 8388608 16777216" net.ipv4.tcp_wmem="4096 8388608 16777216"
  done
}

# Whether this kernel has netem.
has_netem() {
  modprobe sch_netem 2>/dev/null || true
  ip netns add "$left"
  ip -n "$left" link set lo up
  local there=1
  ip netns exec "$left" tc qdisc add dev lo root netem delay 1ms 2>/dev/null || there=0
  ip netns del "$left"
  [ $there = 1 ]
}

up_netem() {
  namespaces
  ip link add rl$$ type veth peer name rr$$
  ip link set rl$$ netns "$left"
  ip link set rr$$ netns "$right"
  join rl$$ rr$$
  ip netns exec "$left" tc qdisc add dev rl$$ root netem delay "$1s" limit 100000
  ip netns exec "$right" tc qdisc add dev rr$$ root netem delay "$1s" limit 100000
}

up_relay() {
  namespaces
  mkfifo "$scratch/ready"
  python3 "$here/delay.py" "$1" rl$$ rr$$ >"$scratch/ready" &
  relay=$!
  read -r _ <"$scratch/ready"
  rm "$scratch/ready"
  ip link set rl$$ netns "$left"
  ip link set rr$$ netns "$right"
  join rl$$ rr$$
}

# mpirun starts its daemon "on the other host" through this instead of ssh.
agent="$scratch/agent"
cat >"$agent" <<AGENT
#!/usr/bin/env bash
shift
exec ip netns exec $right sh -c "\$*"
AGENT
chmod +x "$agent"
# Each rank has a core of its own, as machines of their own would give it. (mpirun takes both for the first of its host.)
# Processors 0 and 1 are two cores where nothing shares one; ranks see one core each, and say so in their environment.json.
cat >"$scratch/own-core" <<OWN
#!/usr/bin/env bash
exec taskset --cpu-list \$((OMPI_COMM_WORLD_RANK % $(nproc))) "$rounds" "\$@"
OWN
chmod +x "$scratch/own-core"
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >"$scratch/hosts"

if has_netem; then link=netem; up=up_netem; else link=relay; up=up_relay; fi
if [ $link = relay ]; then
  echo "latency.sh: this kernel has no sch_netem: delays come from delay.py between two tun devices, a relay in user space" >&2
fi

# Rounds without delay are short and many repeats cheap; at 100 ms a round is 100 ms, give or take little.
repeats() {
  case $1 in
  0 | 0.000* | 0.001) echo 5 ;;
  0.0*) echo 2 ;;
  *) echo 1 ;;
  esac
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p "$out"
suites=(latency)
[ -z "${ROUNDS_DATA:-}" ] || suites+=(latency-target latency-ac-sa --data-dir "$ROUNDS_DATA")
"$rounds" run "${suites[@]}" --threads 1 --repeats 5 --out "$out/alone" >/dev/null
for delay in "${delays[@]}"; do
  $up "$delay"
  # A yielding wait leaves the relay a core; a sum travels eagerly, in one message.
  ip netns exec "$left" mpirun --quiet -n 2 --hostfile "$scratch/hosts" --map-by node --bind-to none \
    --mca plm_rsh_agent "$agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.77.0.0/24 \
    --mca btl self,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca btl_tcp_eager_limit 131072 \
    --mca mpi_yield_when_idle 1 -x PATH \
    "$scratch/own-core" run "${suites[@]}" --engine mpi --threads 1 --repeats "$(repeats "$delay")" --out "$out/$delay" >/dev/null
  down
done
"$tables" latency "$out" "$link"
