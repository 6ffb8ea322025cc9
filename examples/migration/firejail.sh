#!/bin/sh
# The five tasks of docs/MIGRATION.md with firejail, which is set-uid root: firejail.sh TASK COMMAND [ARG…]
set -eu
task=$1
shift
case $task in
offline)
	exec firejail --quiet --noprofile --net=none --private --private-tmp --private-dev --caps.drop=all --nonewprivs --seccomp -- "$@"
	;;
limits)
	# The memory is the address space of each process, and the tasks are all of the user's.
	exec firejail --quiet --noprofile --net=none --timeout=00:00:02 --rlimit-as=268435456 --rlimit-nproc=4096 -- "$@"
	;;
project)
	exec firejail --quiet --noprofile --net=none --private="$PWD" --private-tmp --caps.drop=all --nonewprivs --seccomp -- "$@"
	;;
host)
	# By addresses, which names have at that moment: iptables rules for a network of its own, on an interface that root gives it.
	exec firejail --quiet --noprofile --net="$INTERFACE" --netfilter="$RULES" -- "$@"
	;;
verdict)
	echo "firejail: the exit code is all there is" >&2
	exit 64
	;;
esac
