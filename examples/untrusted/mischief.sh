#!/bin/sh
# What a script from somewhere might try, in forms that do no harm where they
# succeed. Each line says how far it got.
try() {
	what=$1
	shift
	if "$@" >/dev/null 2>&1; then echo "$what: yes"; else echo "$what: no"; fi
}

try "reads /etc/shadow" cat /etc/shadow
try "reads ~/.profile" cat ~/.profile
try "sees a token in the environment" sh -c 'env | grep -qi token'
try "sees other processes" sh -c '[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 20 ]'
try "finds a network" sh -c 'tail -n +3 /proc/net/dev | grep -qv " lo:"'
try "writes to /var" sh -c 'touch /var/planted && rm /var/planted'
try "holds a capability" sh -c 'grep CapPrm /proc/self/status | grep -q "[1-9a-f]$"'
try "makes a user namespace" unshare --user true
