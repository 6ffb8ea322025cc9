package jobstest

import (
	"encoding/json"
	"os"
	"os/exec"
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
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
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
