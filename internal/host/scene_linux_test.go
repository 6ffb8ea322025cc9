package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// A scene is a process in which something is taken away, that then examines
// its host and prints what it found.
const sceneVar = "CONFINE_HOST_TEST_SCENE"

// nobody is an ordinary user: any that is not root.
const nobody = 54321

type scene struct {
	name  string
	flags uintptr // namespaces it plays in
	set   func() error
}

var scenes = []scene{
	{name: "nothing taken away"},
	{name: "no user namespaces left", flags: unix.CLONE_NEWUSER, set: func() error {
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}},
	{name: "no network namespaces left", flags: unix.CLONE_NEWUSER, set: func() error {
		return os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0)
	}},
	{name: "filter refuses user namespaces", set: func() error {
		return filter(
			[]unix.SockFilter{
				{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
				{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLONE},
				{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // flags
				{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.CLONE_NEWUSER},
				{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
				{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
			})
	}},
	{name: "filter refuses mounts", set: func() error { return refuseCall(unix.SYS_FSOPEN, unix.EPERM) }},
	{name: "filter refuses filters", set: func() error { return refuseCall(unix.SYS_SECCOMP, unix.EPERM) }},
	{name: "probe is killed", set: func() error {
		return filter(callFilter(unix.SYS_SETHOSTNAME, unix.SECCOMP_RET_KILL_PROCESS))
	}},
	{name: "no mount_setattr", set: func() error { return refuseCall(unix.SYS_MOUNT_SETATTR, unix.ENOSYS) }},
	{name: "proc is masked", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID, set: func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", "/proc/sys/kernel", "tmpfs", 0, "")
	}},
	{name: "proc is missing", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, set: func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", "/proc", "tmpfs", 0, "")
	}},
	{name: "chroot", flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, set: func() error {
		// A directory that is no mount, with a proc in it.
		const dir = "/tmp"
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return err
		}
		root := dir + "/root"
		if err := os.MkdirAll(root+"/proc", 0o755); err != nil {
			return err
		}
		if err := unix.Mount("/proc", root+"/proc", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := unix.Chroot(root); err != nil {
			return err
		}
		return os.Chdir("/")
	}},
}

// playScene is the process of a scene, if this process is one.
func playScene() {
	name := os.Getenv(sceneVar)
	if name == "" {
		return
	}
	runtime.LockOSThread()
	for _, s := range scenes {
		if s.name != name {
			continue
		}
		if s.set != nil {
			if err := s.set(); err != nil {
				fmt.Fprintln(os.Stderr, "setting the scene:", err)
				os.Exit(1)
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(RunDoctor()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "no such scene")
	os.Exit(1)
}

// play gives what is found in a scene, as uid. Only root can play another's.
func play(t *testing.T, name string, uid int) Results {
	t.Helper()
	for _, s := range scenes {
		if s.name != name {
			continue
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), sceneVar+"="+name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: s.flags}
		if s.flags&unix.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			if ok, err := Has("userns"); !ok {
				skip(t, "userns", err)
			}
			if uid == os.Getuid() {
				cmd.SysProcAttr.GidMappings[0].HostID = os.Getgid()
			} else {
				cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
			}
		} else if uid != os.Getuid() {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, errs.String())
		}
		var d Results
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out.String())
		}
		return d
	}
	t.Fatalf("no scene %q", name)
	return nil
}

// skip is a failure where CONFINE_MUST_RUN says so.
func skip(t *testing.T, cond string, err error) {
	t.Helper()
	must.Do(t, err)
	must.Do(t, MustRun(cond))
	t.Skipf("needs %s", cond)
}

func refuseCall(nr uint32, errno unix.Errno) error {
	return filter(callFilter(nr, unix.SECCOMP_RET_ERRNO|uint32(errno)))
}

func callFilter(nr, action uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}

// filter loads a filter for all threads.
func filter(program []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
