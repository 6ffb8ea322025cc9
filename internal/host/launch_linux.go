package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a throw-away process may take. It needs two
// milliseconds; what takes this long hangs, and nothing can be told.
const patience = 10 * time.Second

// namespaces are those that a run is cloned into, each with its probe.
var namespaces = []struct {
	probe string
	name  string
	flag  uintptr
}{
	{"userns", "CLONE_NEWUSER", unix.CLONE_NEWUSER},
	{"mountns", "CLONE_NEWNS", unix.CLONE_NEWNS},
	{"pidns", "CLONE_NEWPID", unix.CLONE_NEWPID},
	{"netns", "CLONE_NEWNET", unix.CLONE_NEWNET},
	{"ipcns", "CLONE_NEWIPC", unix.CLONE_NEWIPC},
	{"utsns", "CLONE_NEWUTS", unix.CLONE_NEWUTS},
	{"cgroupns", "CLONE_NEWCGROUP", unix.CLONE_NEWCGROUP},
}

// inherited are the capabilities that a process keeps through its execve in
// a namespace where it is not root.
var inherited = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_DAC_OVERRIDE}

// errNoMain: this is the throw-away process, which came to ask for another one
// instead of answering. Without this, a main that doesn't call ProbeMain would
// start itself for ever.
var errNoMain = errors.New("main does not call host.ProbeMain")

// tryAll gives the results in the table's order, the cgroups after them.
func tryAll(f *Facts) (rs Results) {
	own, version := tryHere()
	done, broke := answers(nil), error(nil)
	if a, _ := own.get("proc"); a.errno != 0 {
		done = answers{a} // there is no process to start, and every need says so
	} else {
		done, broke = tryInside()
	}
	filters, filtersBroke := done, broke
	if _, reached := done.get("seccomp"); !reached && done.lacks(entry{needs: "proc"}) == "" {
		// No namespaces, or the process died in them: filters need none.
		filters, _, filtersBroke = try(rolePlain, 0)
	}
	for _, e := range table {
		switch e.place {
		case here:
			r := e.judge(own, nil)
			if e.name == "landlock" {
				r.Version = version
			}
			rs = append(rs, r)
		case inside:
			rs = append(rs, e.judge(done, broke))
		case plain:
			rs = append(rs, e.judge(filters, filtersBroke))
		}
	}
	return append(rs, cgroupResults(f, mayWrite)...)
}

// tryHere tries what changes nothing in this process.
func tryHere() (answers, int) {
	p := new(inProbe)
	return p.work(here, nil, func(answer) {}), p.version
}

// tryInside clones the throw-away process into all namespaces. Where the kernel
// refuses that, it finds out which of them are refused.
func tryInside() (done answers, broke error) {
	all := uintptr(0)
	for _, ns := range namespaces {
		all |= ns.flag
	}
	done, cloneErr, broke := try(roleInside, all)
	if broke != nil || cloneErr == 0 {
		return done, broke
	}
	refused := uintptr(0)
	for _, ns := range namespaces {
		flags := uintptr(unix.CLONE_NEWUSER | ns.flag)
		_, errno, broke := try(roleNone, flags)
		if broke != nil && errno == 0 {
			return done, broke
		}
		if errno != 0 {
			refused |= ns.flag
			done = append(done, answer{ns.probe, "clone(" + ns.name + ")", errno})
			if ns.probe == "userns" {
				return done, nil
			}
		}
	}
	if refused == 0 {
		// Each alone is given, all together are not.
		return answers{{"userns", "clone(all namespaces)", cloneErr}}, nil
	}
	more, _, broke := try(roleInside, all&^refused)
	return merge(more, done), broke
}

// try starts the throw-away process and collects its answers. errno is the
// clone's.
func try(role string, flags uintptr) (done answers, errno unix.Errno, broke error) {
	if len(os.Args) > 1 && os.Args[1] == ProbeWord {
		return nil, 0, errNoMain
	}
	lines, linesIn, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer lines.Close()
	goAheadOut, goAhead, err := os.Pipe()
	if err != nil {
		_ = linesIn.Close()
		return nil, 0, err
	}
	defer goAhead.Close()
	attr := &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{goAheadFD: goAheadOut, linesFD: linesIn, 2: linesIn},
		Sys:   &syscall.SysProcAttr{Cloneflags: flags},
	}
	if flags != 0 {
		attr.Sys.AmbientCaps = inherited
	}
	probe, err := os.StartProcess("/proc/self/exe", []string{"confine", ProbeWord, role}, attr)
	_, _ = linesIn.Close(), goAheadOut.Close()
	if err != nil {
		if !errors.As(err, &errno) || flags == 0 {
			return nil, 0, err
		}
		return nil, errno, nil
	}
	refused := false
	if flags != 0 {
		done = given(flags)
		op, errno := writeMaps(probe.Pid)
		done = append(done, answer{"uid_map", op, errno})
		refused = errno != 0
	}
	if refused {
		_ = probe.Kill() // by us, and no accident
	} else {
		_, _ = goAhead.Write([]byte{1})
	}
	text, broke := collect(lines, probe)
	if refused {
		return done, 0, nil
	}
	return merge(done, parseAnswers(text)), 0, broke
}

// given answers for the namespaces of which no more is asked than that the
// clone makes them.
func given(flags uintptr) (done answers) {
	for _, ns := range namespaces {
		if flags&ns.flag != 0 && !hasStep(ns.probe) {
			done = append(done, answer{name: ns.probe})
		}
	}
	return done
}

func hasStep(probe string) bool {
	for _, s := range steps {
		if s.name == probe {
			return true
		}
	}
	return false
}

// merge lets what was tried inside overrule that the clone was given.
func merge(done, later answers) answers {
	for _, a := range later {
		found := false
		for i := range done {
			if done[i].name == a.name {
				done[i], found = a, true
			}
		}
		if !found {
			done = append(done, a)
		}
	}
	return done
}

// collect reads until the process has nothing more to say, which is its end,
// and reaps it. The error is why not all was said.
func collect(lines *os.File, probe *os.Process) (string, error) {
	_ = lines.SetReadDeadline(time.Now().Add(patience))
	var text bytes.Buffer
	_, broke := io.Copy(&text, lines)
	if broke != nil {
		_ = probe.Kill()
	}
	state, err := probe.Wait()
	switch {
	case broke != nil:
	case err != nil:
		broke = err
	case !state.Success():
		broke = errors.New("the process that tries it ended with " + state.String())
	}
	return text.String(), broke
}

// writeMaps gives the new user namespace the caller's own user and group, from
// outside: that needs no privilege.
func writeMaps(pid int) (op string, errno unix.Errno) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	for _, m := range [][2]string{
		{"uid_map", uid + " " + uid + " 1"},
		{"setgroups", "deny"}, // or an ordinary user may not write the next
		{"gid_map", gid + " " + gid + " 1"},
	} {
		op := "write(" + m[0] + ")"
		fd, err := unix.Open(dir+m[0], unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "open(" + m[0] + ")", err.(unix.Errno)
		}
		_, err = unix.Write(fd, []byte(m[1]))
		_ = unix.Close(fd)
		if err != nil {
			return op, err.(unix.Errno)
		}
	}
	return "", 0
}

func (e entry) judge(done answers, broke error) Result {
	// What was not reached is a no where the kernel refused what leads there,
	// and nothing at all where the process came to grief.
	if need := done.lacks(e); need != "" {
		r := e.result(No, "needs "+need)
		r.lacks = need
		return r
	}
	a, tried := done.get(e.name)
	if tried && a.errno == 0 {
		return e.result(Yes, "")
	}
	if tried {
		r := e.result(No, a.op)
		if a.errno != unsaid {
			r.Errno = a.errno
			r.Detail += ": " + errnoText(a.errno)
		}
		return r
	}
	if broke != nil {
		return e.result(Unknown, broke.Error())
	}
	return e.result(Unknown, "the process that tries it ended before")
}

func errnoText(errno unix.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name + " (" + errno.Error() + ")"
	}
	return strings.ToLower(errno.Error())
}
