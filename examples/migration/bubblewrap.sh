#!/bin/sh
# The five tasks of docs/MIGRATION.md with bubblewrap: bubblewrap.sh TASK COMMAND [ARG…]
set -eu
task=$1
shift
case $task in
offline)
	exec bwrap --unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp -- "$@"
	;;
limits)
	# The memory is that of each process by itself: bubblewrap makes no cgroup. Where systemd is, "systemd-run --user --scope -p MemoryMax=256M -p TasksMax=64" before it does.
	exec prlimit --as=268435456 --nproc=4096 timeout -k 1 2 bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp -- "$@"
	;;
project)
	exec bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --bind "$PWD" "$PWD" --ro-bind-try "$PWD/.git/hooks" "$PWD/.git/hooks" --chdir "$PWD" -- "$@"
	;;
host)
	echo "bubblewrap: all of the network (--share-net) or none" >&2
	exit 64
	;;
verdict)
	exec bwrap --json-status-fd 3 --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp -- "$@" 3>verdict.json
	;;
esac
