#!/bin/bash
# A private Slurm cluster on one machine, for tests.
#
#   cluster.sh start DIR N    start munged, slurmctld and N slurmd (n0, n1, ...)
#                             with everything they need in DIR; wait until all
#                             nodes are idle; print the environment variables
#   cluster.sh kill DIR I     simulate a crash of node I: kill its slurmd, its job
#                             steps and the jobs' processes with SIGKILL
#   cluster.sh boot DIR I     start node I again after a kill
#   cluster.sh stop DIR       kill the whole cluster (the files in DIR stay)
#
# Works as root (jobs run as root) and as an ordinary user (jobs run as that
# user). Nothing in /etc/slurm, /run or /var is read or written, and no default
# port is used. Needs Linux's /proc, bash and the programs munged, slurmctld,
# slurmd and sinfo; on Debian: slurmctld slurmd slurm-client munge.
#
# CLUSTER_CPUS (default 1) is the number of CPUs per node, which is the number of
# one-CPU jobs that run on it in parallel. CLUSTER_CONF contains more lines for
# slurm.conf; a line there replaces an earlier one of the same name, e.g.
# CLUSTER_CONF=$'MinJobAge=2\nKillWait=2'.
#
# DIR must be an absolute, short path without spaces: the path of a socket is
# limited to 107 characters.

set -u
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin   # where the daemons often are

die() { echo "cluster.sh: $*" >&2; exit 1; }

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# ---- finding processes -----------------------------------------------------
# There are no reliable pid files. A process belongs to the cluster if
# - it is a Slurm daemon or step daemon that has one of the cluster's log files
#   open (slurmstepd has its node's log open), or
# - its environment identifies it as a job's process on a node of this cluster
#   (this finds processes that left their parent or session), or
# - it is a descendant of one of these.
# (This misses a job's process that has left its parents AND emptied its
# environment. Slurm itself does not find it either.)
# This script and its own ancestors are never part of the cluster.
#
# members [NODE]: the process ids of one node, or of the whole cluster.
members() {
  local node=${1-} log p f pid stat roots=" " own=" $$ $BASHPID " parent more
  local -A up=()

  # The parent of each process. The program's name in "stat" may contain anything,
  # so use the text after the last ")". Ignore zombies.
  for p in /proc/[0-9]*; do
    { read -r -d '' stat <"$p/stat"; } 2>/dev/null
    [[ ${stat-} == *")"* ]] || continue
    set -- ${stat##*) }
    [[ $1 == [ZX] ]] || up[${p#/proc/}]=$2
    stat=
  done
  p=$$
  while p=${up[$p]-} && [[ -n $p && $p != 0 ]]; do own+="$p "; done

  # The daemons.
  for f in $(grep -ls '^slurm' /proc/[0-9]*/comm); do
    pid=${f#/proc/} pid=${pid%/comm}
    for f in /proc/"$pid"/fd/*; do
      for log in "$dir"/log/${node:-*}.log; do
        [[ $f -ef $log ]] && roots+="$pid "
      done
    done
  done
  if [[ -z $node && -s $dir/munge/pid ]]; then
    pid=$(<"$dir/munge/pid")
    grep -qszF "$dir/munge/socket" "/proc/$pid/cmdline" && roots+="$pid "
  fi

  # The jobs' processes.
  f=$(grep -lszxF "SLURM_CONF=$dir/slurm.conf" /proc/[0-9]*/environ)
  [[ -z $f ]] || for f in $(grep -lszxE "SLURMD_NODENAME=${node:-n[0-9]+}" $f); do
    pid=${f#/proc/} pid=${pid%/environ}
    roots+="$pid "
  done

  # The descendants, one generation per iteration.
  more=1
  while [[ $more ]]; do
    more=
    for p in "${!up[@]}"; do
      [[ $roots == *" ${up[$p]} "* && $roots != *" $p "* ]] && roots+="$p " more=1
    done
  done
  for p in $roots; do
    [[ $own == *" $p "* || -z ${up[$p]-} ]] || echo "$p"
  done | sort -nu
}

# Kill a node, or the whole cluster, atomically: stop every process first, so
# that none can react to the end of another.
slay() {
  local now before=
  while now=$(members "$@") && [[ $now != "$before" ]]; do
    kill -STOP $now 2>/dev/null
    before=$now
  done
  [[ -z $now ]] || kill -KILL $now 2>/dev/null
  for _ in {1..200}; do
    [[ -z $(members "$@") ]] && return
    sleep 0.02
  done
  die "these processes do not die:" $(members "$@")
}

# ---- starting --------------------------------------------------------------

# daemon LOG PROGRAM...: start a daemon in a new session, without the caller's
# open files.
daemon() {
  local log=$1
  shift
  setsid "$@" </dev/null >>"$log" 2>&1 &
}

# Output of a daemon before it has read slurm.conf, and its errors, go to
# NAME.out; the rest goes to NAME.log.
boot() { daemon "$dir/log/$1.out" slurmd -D -N "$1"; }

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The first of $1 consecutive free ports, below the kernel's ephemeral ports.
free_ports() {
  local base p
  for _ in {1..100}; do
    base=$((10000 + RANDOM % 20000))
    for ((p = base; p < base + $1; p++)); do
      listening "$p" && continue 2
    done
    echo "$base"
    return
  done
  die "no free ports"
}

# idle N: are N nodes idle? (--Node gives a line for each node.)
idle() { [[ $(timeout 5 sinfo -h --Node -o %T 2>/dev/null | grep -cx idle) == "$1" ]]; }

start() {
  local n=$1 port me i any= conf=$dir/slurm.conf
  me=$(id -un) || die "this user has no name"
  for i in munged slurmctld slurmd sinfo setsid timeout; do
    command -v "$i" >/dev/null || die "$i: not found"
  done
  [[ ! -e $conf ]] || die "$conf is already there"
  # An outer Slurm job's variables must not reach the daemons.
  unset ${!SLURM*} ${!SBATCH*}

  (umask 077 && mkdir -p "$dir"/{munge,state,spool,log} &&
    head -c 128 /dev/urandom >"$dir/munge/key") || die "cannot write to $dir"

  # --force: otherwise munged requires a socket folder that is open to all users.
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" \
    --log-file="$dir/munge/log" </dev/null >"$dir/munge/out" 2>&1 ||
    die "munged: $(cat "$dir/munge/out")"

  # Slurm can listen on the address of this host's name or on all addresses.
  # Use the first if it is loopback. (Clients without the key are rejected anyway.)
  case $(getent ahostsv4 "$(uname -n)" 2>/dev/null) in
  127.*) any=CommunicationParameters=NoInAddrAny,NoCtldInAddrAny ;;
  esac

  port=$(free_ports $((n + 1))) || exit 1
  {
    cat <<END
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
$any
SlurmUser=$me
SlurmdUser=$me
# Daemons and commands use this private munged. A requeued job waits
# cred_expire seconds (5 at least, else it is 120) before it may start again.
AuthInfo=socket=$dir/munge/socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
# No cgroups, no accounting, no MPI, no mail.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
# Use the configured number of CPUs per node, whatever the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MessageTimeout=2
TCPTimeout=1
# Start jobs at once; detect a dead or returning node quickly:
# SlurmdTimeout=5 takes about 11 s, 2 about 6 s.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmctldTimeout=5
SlurmdTimeout=5
ReturnToService=2
KillWait=5
END
    for ((i = 0; i < n; i++)); do
      echo "NodeName=n$i NodeHostname=localhost NodeAddr=127.0.0.1" \
        "Port=$((port + 1 + i)) CPUs=${CLUSTER_CPUS:-1} State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    echo "${CLUSTER_CONF-}"
  } >"$conf"

  # Start the controller first: a slurmd or a command without it sleeps a second.
  export SLURM_CONF=$conf
  daemon "$dir/log/slurmctld.out" slurmctld -D
  for _ in {1..500}; do
    listening "$port" && break
    sleep 0.02
  done
  for ((i = 0; i < n; i++)); do
    mkdir -p "$dir/spool/n$i"
    boot "n$i"
  done
  for _ in {1..200}; do
    idle "$n" && break
    sleep 0.05
  done
  idle "$n" || {
    tail -n 5 "$dir"/log/*.out >&2
    slay
    die "the nodes did not become idle; see $dir/log"
  }
  echo "SLURM_CONF=$conf"
}

# ---- the command line ------------------------------------------------------

(($# >= 2)) || usage
command=$1
mkdir -p -- "$2" && dir=$(cd -- "$2" && pwd) || exit 1
[[ $command == stop || ${3-} =~ ^[0-9]+$ ]] || usage
case $command in
start) (($3 > 0)) || usage; start "$3" ;;
kill) slay "n$3" ;;
boot)
  export SLURM_CONF=$dir/slurm.conf
  boot "n$3"
  ;;
stop) slay ;;
*) usage ;;
esac
