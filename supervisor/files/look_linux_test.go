package files

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/supervisor/denials"
)

// The target is this test binary, run again: it hands its calls on, sends the listener over
// descriptor 3, and makes one of the calls that tests name.

const targetEnv = "CONFINE_TEST_FILES_TARGET"

func TestMain(m *testing.M) {
	host.ProbeMain()
	if word := os.Getenv(targetEnv); word != "" {
		os.Unsetenv(targetEnv)
		target(word)
	}
	os.Exit(m.Run())
}

func ptr(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	return uintptr(unsafe.Pointer(p))
}

func raw(nr uintptr, args ...uintptr) {
	var all [6]uintptr
	copy(all[:], args)
	_, _, _ = unix.RawSyscall6(nr, all[0], all[1], all[2], all[3], all[4], all[5])
}

const cwd = ^uintptr(99) // AT_FDCWD

// deeds are what a target does, in a directory that has a file, a directory dir, a file
// dir/in and a link to dir; the descriptor 9 is dir.
var deeds = map[string]struct {
	do   func()
	want []string // "wish path": "read file" or, absent, "read! file"; below the directory
}{
	"open":        {func() { raw(unix.SYS_OPENAT, cwd, ptr("file"), 0) }, []string{"read file"}},
	"open write":  {func() { raw(unix.SYS_OPENAT, cwd, ptr("file"), unix.O_RDWR) }, []string{"write file"}},
	"open absent": {func() { raw(unix.SYS_OPENAT, cwd, ptr("none"), 0) }, []string{"read! none"}},
	"make":        {func() { raw(unix.SYS_OPENAT, cwd, ptr("new"), unix.O_CREAT|unix.O_WRONLY, 0o600) }, []string{"create! new"}},
	"make there":  {func() { raw(unix.SYS_OPENAT, cwd, ptr("file"), unix.O_CREAT|unix.O_WRONLY, 0o600) }, []string{"write file"}},
	"list":        {func() { raw(unix.SYS_OPENAT, cwd, ptr("dir"), 0) }, []string{"list dir"}},
	"path only":   {func() { raw(unix.SYS_OPENAT, cwd, ptr("file"), unix.O_PATH) }, []string{"look file"}},
	"dirfd":       {func() { raw(unix.SYS_OPENAT, 9, ptr("in"), 0) }, []string{"read dir/in"}},
	"no dirfd":    {func() { raw(unix.SYS_OPENAT, 77, ptr("in"), 0) }, nil},
	"dots":        {func() { raw(unix.SYS_OPENAT, cwd, ptr("./dir//../dir/./in"), 0) }, []string{"read dir/in"}},
	"link dots":   {func() { raw(unix.SYS_OPENAT, cwd, ptr("sub/far/../in"), 0) }, []string{"read dir/in"}},
	"null":        {func() { raw(unix.SYS_OPENAT, cwd, 0, 0) }, nil},
	"bad":         {func() { raw(unix.SYS_OPENAT, cwd, 1, 0) }, nil},
	"too long":    {func() { raw(unix.SYS_OPENAT, cwd, ptr(strings.Repeat("a/", 2100)), 0) }, nil},
	"bytes":       {func() { raw(unix.SYS_OPENAT, cwd, ptr("a\xff\nb"), 0) }, []string{"read! a\xff\nb"}},
	"empty":       {func() { raw(unix.SYS_OPENAT, cwd, ptr(""), 0) }, nil},
	"itself":      {func() { raw(unix.SYS_OPENAT, cwd, ptr("/proc/self/status"), 0) }, []string{"read /proc/self/status"}},
	"open2": {func() {
		how := [3]uint64{unix.O_WRONLY}
		raw(unix.SYS_OPENAT2, cwd, ptr("file"), uintptr(unsafe.Pointer(&how)), 24)
	}, []string{"write file"}},
	"open2 inside": {func() {
		how := [3]uint64{0, 0, unix.RESOLVE_IN_ROOT}
		raw(unix.SYS_OPENAT2, 9, ptr("/in"), uintptr(unsafe.Pointer(&how)), 24)
	}, []string{"read dir/in"}},
	"exec":        {func() { raw(unix.SYS_EXECVE, ptr("file"), 0, 0) }, []string{"exec file"}},
	"exec fd":     {func() { raw(unix.SYS_EXECVEAT, 9, ptr(""), 0, 0, unix.AT_EMPTY_PATH) }, []string{"exec dir"}},
	"stat":        {func() { raw(sysNewfstatat, cwd, ptr("link"), 0, 0) }, []string{"look link"}},
	"stat fd":     {func() { raw(sysNewfstatat, 9, ptr(""), 0, unix.AT_EMPTY_PATH) }, nil},
	"unlink":      {func() { raw(unix.SYS_UNLINKAT, cwd, ptr("none")) }, []string{"remove! none"}},
	"rename":      {func() { raw(unix.SYS_RENAMEAT2, 9, ptr("in"), cwd, ptr("no/where"), 0) }, []string{"remove dir/in", "create! no/where"}},
	"link":        {func() { raw(unix.SYS_LINKAT, cwd, ptr("file"), cwd, ptr("file"), 0) }, []string{"read file", "create file"}},
	"symlink":     {func() { raw(unix.SYS_SYMLINKAT, ptr("what"), 9, ptr("in")) }, []string{"create dir/in"}},
	"chmod":       {func() { raw(unix.SYS_FCHMODAT, cwd, ptr("none"), 0) }, []string{"write! none"}},
	"times of fd": {func() { raw(unix.SYS_UTIMENSAT, 9, 0, 0, 0) }, nil},
	"chdir":       {func() { raw(unix.SYS_CHDIR, ptr("dir")); raw(unix.SYS_OPENAT, cwd, ptr("in"), 0) }, []string{"list dir", "read dir/in"}},
	"own cwd": {func() { // of this thread alone
		raw(unix.SYS_UNSHARE, unix.CLONE_FS)
		raw(unix.SYS_CHDIR, ptr("dir"))
		raw(unix.SYS_OPENAT, cwd, ptr("in"), 0)
	}, []string{"list dir", "read dir/in"}},
	"connect":  {func() { unixSocket(unix.SYS_CONNECT, "\x01\x00sock\x00") }, []string{"connect! sock"}},
	"abstract": {func() { unixSocket(unix.SYS_CONNECT, "\x01\x00\x00sock") }, nil},
	"inet": {func() {
		unixSocket(unix.SYS_CONNECT, "\x02\x00\x00\x01\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00")
	}, nil},
	"bind": {func() { unixSocket(unix.SYS_BIND, "\x01\x00dir/in") }, []string{"create dir/in"}},
}

func unixSocket(nr uintptr, sockaddr string) {
	b := []byte(sockaddr)
	raw(nr, 77, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
}

func target(word string) {
	runtime.LockOSThread()
	if err := unix.Dup3(opened(unix.Open("dir", unix.O_PATH, 0)), 9, 0); err != nil {
		panic(err)
	}
	var filter []unix.SockFilter
	add := func(code uint16, k uint32, jt, jf uint8) {
		filter = append(filter, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0)
	for _, table := range []map[uint32]call{calls(), older()} {
		for nr := range table {
			add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
			add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
		}
	}
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		fmt.Println("seccomp:", errno)
		os.Exit(125)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		os.Exit(125)
	}
	_ = unix.Close(int(fd))
	deeds[word].do()
	raw(unix.SYS_EXIT_GROUP, 0)
}

func opened(fd int, err error) int {
	if err != nil {
		panic(err)
	}
	return fd
}

type everything struct{}

func (everything) Answer(*denials.Call, func(uint64) string) denials.Answer {
	return denials.Answer{Supervised: true, Rule: Rule}
}
func (everything) Hint(*denials.Call) string { return "" }

// watched runs a deed, and gives what was seen of it, of the directory.
func watched(t *testing.T, word string) []string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	for _, err := range []error{
		os.WriteFile(dir+"/file", nil, 0o600), os.MkdirAll(dir+"/dir/deep", 0o700), os.WriteFile(dir+"/dir/in", nil, 0o600),
		os.Symlink("dir", dir+"/link"), os.Mkdir(dir+"/sub", 0o700), os.Symlink("../dir/deep", dir+"/sub/far"),
	} {
		must.Do(t, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	theirs := os.NewFile(uintptr(pair[1]), "channel")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	var out bytes.Buffer
	cmd.Env, cmd.Dir, cmd.ExtraFiles = append(os.Environ(), targetEnv+"="+word), dir, []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	theirs.Close()
	defer unix.Close(pair[0])
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), space, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		_ = cmd.Wait()
		t.Skipf("no listener: %v %s", err, out.String())
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	must.Do(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	must.Do(t, err)
	var mu sync.Mutex
	var seen []string
	w := New(func(a Access) {
		mu.Lock()
		defer mu.Unlock()
		if a.PID != cmd.Process.Pid || a.Comm == "" || a.Unknown {
			t.Errorf("%+v", a)
		}
		mark := ""
		if !a.Exists {
			mark = "!"
		}
		seen = append(seen, string(a.Wish)+mark+" "+strings.TrimPrefix(a.Path, dir+"/"))
	})
	l, err := denials.Listen(fds[0], everything{}, 1<<22, w.Take, nil)
	must.Do(t, err)
	if err := cmd.Wait(); err != nil && word != "exec" {
		t.Errorf("%v: %s", err, out.String())
	}
	l.Close()
	w.Close()
	if n := w.Unseen(); n != 0 {
		t.Errorf("%d unseen", n)
	}
	mu.Lock()
	defer mu.Unlock()
	return seen
}

func TestCallsSayWhatTheyName(t *testing.T) {
	if ok, err := host.Has("seccomp_user_notif"); err != nil || !ok {
		must.Do(t, host.MustRun("seccomp_user_notif"))
		t.Skip("no seccomp_user_notif")
	}
	for word, c := range deeds {
		t.Run(word, func(t *testing.T) {
			got := watched(t, word)
			got = slices.DeleteFunc(got, func(s string) bool { // of Go's own runtime
				return strings.HasPrefix(s, "read") && strings.Contains(s, "/sys/") || s == "look! "
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
