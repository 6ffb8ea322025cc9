package jobstest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Process is a server that can be killed.
type Process struct {
	Config
	t   testing.TB
	cmd *exec.Cmd
}

// Start starts a server, or starts it again with what is in its store.
func (p *Process) Start() {
	p.t.Helper()
	text, err := json.Marshal(p.Config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0], serverWord, string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with the test
	if p.Disk > 0 {
		OwnDisk(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// DiskPath is where the files of a server are that has a disk of its own.
func (p *Process) DiskPath() string {
	return "/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/root" + p.Store
}

// SmallDisk is a server that has a disk of its own, of so many bytes. SIGHUP starts it again.
func SmallDisk(t testing.TB, c Config, size int64) *Process {
	t.Helper()
	c.Disk, c.Store = size, t.TempDir()
	p := &Process{Config: c, t: t}
	p.Start()
	t.Cleanup(func() { p.Signal(syscall.SIGKILL) })
	return p
}

// OwnDisk has a process see mounts of its own: it may do MountDisk.
func OwnDisk(cmd *exec.Cmd) {
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
}

// MountDisk mounts an empty disk.
func MountDisk(path string, size int64) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", path, "tmpfs", 0, "size="+strconv.FormatInt(size, 10))
}

// Signal sends a signal: SIGKILL, SIGSTOP, SIGCONT.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	if sig == syscall.SIGKILL {
		_ = p.cmd.Wait()
	}
}

// Cluster are servers that keep what they have together.
func Cluster(t testing.TB, n int) []*Process {
	t.Helper()
	ports := Ports(t, 2*n)
	all := make([]*Process, n)
	for i := range all {
		c := Config{Name: "s" + string(rune('1'+i)), Store: t.TempDir(), Port: ports[i], Max: 16 << 30}
		if n > 1 {
			c.Routes, c.Others = ports[n+i], ports[n:]
		}
		all[i] = &Process{Config: c, t: t}
		all[i].Start()
	}
	t.Cleanup(func() {
		for _, p := range all {
			p.Signal(syscall.SIGCONT)
			p.Signal(syscall.SIGKILL)
		}
	})
	return all
}
