#!/bin/bash
# The second half of action.yml: runs the script, and shows what it did. Nothing of a workflow is text of this script.
set -euo pipefail
dir=$(mktemp -d "$RUNNER_TEMP/confine.XXXXXXXX")
options=()
while IFS= read -r word; do
	[ -z "$word" ] || options+=("$word")
done <<<"$ACTION_OPTIONS"
rc=0
confine --report "$dir/report.json" --record "$dir/record" "${options[@]}" -- bash -eo pipefail -c "$ACTION_RUN" || rc=$?
{
	echo "directory=$dir"
	echo "number=${dir##*.}"
	echo "status=$(grep -o '"status":"[A-Z_]*"' "$dir/report.json" | head -n 1 | cut -d '"' -f 4)"
} >>"$GITHUB_OUTPUT"
if confine report "$dir/record" --html "$dir/report.html"; then
	{
		echo '````text'
		COLUMNS=120 LC_ALL=C.UTF-8 confine report "$dir/record" --text | tr '`' "'" # no name ends the block
		echo '````'
	} >>"$GITHUB_STEP_SUMMARY"
fi
exit "$rc"
