package egress

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// processes finds which process inside has a socket, by the inside's /proc: a table of the kernel
// gives the socket's inode, and the descriptors of processes link to it. It is for messages and
// reports; no decision depends on it.
type processes struct {
	searching atomic.Int32 // and waiting to
	mu        sync.Mutex
	proc      int  // descriptor
	there     bool // it can be asked
	// begun is closed when it is known by which proc, over when nothing is left inside. A run's
	// first connection can be here before the word that it has begun.
	begun chan struct{}
	over  <-chan struct{}
	once  sync.Once // of closing begun
}

// begin takes a descriptor of the proc inside; -1 is that there is none.
func (p *processes) begin(proc int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proc, p.there = proc, proc >= 0
	p.once.Do(func() { close(p.begun) })
}

func (p *processes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.there {
		_ = unix.Close(p.proc)
	}
	p.there = false
}

const (
	// maxSearched bounds the processes that are searched for one socket.
	maxSearched = 512
	// maxSearching bounds who waits for a name. A refused connection is kept open for so
	// long, and a target can attempt many kinds at once, and be slow to be searched.
	maxSearching = 16
)

// of is the process that has the socket which is bound to an address; 0 if none is found, or too many searches are
// under way.
func (p *processes) of(protocol string, from netip.AddrPort) (pid int, comm string) {
	defer p.searching.Add(-1)
	if p.searching.Add(1) > maxSearching {
		return 0, ""
	}
	select {
	case <-p.begun:
	case <-p.over:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.there {
		return 0, ""
	}
	inode := p.inode(protocol, from)
	if inode == "" {
		return 0, ""
	}
	link := "socket:[" + inode + "]"
	searched := 0
	for _, name := range p.list(".") {
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if searched++; searched > maxSearched {
			break
		}
		for _, fd := range p.list(name + "/fd") {
			var buf [64]byte
			size, err := unix.Readlinkat(p.proc, name+"/fd/"+fd, buf[:])
			if err == nil && string(buf[:size]) == link {
				return n, strings.TrimSuffix(string(p.read(name+"/comm", 64)), "\n")
			}
		}
	}
	return 0, ""
}

// maxTable bounds how much of the kernel's table is read.
const maxTable = 1 << 20

// inode is the number of the socket bound to from, as the tables of /proc/net have it.
func (p *processes) inode(protocol string, from netip.AddrPort) string {
	var addresses []string
	table := "1/net/" + protocol
	if from.Addr().Is4() {
		addresses = []string{local(from.Addr().AsSlice(), from.Port()), local(make([]byte, 4), from.Port())}
		if inode := findInode(p.read(table, maxTable), addresses); inode != "" {
			return inode
		}
	}
	wide := from.Addr().As16()
	addresses = []string{local(wide[:], from.Port()), local(make([]byte, 16), from.Port())}
	return findInode(p.read(table+"6", maxTable), addresses)
}

// findInode finds the line of one of some local addresses, the first before the others.
func findInode(table []byte, addresses []string) (inode string) {
	best := len(addresses)
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) < 10 {
			continue
		}
		for i, a := range addresses[:best] {
			if string(fields[1]) == a && string(fields[9]) != "0" {
				best, inode = i, string(fields[9])
				break
			}
		}
	}
	return inode
}

// local is an address as the tables write it: words of 32 bits in the machine's own order.
func local(address []byte, port uint16) string {
	swapped := make([]byte, len(address))
	for i := range address {
		swapped[i] = address[i&^3|3-i&3]
	}
	return strings.ToUpper(hex.EncodeToString(swapped)) + ":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
}

func (p *processes) read(name string, most int64) []byte {
	fd, err := unix.Openat(p.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, most))
	return b
}

func (p *processes) list(dir string) []string {
	fd, err := unix.Openat(p.proc, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, _ := f.Readdirnames(4096)
	return names
}
