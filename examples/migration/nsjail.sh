#!/bin/sh
# The five tasks of docs/MIGRATION.md with nsjail, by its manual: NOT tried. nsjail.sh TASK COMMAND [ARG…]
set -eu
task=$1
shift
case $task in
offline)
	exec nsjail --really_quiet --mode o -R /usr -s usr/bin:/bin -s usr/lib:/lib -s usr/lib64:/lib64 -T /tmp -- "$@"
	;;
limits)
	exec nsjail --really_quiet --mode o --time_limit 2 --cgroup_mem_max 268435456 --cgroup_pids_max 64 -R /usr -s usr/bin:/bin -s usr/lib:/lib -s usr/lib64:/lib64 -T /tmp -- "$@"
	;;
project)
	exec nsjail --really_quiet --mode o -R /usr -s usr/bin:/bin -s usr/lib:/lib -s usr/lib64:/lib64 -T /tmp -B "$PWD" --cwd "$PWD" -- "$@"
	;;
host)
	echo "nsjail: an interface of its own (--macvlan_iface), as root, and packet filters that you make" >&2
	exit 64
	;;
verdict)
	exec nsjail --mode o --log verdict.log --time_limit 2 -R /usr -s usr/bin:/bin -s usr/lib:/lib -s usr/lib64:/lib64 -T /tmp -- "$@"
	;;
esac
