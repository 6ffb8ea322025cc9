#!/bin/sh
# The five tasks of docs/MIGRATION.md: confine.sh TASK COMMAND [ARG…]
set -eu
task=$1
shift
case $task in
offline)
	exec confine -- "$@"
	;;
limits)
	exec confine --time-limit 2s --memory-limit 256M --processes 64 -- "$@"
	;;
project)
	exec confine --workdir rw -- "$@"
	;;
host)
	exec confine --allow-network "$HOST" -- "$@"
	;;
verdict)
	exec confine --report verdict.json --time-limit 2s --memory-limit 256M -- "$@"
	;;
esac
