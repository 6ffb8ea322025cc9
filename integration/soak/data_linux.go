package main

import (
	"strings"

	"github.com/confine-run/confine/status"
)

func words(text string) []string { return strings.Fields(text) }

// setup is a set of options under which everything is run.
type setup struct {
	name    string
	options []string
	why     string
}

// setups: one line for each way of confining that a host may have to offer. What it
// refuses is said and left out.
var setups = []setup{
	{"default", nil, "as most people run it"},
	{"partial", []string{"--allow-partial", "all"}, "the same where not everything is to be had: it must not change what is"},
}

// load is a program of the batches, and how it has to end.
type load struct {
	name    string
	options []string
	words   []string // for the inside
	status  status.Status
	rc      int
}

// loads take turns in a batch.
var loads = []load{
	{"exits 0", nil, []string{"exit", "0"}, status.OK, 0},
	{"exits 3", nil, []string{"exit", "3"}, status.Failed, 3},
	{"leaves processes and files", nil, []string{"leave"}, status.OK, 0},
	{"writes too much", nil, []string{"put", "1", "3145728"}, status.OK, 0},
	{"is deaf and too slow", []string{"--time-limit", "100ms", "--grace", "50ms"}, words("each leave , deaf 20"), status.Timeout, 124},
	{"fills its memory", []string{"--memory-limit", "64M"}, words("alloc 160 20"), status.MemLimit, 137},
}

// victim is what runs in those whose supervisor is killed: without the kernel it
// would be there for another while.
var victim = load{"is killed", nil, words("each leave , deaf 20"), "", 0}

// strike is a run that passes two limits, and the one status that may come of it.
type strike struct {
	name    string
	options []string
	words   []string
	status  status.Status
	hits    []string // what limits_hit has to hold, among others
	why     string   // this status and not the other
}

// strikes: the first cause wins, and a limit that ends no run never decides. Each
// pair is made so that one of the two has to come first, on a busy host as well.
var strikes = []strike{
	{"wall, then memory in the grace period",
		[]string{"--time-limit", "300ms", "--grace", "2s", "--memory-limit", "64M"}, words("each onterm , alloc 160 20"),
		status.Timeout, []string{"wall_time"}, "the timer came first; what the target does of the SIGTERM doesn't matter"},
	{"memory, then wall",
		[]string{"--time-limit", "60s", "--memory-limit", "64M"}, words("alloc 160 20"),
		status.MemLimit, []string{"memory"}, "memory is full long before"},
	{"wall and CPU, the same figure, one thread",
		[]string{"--time-limit", "400ms", "--cpu-time", "400ms"}, []string{"sh", "while :; do :; done"},
		status.Timeout, []string{"wall_time"}, "one thread has never used more CPU time than has passed"},
	{"CPU, then wall",
		[]string{"--time-limit", "60s", "--cpu-time", "200ms"}, []string{"sh", "while :; do :; done & while :; do :; done"},
		status.CPULimit, []string{"cpu_time"}, "it is used up long before"},
	{"CPU and tasks",
		[]string{"--time-limit", "60s", "--cpu-time", "1s", "--processes", "24"}, append(words("each crowd , sh"), "while :; do :; done"),
		status.CPULimit, []string{"cpu_time", "tasks"}, "a refused task ends no run"},
	{"memory and tasks",
		[]string{"--memory-limit", "64M", "--processes", "24"}, words("each crowd , sleep 1 , alloc 160 20"),
		status.MemLimit, []string{"memory", "tasks"}, "a refused task ends no run"},
	{"memory and CPU",
		[]string{"--memory-limit", "64M", "--cpu-time", "5s"}, words("alloc 160 20"),
		status.MemLimit, []string{"memory"}, "memory is full long before"},
	{"output and wall",
		[]string{"--output-limit", "64K", "--time-limit", "1s", "--grace", "100ms"}, words("each put 1 33554432 , deaf 20"),
		status.Timeout, []string{"output", "wall_time"}, "what is too much is dropped, and ends no run"},
	{"output and memory",
		[]string{"--output-limit", "64K", "--memory-limit", "64M"}, words("each put 1 1048576 , alloc 160 20"),
		status.MemLimit, []string{"memory", "output"}, "what is too much is dropped, and ends no run"},
	{"disk and wall",
		[]string{"--disk-limit", "1M", "--time-limit", "1s", "--grace", "100ms"}, words("any fill $TMPDIR/full 4194304 , deaf 20"),
		status.Timeout, []string{"disk", "wall_time"}, "a full disk is an error for who writes, and ends no run"},
	{"file size and wall",
		[]string{"--max-file-size", "64K", "--time-limit", "10s"}, []string{"sh", "exec head -c 1000000 /dev/zero >$TMPDIR/big"},
		status.KilledSignal, []string{"file_size"}, "SIGXFSZ comes at once, from the kernel"},
	{"wall, and an exit of its own",
		[]string{"--time-limit", "200ms", "--grace", "2s"}, words("each onterm , exit 1"),
		status.Timeout, []string{"wall_time"}, "the target exits because of our SIGTERM"},
}
