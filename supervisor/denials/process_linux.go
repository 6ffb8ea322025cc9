package denials

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is what /proc says of a thread's process.
type process struct {
	Process
	group int  // its number in our pid namespace
	deaf  bool // SIGSYS would not end it, or not for sure
}

// look reads /proc/TID/status. Whether it was the right one is the caller's to ask.
func look(thread int) (process, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/status")
	if err != nil {
		return process{}, err
	}
	return parse(string(status)), nil
}

// parse takes what is needed. What isn't there is as bad as can be.
func parse(status string) process {
	p := process{deaf: true}
	deaf, masks := false, 0
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			p.Comm = strings.ToValidUTF8(value, "\uFFFD")
		case "Tgid":
			p.group, _ = strconv.Atoi(value)
			p.PID = p.group
		case "NStgid": // one number for each pid namespace, the innermost last
			if fields := strings.Fields(value); len(fields) > 0 {
				p.PID, _ = strconv.Atoi(fields[len(fields)-1])
			}
		case "SigBlk", "SigIgn", "SigCgt":
			set, err := strconv.ParseUint(value, 16, 64)
			deaf = deaf || err != nil || set&(1<<(unix.SIGSYS-1)) != 0
			masks++
		}
	}
	p.deaf = deaf || masks != 3
	return p
}

// maxText bounds what is read of a string.
const maxText = 64

// text reads a string of a process's memory, as far as it can be read; "" if not
// at all.
func text(pid int, addr uint64) string {
	var buf [maxText]byte
	// What lies on the next page may not be there; then the first part is.
	page := uint64(unix.Getpagesize())
	first := min(page-addr%page, maxText)
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: int(first)}}
	if first < maxText {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr + first), Len: int(maxText - first)})
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(maxText)
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err != nil || n <= 0 {
		return ""
	}
	s, _, ended := strings.Cut(string(buf[:n]), "\x00")
	if !ended {
		s += "…"
	}
	return s
}
