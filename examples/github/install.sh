#!/bin/bash
# The first half of action.yml: builds confine of the action's own checkout, for the steps that follow.
set -euo pipefail
bin=$RUNNER_TEMP/confine-bin
mkdir -p "$bin"
cd "$GITHUB_ACTION_PATH"
make --silent build
install -m 755 bin/confine bin/confine-server "$bin"
echo "$bin" >>"$GITHUB_PATH"
if [ "$ACTION_USERNS" = allow ] && [ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
	sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
fi
