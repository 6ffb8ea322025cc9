package egress

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

const tcp4Table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1001 1 0000000000000000 100 0 0 10 0
   1: 020012C6:9C41 22D8B85D:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 1002 1 0000000000000000 20 4 30 10 -1
   2: 020012C6:9C42 22D8B85D:01BB 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
   3: 0100007F:1F90 0100007F:8000 01 00000000:00000000 00:00000000 00000000  1000        0 1003 1 0000000000000000 20 4 30 10 -1
short
`

const udp6Table = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  1: 00000000000000000000000000000000:14E9 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 2001 2 0000000000000000 0
  2: 6E6F63FD656E6966000000000200000A:9C41 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 2002 2 0000000000000000 0
  3: 0000000000000000FFFF0000020012C6:9C43 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 2003 2 0000000000000000 0
`

func TestLookFor(t *testing.T) {
	for name, c := range map[string]struct {
		table, protocol, from, want string
	}{
		"of its own address":           {tcp4Table, "tcp", "198.18.0.2:40001", "1002"},
		"of any address":               {tcp4Table, "tcp", "198.18.0.2:8080", "1001"},
		"of its own before any":        {tcp4Table, "tcp", "127.0.0.1:8080", "1003"},
		"nobody has it any more":       {tcp4Table, "tcp", "198.18.0.2:40002", ""},
		"another port":                 {tcp4Table, "tcp", "198.18.0.2:40003", ""},
		"of any address of IPv6":       {udp6Table, "udp6", "[fd63:6f6e:6669:6e65::2]:5353", "2001"},
		"of its own of IPv6":           {udp6Table, "udp6", "[fd63:6f6e:6669:6e65:0:0:a00:2]:40001", "2002"},
		"IPv4 of a socket of IPv6":     {udp6Table, "udp6", "198.18.0.2:40003", "2003"},
		"IPv4 of any socket of IPv6":   {udp6Table, "udp6", "198.18.0.2:5353", "2001"},
		"there is no table to look in": {"", "tcp", "198.18.0.2:40001", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := inside(t, map[string]string{"1/net/" + c.protocol: c.table})
			from := netip.MustParseAddrPort(c.from)
			if got := p.inode(c.protocol[:3], from); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// inside is a proc with these files.
func inside(t *testing.T, files map[string]string) *processes {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if link, ok := text, filepath.Base(filepath.Dir(path)) == "fd"; ok {
			must.Do(t, os.Symlink(link, path))
		} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	p := &processes{begun: make(chan struct{})}
	p.begin(fd)
	t.Cleanup(p.end)
	return p
}

// A connection can be refused before the supervisor has read that the run has begun.
func TestWhoeverIsFirstIsNamedToo(t *testing.T) {
	p := inside(t, map[string]string{"1/net/tcp": tcp4Table, "7/fd/5": "socket:[1002]", "7/comm": "python3\n"})
	late := &processes{begun: make(chan struct{}), over: make(chan struct{})}
	got := make(chan int, 1)
	go func() {
		pid, _ := late.of("tcp", netip.MustParseAddrPort("198.18.0.2:40001"))
		got <- pid
	}()
	for late.searching.Load() == 0 && len(got) == 0 {
		runtime.Gosched()
	}
	own, err := unix.Dup(p.proc)
	must.Do(t, err)
	late.begin(own)
	defer late.end()
	if pid := <-got; pid != 7 {
		t.Errorf("pid %d", pid)
	}
	over := make(chan struct{})
	close(over) // nothing is left inside
	never := &processes{begun: make(chan struct{}), over: over}
	if pid, _ := never.of("tcp", netip.MustParseAddrPort("198.18.0.2:40001")); pid != 0 {
		t.Errorf("pid %d of nobody", pid)
	}
}

func TestWhoseSocket(t *testing.T) {
	p := inside(t, map[string]string{
		"1/net/tcp": tcp4Table, "1/fd/3": "socket:[1]", "1/comm": "init\n",
		"7/fd/0": "/dev/null", "7/fd/5": "socket:[1002]", "7/comm": "python3\n",
		"9/fd/5": "socket:[10020]", "9/comm": "other\n", "self/fd/5": "socket:[1002]", "uptime": "1 2\n",
	})
	if pid, comm := p.of("tcp", netip.MustParseAddrPort("198.18.0.2:40001")); pid != 7 || comm != "python3" {
		t.Errorf("%d, %q", pid, comm)
	}
	if pid, comm := p.of("tcp", netip.MustParseAddrPort("198.18.0.2:8080")); pid != 0 || comm != "" {
		t.Errorf("nobody has it, but %d, %q", pid, comm)
	}
	p.end()
	if pid, _ := p.of("tcp", netip.MustParseAddrPort("198.18.0.2:40001")); pid != 0 {
		t.Error("somebody is found after the end")
	}
}

// TestFewWaitForAName: whoever is one too many hears at once that there is none.
func TestFewWaitForAName(t *testing.T) {
	p := inside(t, map[string]string{"1/net/tcp": tcp4Table, "7/fd/3": "socket:[1002]", "7/comm": "curl\n"})
	from := netip.MustParseAddrPort("198.18.0.2:40001")
	var all sync.WaitGroup
	p.mu.Lock()
	for range maxSearching {
		all.Go(func() {
			if pid, _ := p.of("tcp", from); pid != 7 {
				t.Errorf("found is %d", pid)
			}
		})
	}
	for p.searching.Load() < maxSearching {
		runtime.Gosched()
	}
	if pid, _ := p.of("tcp", from); pid != 0 {
		t.Errorf("found is %d", pid)
	}
	p.mu.Unlock()
	all.Wait()
}
