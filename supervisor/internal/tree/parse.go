package tree

import (
	"bytes"
	"time"
)

// userHZ is the unit of times in /proc/PID/stat. It is part of the ABI on
// every architecture that Go runs on, whatever CONFIG_HZ is.
const userHZ = 100

// ClockTick is the unit of [Clock].
const ClockTick = time.Second / userHZ

// stat is what is taken from /proc/PID/stat. Times are in units of 1/userHZ seconds.
type stat struct {
	pid, ppid      int32
	state          byte
	comm           [16]byte // TASK_COMM_LEN; the rest is zero
	utime, stime   int64    // all threads, living and dead
	cutime, cstime int64    // children that were waited for, and theirs
	threads        int64
	start          int64 // since boot; with the pid it names a process for good
	rss            int64 // pages
	faults         int64 // that took no I/O, of all threads
}

func (s *stat) own() int64    { return s.utime + s.stime }
func (s *stat) reaped() int64 { return s.cutime + s.cstime }

// dead: nothing of it runs any more. A leader that has exited before its
// threads is also shown as a zombie, and is none.
func (s *stat) dead() bool {
	return s.state == 'X' || s.state == 'Z' && s.threads <= 1
}

// headless: the leader has exited, other threads go on. The kernel shows such
// a process without memory and as a zombie; the truth is with another thread.
func (s *stat) headless() bool { return s.state == 'Z' && s.threads > 1 }

// Fields after the command's name, as in proc_pid_stat(5) less 3.
const (
	fieldState   = 0
	fieldPPID    = 1
	fieldFaults  = 7
	fieldUtime   = 11
	fieldStime   = 12
	fieldCutime  = 13
	fieldCstime  = 14
	fieldThreads = 17
	fieldStart   = 19
	fieldRSS     = 21

	neededFields = 1<<fieldPPID | 1<<fieldFaults | 1<<fieldUtime | 1<<fieldStime | 1<<fieldCutime | 1<<fieldCstime |
		1<<fieldThreads | 1<<fieldStart | 1<<fieldRSS
	maxPID = 1 << 30
)

// parseStat reads one /proc/PID/stat. The name between the parentheses is the
// target's to choose, and may hold parentheses, spaces and newlines; numbers
// can't, so that the last parenthesis is the kernel's.
func parseStat(text []byte, s *stat) bool {
	*s = stat{}
	open := bytes.IndexByte(text, '(')
	closing := bytes.LastIndexByte(text, ')')
	if open < 2 || closing < open {
		return false
	}
	pid, ok := parseInt(text[:open-1])
	if !ok || text[open-1] != ' ' || pid <= 0 || pid > maxPID {
		return false
	}
	s.pid = int32(pid)
	copy(s.comm[:len(s.comm)-1], text[open+1:closing])

	rest := bytes.TrimPrefix(bytes.TrimSuffix(text[closing+1:], []byte("\n")), []byte(" "))
	var n [fieldRSS + 1]int64
	for i := range n {
		var field []byte
		field, rest, _ = bytes.Cut(rest, []byte(" "))
		if i == fieldState {
			if len(field) != 1 {
				return false
			}
			s.state = field[0]
			continue
		}
		v, ok := parseInt(field)
		if !ok && neededFields&(1<<i) != 0 {
			return false
		}
		n[i] = max(v, 0)
	}
	s.ppid = int32(min(n[fieldPPID], maxPID))
	s.faults, s.threads, s.start, s.rss = n[fieldFaults], n[fieldThreads], n[fieldStart], n[fieldRSS]
	s.utime, s.stime, s.cutime, s.cstime = n[fieldUtime], n[fieldStime], n[fieldCutime], n[fieldCstime]
	return true
}

// maxInt is far above anything that the kernel shows, and small enough that
// sums over all processes can't overflow.
const maxInt = 1 << 50

func parseInt(text []byte) (int64, bool) {
	negative := len(text) > 1 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	var v int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		if v = v*10 + int64(c-'0'); v > maxInt {
			return 0, false
		}
	}
	if negative {
		v = -v
	}
	return v, true
}

// appendChildren adds the numbers of a /proc/PID/task/TID/children.
func appendChildren(pids []int32, text []byte) []int32 {
	for len(text) > 0 {
		var word []byte
		word, text, _ = bytes.Cut(text, []byte(" "))
		pids = appendPID(pids, word)
	}
	return pids
}

func appendPID(pids []int32, word []byte) []int32 {
	if v, ok := parseInt(word); ok && v > 0 && v <= maxPID {
		pids = append(pids, int32(v))
	}
	return pids
}

// rollup is what is taken from /proc/PID/smaps_rollup, in bytes.
type rollup struct {
	pss   int64 // swap included: swapped memory still is the target's
	shmem int64 // the part of pss that is shared memory, and in no case less
}

// parseRollup reads a smaps_rollup. Before Linux 5.3 it doesn't tell shared
// memory apart; then all that isn't swapped may be that.
func parseRollup(text []byte) (r rollup, ok bool) {
	var swap int64
	found, split := false, false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		colon := max(bytes.IndexByte(line, ':'), 0)
		to := (*int64)(nil)
		switch string(line[:colon]) {
		case "Pss":
			to, found = &r.pss, true
		case "Pss_Shmem":
			to, split = &r.shmem, true
		case "SwapPss":
			to = &swap
		default:
			continue
		}
		if *to, ok = kilobytes(line[colon+1:]); !ok {
			return rollup{}, false
		}
	}
	if !found {
		return rollup{}, false
	}
	if !split || r.shmem > r.pss {
		r.shmem = r.pss
	}
	r.pss += swap
	return r, true
}

// kilobytes reads "  12 kB" as bytes.
func kilobytes(text []byte) (int64, bool) {
	if !bytes.HasSuffix(text, []byte(" kB")) {
		return 0, false
	}
	kb, ok := parseInt(bytes.Trim(text[:len(text)-3], " "))
	return kb << 10, ok && kb >= 0
}
