package denials

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Thread is what /proc says of a thread and its process. Whether it was the right one is
// for [Asked.Waits] to say.
type Thread struct {
	Process       // as seen inside
	TID     int   // as seen inside
	Group   int   // the process's number in our pid namespace
	Room    int64 // in its table of descriptors, which grows and doesn't shrink

	pending, blocked, ignored, caught uint64 // signals
	masks                             int    // of the last three that could be read
}

// Look reads /proc/TID/status.
func Look(thread int) (Thread, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/status")
	if err != nil {
		return Thread{}, err
	}
	return parse(string(status)), nil
}

// Signalled says whether it has a signal to take, or that can't be told.
func (t *Thread) Signalled() bool { return t.masks != 3 || t.pending&^t.blocked&^t.ignored != 0 }

// survivesSIGSYS: the signal would not end its process, or not for sure.
func (t *Thread) survivesSIGSYS() bool {
	return t.masks != 3 || (t.blocked|t.ignored|t.caught)&(1<<(unix.SIGSYS-1)) != 0
}

func parse(status string) (t Thread) {
	mask := func(value string, to *uint64) {
		set, err := strconv.ParseUint(value, 16, 64)
		if *to |= set; err == nil {
			t.masks++
		}
	}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		// Of one number for each pid namespace, the innermost is the last.
		n, _ := strconv.Atoi(value[strings.LastIndexAny(value, " \t")+1:])
		switch key {
		case "Name":
			t.Comm = strings.ToValidUTF8(value, "\uFFFD")
		case "Tgid":
			t.Group, t.PID = n, n
		case "Pid":
			t.TID = n
		case "NStgid":
			t.PID = n
		case "NSpid":
			t.TID = n
		case "FDSize":
			t.Room = int64(n)
		case "SigPnd", "ShdPnd":
			set, _ := strconv.ParseUint(value, 16, 64)
			t.pending |= set
		case "SigBlk":
			mask(value, &t.blocked)
		case "SigIgn":
			mask(value, &t.ignored)
		case "SigCgt":
			mask(value, &t.caught)
		}
	}
	return t
}

// String reads a string of a process's memory into buf, as far as it can be read; ended says whether
// that is all of it.
func String(pid int, addr uint64, buf []byte) (s []byte, ended bool, err error) {
	// What lies on the next page may not be there; then the first part is.
	page, size := uint64(unix.Getpagesize()), uint64(len(buf))
	first := min(page-addr%page, size)
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: int(first)}}
	if first < size {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr + first), Len: int(size - first)})
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	s, _, ended = bytes.Cut(buf[:max(n, 0)], []byte{0})
	return s, ended, err
}

// maxText bounds what is read of a string for words.
const maxText = 64

// text is a string for words; "" where nothing can be read.
func text(pid int, addr uint64) string {
	s, ended, err := String(pid, addr, make([]byte, maxText))
	switch {
	case err != nil || len(s) == 0:
		return ""
	case ended:
		return string(s)
	}
	return string(s) + "…"
}
