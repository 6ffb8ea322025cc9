#!/bin/sh
# The loop of a program that runs what a language model proposes, with "confine session": steps, one command of the shell a line, from
# standard input, in one session that sees the current directory through an overlay. A step that fails is taken back. At the end it shows
# what was changed, and with "apply" copies it to the directory. main.go is the same in Go.
#
#	printf '%s\n' 'echo hello >greeting' 'rm -rf . ; false' | examples/agent/agent.sh apply
set -eu
confine=${CONFINE:-confine}

id=$("$confine" session start --workdir overlay --owner-pid $$ --idle-timeout 10m -- sh)
trap '"$confine" session stop "$id"' EXIT

while IFS= read -r step; do
	before=$("$confine" session snapshot "$id")
	rc=0
	"$confine" session exec "$id" --time-limit 1m -- sh -c "$step" </dev/null || rc=$?
	echo "$step: exited $rc"
	if [ $rc -ne 0 ]; then
		"$confine" session restore "$id" "$before"
		echo "taken back"
	fi
	"$confine" session snapshot --remove "$before"
done

"$confine" session diff "$id"
if [ "${1-}" = apply ]; then
	"$confine" session apply "$id"
fi
