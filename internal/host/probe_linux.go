package host

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProbeWord is the first argument of the throw-away process.
const ProbeWord = "__probe"

// The throw-away process waits for one byte on goAheadFD, which comes once its
// maps are written (or never: the asking process is gone). Its words go out on
// linesFD as lines "NAME ERRNO OPERATION". They are the standard streams
// because Go needs /dev/null to start with those closed, and there may be none.
const (
	goAheadFD = 0
	linesFD   = 1
)

// What the throw-away process does is its second argument. The one that only
// shows that it can be cloned has nothing to do.
const (
	roleInside = "inside"
	rolePlain  = "plain"
	roleNone   = "none"
)

// IsProbe: this process was started as a probe, and ProbeMain does not return.
func IsProbe() bool { return len(os.Args) == 3 && os.Args[1] == ProbeWord }

// ProbeMain is the throw-away process, if this process was started as one. It
// returns at once otherwise.
func ProbeMain() {
	if !IsProbe() {
		return
	}
	// Namespaces, capabilities and filters are a thread's.
	runtime.LockOSThread()
	lines := os.NewFile(linesFD, "lines")
	var goAhead [1]byte
	n, _ := unix.Read(goAheadFD, goAhead[:])
	if lines == nil || n != 1 {
		os.Exit(1)
	}
	p := &inProbe{root: -1, proc: -1}
	end := finish()
	tell := func(a answer) { _, _ = lines.WriteString(a.line()) }
	var done answers
	if os.Args[2] == roleInside {
		done = p.work(inside, done, tell)
	}
	if os.Args[2] != roleNone {
		p.work(plain, done, tell)
	}
	end()
	os.Exit(0)
}

// answer is one line of the throw-away process.
type answer struct {
	name  string
	op    string
	errno unix.Errno
}

func (a answer) line() string {
	return a.name + " " + strconv.Itoa(int(a.errno)) + " " + a.op + "\n"
}

type answers []answer

func (as answers) get(name string) (answer, bool) {
	for _, a := range as {
		if a.name == name {
			return a, true
		}
	}
	return answer{}, false
}

// lacks names a prerequisite of e that the kernel refused, or "".
func (as answers) lacks(e entry) string {
	for _, need := range strings.Fields(e.needs) {
		if a, tried := as.get(need); tried && a.errno != 0 {
			return need
		}
		if first, ok := find(need); ok && as.lacks(first) != "" {
			return need
		}
	}
	return ""
}

// parseAnswers leaves out what is no whole line: the process died there.
func parseAnswers(text string) (as answers) {
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		name, rest, ok1 := strings.Cut(line, " ")
		number, op, ok2 := strings.Cut(rest, " ")
		errno, err := strconv.ParseUint(number, 10, 12)
		if !whole || !ok1 || !ok2 || err != nil || name == "" {
			continue
		}
		as = append(as, answer{name, op, unix.Errno(errno)})
	}
	return as
}
