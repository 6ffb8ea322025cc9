package selftest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
)

// Run makes all attempts under a policy. The error is about the self-test itself:
// nothing was found out.
func Run(ctx context.Context, policy *config.Policy, configFiles []string) ([]Result, error) {
	dir, err := os.MkdirTemp("", "confine-selftest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for --user
		return nil, err
	}
	o := order{Policy: *policy, ConfigFiles: configFiles, Dir: dir, Variable: "SELFTEST_SECRET", Key: "confine-selftest-" + rand.Text()}
	text, err := json.Marshal(&o)
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	done := make(chan error, 1)
	// The session keyring is a thread's, and so is the parent whose death is heard of.
	go func() {
		runtime.LockOSThread()
		done <- call(ctx, &o, text, &out, &said)
	}()
	err = <-done
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("selftest: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return collect(&out)
}

// call starts the caller and waits for it.
func call(ctx context.Context, o *order, text []byte, out, said *bytes.Buffer) error {
	// A keyring without a name is new, and ends with its processes.
	if _, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); errno == 0 {
		_, _ = unix.AddKey("user", o.Key, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Word, driveWord)
	cmd.Args[0] = "confine"
	cmd.Env = append(os.Environ(), mark+"=1", o.Variable+"=secret")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, said
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // it has things to put away
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setsid: true}
	if master, slave, err := openTerminal(); err == nil {
		defer master.Close()
		defer slave.Close()
		cmd.ExtraFiles = []*os.File{slave}
		cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 3
	}
	return cmd.Run()
}

// openTerminal makes a terminal for the caller.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var n int
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		n, err = unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// collect puts the results into the order of the table: that of all, or none.
func collect(out *bytes.Buffer) (all []Result, err error) {
	found := map[string]Result{}
	for d := json.NewDecoder(out); d.More(); {
		var r Result
		if err := d.Decode(&r); err != nil {
			return nil, err
		}
		found[r.Name] = r
	}
	for _, a := range table() {
		r, ok := found[a.name]
		if !ok {
			return nil, errors.New("selftest: nothing came of " + a.name)
		}
		all = append(all, r)
	}
	return slices.Clip(all), nil
}
