package windows

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/supervisor/outcome"
)

// rung is a way to create a process with the token of a run. The first that this host gives is taken.
type rung struct {
	mechanism string
	create    func(s *spawn) (*windows.ProcessInformation, error)
	// lacks says why it can't be had for a process; "": it can.
	lacks func(s *spawn) string
}

// ladder begins with the way that gives the process to a service, which nothing of ours is handed to by the kernel's own inheritance. The other
// takes no privilege, since the token is this process's own with less.
var ladder = [...]rung{
	{"create_process_with_token", createWithToken, func(s *spawn) string {
		switch {
		case s.console != 0:
			return "a terminal is given by attributes"
		case !impersonates():
			return "SeImpersonatePrivilege is not held"
		case underWine():
			return "Wine hands over no streams"
		}
		return ""
	}},
	{"create_process_as_user", createAsUser, func(*spawn) string { return "" }},
}

// spawn is a process that is about to be created.
type spawn struct {
	path, line string
	dir        string
	env        []uint16
	token      windows.Token
	desktop    string
	streams    [3]windows.Handle // inheritable
	console    windows.Handle    // a pseudo console; 0: none
	jobs       []windows.Handle  // the outer one first
}

// find finds a program by its name, or its path, as seen from where it starts. It is not looked for in that directory.
func find(name, dir string, env []string) (string, error) {
	missing := &outcome.ExecError{Path: name, Errno: syscall.ENOENT, Step: handoff.StepLookup}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", missing
	}
	extensions := filepath.SplitList(strings.ToLower(lookup(env, "PATHEXT")))
	if len(extensions) == 0 {
		extensions = []string{".com", ".exe", ".bat", ".cmd"}
	}
	try := func(at string) string {
		names := []string{at}
		if filepath.Ext(at) == "" {
			names = nil
		}
		for _, x := range extensions {
			names = append(names, at+x)
		}
		for _, n := range names {
			if info, err := os.Stat(n); err == nil && info.Mode().IsRegular() {
				return n
			}
		}
		return ""
	}
	if strings.ContainsAny(name, `\/:`) {
		switch {
		case filepath.IsAbs(name):
		case filepath.VolumeName(name) != "": // it counts from a directory of that drive's, which nobody has set
			return "", missing
		default:
			name = filepath.Join(dir, name)
		}
		if at := try(filepath.Clean(name)); at != "" {
			return at, nil
		}
		return "", missing
	}
	for _, d := range filepath.SplitList(lookup(env, "PATH")) {
		if !filepath.IsAbs(d) {
			continue
		}
		if at := try(filepath.Join(d, name)); at != "" {
			return at, nil
		}
	}
	return "", missing
}

// commandLine is what a program takes its arguments from.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = syscall.EscapeArg(a)
	}
	return strings.Join(words, " ")
}

// target is a process that was created.
type target struct {
	process windows.Handle
	pid     uint32
	job     *jobObject // of it and those that it starts
	console windows.Handle
	doomed  *atomic.Bool // everybody in the sandbox is killed

	mu     sync.Mutex
	killed bool
	hung   bool
}

// launch creates a process suspended in its jobs, looks at it, and resumes it. passed is told of each way that could not be taken.
func launch(s *spawn, t *token, passed func(mechanism, why string)) (*target, error) {
	for i := range ladder {
		r := &ladder[i]
		if why := r.lacks(s); why != "" {
			passed(r.mechanism, why)
			continue
		}
		made, err := r.create(s)
		last := i == len(ladder)-1
		switch {
		case err == nil:
			return begin(made, s, t)
		case last || !unprivileged(err):
			return nil, notCreated(s, r.mechanism, err)
		}
		passed(r.mechanism, err.Error())
	}
	return nil, errors.ErrUnsupported // never: the last takes everything
}

// unprivileged says whether a way to create a process was refused, and not the process: the next may give it.
func unprivileged(err error) bool {
	for _, e := range [...]error{windows.ERROR_PRIVILEGE_NOT_HELD, windows.ERROR_SERVICE_DISABLED, windows.ERROR_SERVICE_NOT_ACTIVE, windows.ERROR_INVALID_PARAMETER} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// begin looks at a process that was created suspended, and resumes it: configured is not applied.
func begin(made *windows.ProcessInformation, s *spawn, t *token) (*target, error) {
	defer windows.CloseHandle(made.Thread)
	fail := func(op string, err error) (*target, error) {
		_ = windows.TerminateProcess(made.Process, killedCode)
		_ = windows.CloseHandle(made.Process)
		return nil, task.Setup("start", op, err)
	}
	for _, job := range s.jobs {
		is, err := inJob(made.Process, job)
		if err == nil && !is {
			if err = windows.AssignProcessToJobObject(job, made.Process); err == nil {
				is, err = inJob(made.Process, job)
			}
		}
		if err == nil && !is {
			err = windows.ERROR_NOT_SUPPORTED
		}
		if err != nil {
			return fail("AssignProcessToJobObject", err)
		}
	}
	if len(t.said) == 0 { // else the ledger says already that it is another
		var own windows.Token
		if err := windows.OpenProcessToken(made.Process, windows.TOKEN_QUERY, &own); err != nil {
			return fail("OpenProcessToken", err)
		}
		said := differences(own, t.sid)
		_ = own.Close()
		if len(said) > 0 {
			return fail("the token of the process: "+strings.Join(said, "; "), nil)
		}
	}
	if _, err := windows.ResumeThread(made.Thread); err != nil {
		return fail("ResumeThread", err)
	}
	return &target{process: made.Process, pid: made.ProcessId, console: s.console}, nil
}

// notCreated tells what is the command's own fault from what is not.
func notCreated(s *spawn, mechanism string, err error) error {
	fault := func(errno syscall.Errno) error {
		return &outcome.ExecError{Path: s.path, Errno: errno, Step: handoff.StepExecve}
	}
	switch {
	case errors.Is(err, windows.ERROR_BAD_EXE_FORMAT), errors.Is(err, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH):
		return fault(syscall.ENOEXEC)
	case errors.Is(err, windows.ERROR_FILE_NOT_FOUND), errors.Is(err, windows.ERROR_PATH_NOT_FOUND):
		return &outcome.ExecError{Path: s.path, Errno: syscall.ENOENT, Step: handoff.StepLookup}
	case errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE):
		return fault(syscall.E2BIG)
	case errors.Is(err, windows.ERROR_DIRECTORY):
		return &outcome.ExecError{Path: s.dir, Errno: syscall.ENOTDIR, Step: handoff.StepChdir}
	case errors.Is(err, windows.ERROR_ACCESS_DENIED), errors.Is(err, windows.ERROR_ELEVATION_REQUIRED), errors.Is(err, windows.ERROR_SHARING_VIOLATION):
		var errno syscall.Errno
		_ = errors.As(err, &errno)
		return fault(errno)
	}
	return task.Setup("start", mechanism, err)
}

func wide(s string) *uint16 {
	if s == "" {
		return nil
	}
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		return nil // with a NUL, which was refused before
	}
	return p
}

func (s *spawn) startupInfo(info *windows.StartupInfo) {
	info.Desktop = wide(s.desktop)
	// With a pseudo console there are none, and to say so keeps those of this process from being taken for its.
	info.Flags = windows.STARTF_USESTDHANDLES
	info.StdInput, info.StdOutput, info.StdErr = s.streams[0], s.streams[1], s.streams[2]
}

func createWithToken(s *spawn) (*windows.ProcessInformation, error) {
	var info windows.StartupInfo
	info.Cb = uint32(unsafe.Sizeof(info))
	s.startupInfo(&info)
	info.Flags |= windows.STARTF_USESHOWWINDOW // and SW_HIDE, which is 0
	var made windows.ProcessInformation
	line := wide(s.line)
	const flags = windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.CREATE_NEW_CONSOLE
	_, err := call(procCreateProcessWithTokenW, uintptr(s.token), logonWithoutProfile, uintptr(unsafe.Pointer(wide(s.path))), uintptr(unsafe.Pointer(line)), flags,
		uintptr(unsafe.Pointer(&s.env[0])), uintptr(unsafe.Pointer(wide(s.dir))), uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&made)))
	runtime.KeepAlive(s)
	if err != nil {
		return nil, err
	}
	return &made, nil
}

func createAsUser(s *spawn) (*windows.ProcessInformation, error) {
	list, err := windows.NewProcThreadAttributeList(3)
	if err != nil {
		return nil, err
	}
	defer list.Delete()
	var info windows.StartupInfoEx
	info.Cb = uint32(unsafe.Sizeof(info))
	s.startupInfo(&info.StartupInfo)
	err = list.Update(attributeJobList, unsafe.Pointer(&s.jobs[0]), uintptr(len(s.jobs))*unsafe.Sizeof(s.jobs[0]))
	inherit := s.console == 0
	if err == nil && inherit {
		err = list.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&s.streams[0]), unsafe.Sizeof(s.streams))
	} else if err == nil {
		err = list.Update(windows.PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, *(*unsafe.Pointer)(unsafe.Pointer(&s.console)), unsafe.Sizeof(s.console)) // the handle itself is the value
	}
	if err != nil {
		return nil, err
	}
	info.ProcThreadAttributeList = list.List()
	flags := uint32(windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT)
	if inherit {
		flags |= windows.CREATE_NO_WINDOW
	}
	var made windows.ProcessInformation
	err = windows.CreateProcessAsUser(s.token, wide(s.path), wide(s.line), nil, nil, inherit, flags, &s.env[0], wide(s.dir), &info.StartupInfo, &made)
	runtime.KeepAlive(s)
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// inheritable are handles of streams that a process may have. They are closed when it does, or will not.
func inheritable(x *task.Start) (handles [3]windows.Handle, release func(), err error) {
	var made []windows.Handle
	release = func() {
		for _, h := range made {
			_ = windows.CloseHandle(h)
		}
	}
	self := windows.CurrentProcess()
	for i, f := range x.Streams {
		if err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &handles[i], 0, true, windows.DUPLICATE_SAME_ACCESS); err != nil {
			release()
			return handles, nil, err
		}
		made = append(made, handles[i])
	}
	return handles, release, nil
}
