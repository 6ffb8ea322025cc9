#!/bin/sh
# The five tasks of docs/MIGRATION.md with containers, which need an IMAGE: podman.sh TASK COMMAND [ARG…]
# ENGINE=docker is the same.
set -eu
task=$1
shift
engine=${ENGINE:-podman}
OPTIONS=${OPTIONS:-} # of your engine's, such as --runtime
case $task in
offline)
	exec "$engine" run $OPTIONS --rm --network none --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges "$IMAGE" "$@"
	;;
limits)
	# timeout ends the client; --rm and a name are what ends the container, too.
	name=migration-$$
	status=0
	timeout -k 1 2 "$engine" run $OPTIONS --rm --name "$name" --network none --memory 256m --memory-swap 256m --pids-limit 64 "$IMAGE" "$@" || status=$?
	"$engine" rm --force --time 0 "$name" >/dev/null 2>&1 || :
	exit "$status"
	;;
project)
	exec "$engine" run $OPTIONS --rm --network none --read-only --tmpfs /tmp --volume "$PWD:$PWD" --workdir "$PWD" "$IMAGE" "$@"
	;;
host)
	echo "containers: a network of their own, and a proxy that you run in it" >&2
	exit 64
	;;
verdict)
	name=migration-$$
	status=0
	"$engine" run $OPTIONS --name "$name" --network none --memory 256m "$IMAGE" "$@" || status=$?
	"$engine" inspect --format '{"exit_code":{{.State.ExitCode}},"oom_killed":{{.State.OOMKilled}}}' "$name" >verdict.json
	"$engine" rm --force "$name" >/dev/null
	exit "$status"
	;;
esac
