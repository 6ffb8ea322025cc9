package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// tree is a random directory.
type tree struct {
	t     *testing.T
	r     *rand.Rand
	root  string
	paths []string // of what is in it
	dirs  []string
}

var (
	treeNames = []string{"a", "b", "c", "d", ".env", "key.pem", ".envrc", "confine.toml", "with space"}
	fileModes = []uint32{0o644, 0o755, 0o600, 0o400, 0o755, 0o700, 0o666, 0o111, 0o200, 0o040, 0}
	dirModes  = []uint32{0o755, 0o755, 0o755, 0o700, 0o555, 0o777, 0o711, 0o500, 0o300, 0o050}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func newTree(t *testing.T, r *rand.Rand, root string) *tree {
	t.Helper()
	tr := &tree{t: t, r: r, root: root}
	must.Do(t, os.MkdirAll(filepath.Join(root, "..", "home"), 0o755))
	must.Do(t, os.MkdirAll(root, 0o755))
	tr.dirs = []string{root}
	for range 4 + r.IntN(5) {
		dir := filepath.Join(pick(r, tr.dirs), pick(r, treeNames))
		if os.Mkdir(dir, 0o755) == nil {
			tr.dirs, tr.paths = append(tr.dirs, dir), append(tr.paths, dir)
		}
	}
	for range 10 {
		file := filepath.Join(pick(r, tr.dirs), pick(r, treeNames))
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_, err = f.WriteString("no program\n")
			must.Do(t, err)
			must.Do(t, f.Close())
			tr.paths = append(tr.paths, file)
		}
	}
	for range 6 {
		at := filepath.Join(pick(r, tr.dirs), pick(r, treeNames))
		to := pick(r, append([]string{"/etc/passwd", "nowhere", "..", "../..", ".", "a/b", root, "/usr/share", "/nowhere"}, tr.paths...))
		if filepath.IsAbs(to) && strings.HasPrefix(to, root) && r.IntN(2) == 0 {
			if rel, err := filepath.Rel(filepath.Dir(at), to); err == nil {
				to = rel
			}
		}
		if os.Symlink(to, at) == nil {
			tr.paths = append(tr.paths, at)
		}
	}
	tr.modes()
	tr.acls()
	return tr
}

// modes closes some of it. What lies deeper comes first, since afterwards it may be out of reach.
func (tr *tree) modes() {
	for i := len(tr.paths) - 1; i >= 0; i-- {
		p := tr.paths[i]
		st, err := os.Lstat(p)
		if err != nil || st.Mode()&os.ModeSymlink != 0 || tr.r.IntN(2) == 0 {
			continue
		}
		if os.Geteuid() == 0 && tr.r.IntN(3) == 0 {
			must.Do(tr.t, os.Lchown(p, pick(tr.r, []int{0, 12345}), pick(tr.r, []int{0, 12345})))
		}
		if st.IsDir() {
			tr.t.Cleanup(func() { _ = os.Chmod(p, 0o755) })
			defer func(mode uint32) { _ = unix.Chmod(p, mode) }(pick(tr.r, dirModes))
			continue
		}
		must.Do(tr.t, unix.Chmod(p, pick(tr.r, fileModes)))
	}
}

// acls gives some of it ACLs that name the caller or somebody else, where the file system has
// them. Which, is drawn by itself: everything else about a seed is as it was.
func (tr *tree) acls() {
	seed, _ := strconv.ParseUint(filepath.Base(tr.root), 10, 64)
	r := rand.New(rand.NewPCG(seed, 4))
	for _, p := range tr.paths {
		st, err := os.Lstat(p)
		if err != nil || st.Mode()&os.ModeSymlink != 0 || r.IntN(8) != 0 {
			continue
		}
		id, named := pick(r, []uint32{uint32(os.Geteuid()), 12345}), pick(r, []uint16{0x02, 0x08}) // ACL_USER, ACL_GROUP
		list := binary.LittleEndian.AppendUint32(nil, 2)
		for _, tag := range []uint16{0x01, 0x02, 0x04, 0x08, 0x10, 0x20} {
			who := ^uint32(0)
			switch tag {
			case named:
				who = id
			case 0x02, 0x08:
				continue
			}
			list = binary.LittleEndian.AppendUint16(list, tag)
			list = binary.LittleEndian.AppendUint16(list, uint16(4+r.IntN(4)))
			list = binary.LittleEndian.AppendUint32(list, who)
		}
		name := "system.posix_acl_access"
		if st.IsDir() && r.IntN(2) == 0 {
			name = "system.posix_acl_default"
		}
		if err := unix.Setxattr(p, name, list, 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EACCES) {
			tr.t.Fatal(p, err)
		}
	}
}

// some are places of the tree, and beside it.
func (tr *tree) some() string {
	switch tr.r.IntN(6) {
	case 0:
		return tr.root
	case 1:
		return pick(tr.r, tr.dirs)
	}
	return pick(tr.r, append([]string{tr.root}, tr.paths...))
}

// randomFiles is a policy about files.
func randomFiles(t *testing.T, r *rand.Rand, dir string) policyOf {
	t.Helper()
	tr := newTree(t, r, dir)
	p := policyOf{dir: dir, options: []string{"--workdir", pick(r, []string{"none", "ro", "rw", "overlay"})}}
	if r.IntN(4) == 0 {
		p.options = append(p.options, "-p", pick(r, []string{"strict", "standard", "testing"}))
	}
	for range r.IntN(5) {
		switch r.IntN(6) {
		case 0:
			p.options = append(p.options, "--allow-read", tr.some())
		case 1:
			p.options = append(p.options, "--allow-write", tr.some())
		case 2:
			p.options = append(p.options, "--overlay", pick(r, tr.dirs))
		case 3:
			p.options = append(p.options, "--deny", tr.some())
		case 4:
			p.options = append(p.options, "--deny", pick(r, []string{"**/.env", "*.pem", "**/b", dir + "/*/c"}))
		case 5:
			p.options = append(p.options, "--mount", pick(r, tr.dirs)+":/mnt/"+pick(r, treeNames[:4])+pick(r, []string{"", ":ro", ":rw", ":overlay"}))
		}
	}
	for _, path := range append(tr.paths, tr.root, "/mnt", "/mnt/a") {
		p.path(path)
		if r.IntN(3) == 0 {
			p.path(path + "/" + pick(r, []string{"new", "../new", "a", "./b/..", ".envrc", "c/d"}))
		}
	}
	for range 6 {
		p.path("/mnt/" + pick(r, treeNames[:4]) + "/" + pick(r, treeNames))
	}
	for _, path := range []string{
		"/etc/passwd", "/etc/shadow", "/etc/new", "/etc", "/", "/new", "/dev/null", "/dev/shm", "/dev/shm/new", "/dev/new", "/run/new", "/proc/self/status", "/proc/1",
		"/proc/sys/kernel/hostname", "/tmp", "/tmp/new-" + strconv.Itoa(os.Getpid()), "/usr/new", filepath.Join(dir, "..", "home"), filepath.Join(dir, "..", "home", "new"), filepath.Join(dir, "..", "sibling"),
	} {
		p.path(path)
	}
	return p
}

// path asks all that can be asked about one.
func (p *policyOf) path(name string) {
	for _, access := range []string{"read", "write", "create", "exec"} {
		q := question{[]string{"--path", name, "--access", "read,write,create,exec"}, access + " " + name}
		known := false
		for _, k := range p.questions {
			known = known || k.line == q.line
		}
		if !known && (access != "exec" || strings.HasPrefix(name, p.dir) || strings.HasPrefix(name, "/mnt")) {
			p.questions = append(p.questions, q)
		}
	}
}

// randomNetwork is a policy about addresses of this host.
func randomNetwork(t *testing.T, r *rand.Rand, dir string, s servers) policyOf {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755))
	p := policyOf{dir: dir}
	word := func() string {
		w := pick(r, append([]string{"localhost", "*", "0.0.0.0/0", "127.0.0.0/8"}, s.hosts...))
		if w != "*" && !strings.Contains(w, "/") && r.IntN(2) == 0 {
			w += ":" + pick(r, s.ports)
		}
		return w
	}
	for range 1 + r.IntN(3) {
		p.options = append(p.options, "--allow-network", word())
	}
	if r.IntN(2) == 0 {
		p.options = append(p.options, "--deny-network", word())
	}
	if r.IntN(3) == 0 {
		p.options = append(p.options, "--allow-port", pick(r, s.ports))
	}
	if r.IntN(3) == 0 {
		p.options = append(p.options, "--block-internal=false")
	}
	for _, h := range s.hosts {
		for _, port := range s.ports {
			p.questions = append(p.questions, question{[]string{"--host", h + ":" + port}, "connect " + h + ":" + port})
		}
	}
	return p
}

// harmless are calls with arguments that do nothing where they are let through.
var harmless = []struct {
	name string
	nr   uintptr
	args [6]uint64
}{
	{"getppid", unix.SYS_GETPPID, [6]uint64{}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, 9}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}},
	{"socket", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}},
	{"socket", unix.SYS_SOCKET, [6]uint64{1 << 32, unix.SOCK_STREAM}},
	{"unshare", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWUSER}},
	{"unshare", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_FILES}},
	{"setns", unix.SYS_SETNS, [6]uint64{1 << 20}},
	{"personality", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}},
	{"personality", unix.SYS_PERSONALITY, [6]uint64{0x0800000}},
	{"prctl", unix.SYS_PRCTL, [6]uint64{unix.PR_GET_DUMPABLE}},
	{"seccomp", unix.SYS_SECCOMP, [6]uint64{1, 8}},
	{"seccomp", unix.SYS_SECCOMP, [6]uint64{1, 0}},
	{"seccomp", unix.SYS_SECCOMP, [6]uint64{99}},
	{"keyctl", unix.SYS_KEYCTL, [6]uint64{99}},
	{"add_key", unix.SYS_ADD_KEY, [6]uint64{}},
	{"bpf", unix.SYS_BPF, [6]uint64{999}},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uint64{}},
	{"userfaultfd", unix.SYS_USERFAULTFD, [6]uint64{^uint64(0)}},
	{"ptrace", unix.SYS_PTRACE, [6]uint64{1, 0x7ffffff}},
	{"mount", unix.SYS_MOUNT, [6]uint64{}},
	{"umount2", unix.SYS_UMOUNT2, [6]uint64{}},
	{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uint64{}},
	{"chroot", unix.SYS_CHROOT, [6]uint64{}},
	{"init_module", unix.SYS_INIT_MODULE, [6]uint64{}},
	{"swapon", unix.SYS_SWAPON, [6]uint64{}},
	{"sethostname", unix.SYS_SETHOSTNAME, [6]uint64{0, 1 << 20}},
	{"syslog", unix.SYS_SYSLOG, [6]uint64{99}},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uint64{}},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uint64{1 << 20}},
	{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uint64{1 << 20}},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uint64{0x7ffffff, 0, 0, 0, 0, 9}},
	{"kcmp", unix.SYS_KCMP, [6]uint64{0x7ffffff, 0x7ffffff}},
	{"memfd_create", unix.SYS_MEMFD_CREATE, [6]uint64{}},
	{"inotify_init1", unix.SYS_INOTIFY_INIT1, [6]uint64{1 << 30}},
	{"timerfd_create", unix.SYS_TIMERFD_CREATE, [6]uint64{99, 99}},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uint64{1 << 30}},
	{"ioctl", unix.SYS_IOCTL, [6]uint64{1 << 20, unix.TIOCSTI}},
	{"ioctl", unix.SYS_IOCTL, [6]uint64{1 << 20, unix.TIOCSTI | 1<<32}},
	{"ioctl", unix.SYS_IOCTL, [6]uint64{1 << 20, unix.TCGETS}},
	{"fsopen", unix.SYS_FSOPEN, [6]uint64{}},
	{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, [6]uint64{0, 0, 99}},
	{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, [6]uint64{99}},
}

func callQuestions() (all []question) {
	for _, h := range harmless {
		asked, line := h.name, "call "+strconv.Itoa(int(h.nr))
		for _, a := range h.args {
			asked += "," + strconv.FormatUint(a, 10)
			line += " " + strconv.FormatUint(a, 10)
		}
		all = append(all, question{[]string{"--syscall", asked}, line})
	}
	return all
}

// randomCalls is a policy about system calls: one that ships, or one of a file that
// answers with errnos that nobody else would give.
func randomCalls(t *testing.T, r *rand.Rand, dir string) policyOf {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755))
	p := policyOf{dir: dir, questions: callQuestions(), options: []string{"--seccomp-action", pick(r, []string{"errno", "errno", "log"})}}
	if r.IntN(4) == 0 {
		p.options = append(p.options, "--seccomp", "strict")
		return p
	}
	text := "extends = \"" + pick(r, []string{"default", "strict"}) + "\"\n"
	for range 4 + r.IntN(10) {
		h := pick(r, harmless)
		text += fmt.Sprintf("[[rules]]\nnames = [%q]\n", h.name)
		if r.IntN(2) == 0 {
			i := r.IntN(3)
			text += fmt.Sprintf("args = [{ index = %d, op = %q, value = %d, width = 32 }]\n", i, pick(r, []string{"eq", "ne", "gt", "le"}), uint32(h.args[i]))
		}
		switch r.IntN(3) {
		case 0:
			text += "action = \"allow\"\n"
		default:
			text += fmt.Sprintf("action = \"errno\"\nerrno = %q\n", pick(r, []string{"ENETDOWN", "EPROTO", "EDQUOT", "EPERM"}))
		}
	}
	name := dir + ".policy.toml"
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	p.options = append(p.options, "--seccomp", name)
	return p
}
