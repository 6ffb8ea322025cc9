#!/bin/sh
# judge.sh DIR COMMAND...: runs a submission on every DIR/*.in, compares with
# DIR/*.out, and prints one verdict for each. The status of the report is what
# counts: an exit code of 124 can be the program's own. What a submission may use is CPU
# time, which doesn't depend on what else the host does; the wall clock only ends who waits.
set -u
dir=$1
shift
confine=${CONFINE:-confine}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# The report is one line of JSON; its first "status" and "cpu_ms" are the run's.
field() { grep -o "\"$1\":[^,}]*" "$work/report.json" | head -n 1 | cut -d: -f2 | tr -d '"'; }

for input in "$dir"/*.in; do
	name=$(basename "$input" .in)
	"$confine" --profile standard --time-limit 30s --cpu-time 1s --memory-limit 64M \
		--output-limit 64K --log quiet --report "$work/report.json" \
		--workdir ro -- "$@" <"$input" >"$work/out" 2>/dev/null
	status=$(field status)
	case $status in
	OK) if cmp -s "$work/out" "${input%.in}.out"; then verdict=AC; else verdict=WA; fi ;;
	TIMEOUT | CPU_LIMIT) verdict=TLE ;;
	MEM_LIMIT) verdict=MLE ;;
	INTERNAL_ERROR | EXEC_FAILED) verdict=XX ;;
	*) verdict=RE ;;
	esac
	[ "$verdict" = AC ] || bad=1
	cpu=$(field cpu_ms)
	echo "$name: $verdict ($status, ${cpu:-?} ms CPU)"
done
exit $bad
