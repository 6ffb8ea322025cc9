#!/bin/sh
# The five tasks of docs/MIGRATION.md with isolate, which is set-uid root, by its manual: NOT tried. isolate.sh TASK COMMAND [ARG…]
# A box is made before, with "isolate --cg --init", and removed after, with "isolate --cg --cleanup". COMMAND is a full path.
set -eu
task=$1
shift
case $task in
offline)
	exec isolate --cg --run -- "$@"
	;;
limits)
	exec isolate --cg --wall-time=2 --cg-mem=262144 --processes=64 --run -- "$@"
	;;
project)
	exec isolate --cg --dir="$PWD=$PWD:rw" --chdir="$PWD" --run -- "$@"
	;;
host)
	echo "isolate: all of the network (--share-net) or none" >&2
	exit 64
	;;
verdict)
	exec isolate --cg --wall-time=2 --cg-mem=262144 --meta=verdict.txt --run -- "$@"
	;;
esac
