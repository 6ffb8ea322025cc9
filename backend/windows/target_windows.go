package windows

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// breakWord is the first argument of this program as a process that joins the console of another, and presses a key there: a program has
// one console, and its own may be the user's.
const breakWord = "__break"

// helperPatience is how long that may take.
const helperPatience, attachPatience = 5 * time.Second, 2 * time.Second

// Init turns the process into that one, if it was started as it; then it doesn't return.
func Init() {
	if len(os.Args) != 4 || os.Args[1] != breakWord {
		return
	}
	pid, err := strconv.ParseUint(os.Args[2], 10, 32)
	event, err2 := strconv.ParseUint(os.Args[3], 10, 32)
	if err != nil || err2 != nil {
		os.Exit(2)
	}
	_, _, _ = procFreeConsole.Call()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // it has a console as soon as it has begun
		if _, err := call(procAttachConsole, uintptr(pid)); err == nil {
			break
		}
		if time.Since(began) > attachPatience {
			os.Exit(3)
		}
	}
	_, _, _ = procSetConsoleCtrlHandler.Call(0, 1) // Ctrl-C isn't for us
	if err := windows.GenerateConsoleCtrlEvent(uint32(event), 0); err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// press has somebody press Ctrl-C or Ctrl-Break in the console of a process, for all that share it.
func press(pid uint32, event uint32) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperPatience)
	defer cancel()
	c := exec.CommandContext(ctx, self, breakWord, strconv.FormatUint(uint64(pid), 10), strconv.FormatUint(uint64(event), 10))
	c.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
	err = c.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && uint32(failed.ExitCode()) == controlC {
		return nil // it was pressed for that one, too
	}
	return err
}

// Signal presses the key that stands for a signal.
func (t *target) Signal(n syscall.Signal) error {
	switch n {
	case syscall.SIGINT:
		return press(t.pid, windows.CTRL_C_EVENT)
	case syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP:
		return press(t.pid, windows.CTRL_BREAK_EVENT)
	}
	return errors.ErrUnsupported
}

func (t *target) Kill() {
	t.mu.Lock()
	t.killed = true
	t.mu.Unlock()
	t.job.kill()
}

func (t *target) Wait() outcome.Ended {
	_, _ = windows.WaitForSingleObject(t.process, windows.INFINITE)
	var code uint32
	_ = windows.GetExitCodeProcess(t.process, &code)
	t.mu.Lock()
	defer t.mu.Unlock()
	return ended{code: code, killed: t.killed || t.doomed.Load()}
}

// Hang closes its terminal, which shows all that was written before.
func (t *target) Hang() {
	t.mu.Lock()
	hung := t.hung
	t.hung = true
	t.mu.Unlock()
	if t.console != 0 && !hung {
		windows.ClosePseudoConsole(t.console)
	}
}

func (t *target) Resize(size backend.WinSize) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.console == 0 || t.hung {
		return os.ErrProcessDone
	}
	return windows.ResizePseudoConsole(t.console, coord(size))
}

func coord(size backend.WinSize) windows.Coord {
	return windows.Coord{X: int16(min(size.Cols, 1<<15-1)), Y: int16(min(size.Rows, 1<<15-1))}
}

func (t *target) Usage() (backend.Usage, error) { return t.job.usage() }
func (t *target) Used() status.Usage            { return t.job.used() }

func (j *jobObject) usage() (backend.Usage, error) {
	a, err := j.account()
	if err != nil {
		return backend.Usage{}, err
	}
	u := backend.Usage{CPU: a.cpu(), Memory: -1, Tasks: int64(a.Active), Scratch: -1}
	var memory struct{ Now, Peak uint64 }
	const jobObjectMemoryUsageInformation = 28
	if queryJob(j.handle, jobObjectMemoryUsageInformation, &memory) == nil {
		u.Memory = int64(memory.Now)
	}
	return u, nil
}
