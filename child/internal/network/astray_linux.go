package network

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// Astray is how often something was meant for elsewhere, in a network namespace of which
// nothing leads anywhere: what found no route, and datagrams to ports where nobody is,
// which is how a question for a name ends when no name server is known. It is a hint for
// whoever wonders why a program failed, and no count of what was refused.
func Astray(box *handoff.Box, status unix.WaitStatus) uint32 {
	n := &box.Network
	if status == 0 || !box.Has(unix.CLONE_NEWNET) || len(n.Requests)+len(n.Sockets) > 0 || n.Dials {
		return 0
	}
	v4, v6 := counters("/proc/net/snmp"), counters("/proc/net/snmp6")
	return column(v4, "Ip:", "OutNoRoutes") + column(v4, "Udp:", "NoPorts") + line(v6, "Ip6OutNoRoutes")
}

// counters reads a small file of the kernel's; it is empty where that isn't there.
func counters(name string) string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 8192)
	for n := 0; ; {
		more, err := unix.Read(fd, buf[n:])
		if n += max(more, 0); err != nil || more == 0 || n == len(buf) {
			return string(buf[:n])
		}
	}
}

// column is a number of a table whose rows begin with kind: the first one names them.
func column(text, kind, name string) uint32 {
	var names []string
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) == 0 || fields[0] != kind {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if names[i] == name {
				return number(fields[i])
			}
		}
	}
	return 0
}

// line is the number that stands beside a name.
func line(text, name string) uint32 {
	for row := range strings.Lines(text) {
		if fields := strings.Fields(row); len(fields) == 2 && fields[0] == name {
			return number(fields[1])
		}
	}
	return 0
}

// number is a counter; one that is none, or too large for it to matter, is cut.
func number(text string) (n uint32) {
	const most = 1 << 24
	for i := 0; i < len(text) && n < most; i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		n = n*10 + uint32(text[i]-'0')
	}
	return min(n, most)
}
