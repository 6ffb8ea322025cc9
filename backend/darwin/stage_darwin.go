package darwin

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/darwin"
)

const (
	// stageWord is the first argument of this program as what sandbox-exec executes: what is left to do inside, before the command.
	stageWord = "__stage"
	// keeperWord is that of the process that ends a sandbox whose supervisor was killed.
	keeperWord = "__keeper"
	// reportFD is where the stage says how far it has got. The command doesn't have it.
	reportFD = 3
)

// Init turns the process into one of these, if it was started as it; then it doesn't return.
func Init() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == stageWord && len(os.Args) > 5:
		stage(os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	case os.Args[1] == keeperWord && len(os.Args) == 4:
		keep(os.Args[2], os.Args[3])
	}
}

// stage is inside already. It reads back what was set, before it says so.
func stage(rlimits, mark, path string, argv []string) {
	unix.CloseOnExec(reportFD)
	report := func(what byte, err error) {
		b := binary.LittleEndian.AppendUint32([]byte{what}, uint32(errnoOf(err)))
		if err == nil {
			b = b[:1]
		}
		_, _ = unix.Write(reportFD, b)
	}
	if pid := os.Getpid(); !darwin.Sandboxed(pid) || !member(pid, mark) {
		report(stageOutside, syscall.EPERM)
		os.Exit(1)
	}
	for _, one := range strings.Split(rlimits, ",") {
		if err := setRlimit(one); err != nil {
			report(stageLimits, err)
			os.Exit(1)
		}
	}
	report(stageConfirmed, nil)
	report(stageFailed, syscall.Exec(path, argv, os.Environ()))
	os.Exit(1)
}

// setRlimit takes RESOURCE=LIMIT. No limit is raised.
func setRlimit(one string) error {
	resource, limit, ok := strings.Cut(one, "=")
	if !ok {
		return nil
	}
	r, err := strconv.Atoi(resource)
	n, err2 := strconv.ParseUint(limit, 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(r, &now); err != nil {
		return err
	}
	n = min(n, now.Max)
	return syscall.Setrlimit(r, &syscall.Rlimit{Cur: n, Max: n}) // of package syscall, which gives descriptors back at execve else
}

// otherMark is a name that nobody's profile has: who may look it up may look up everything, and is no member of anything.
const otherMark = "run.confine.nobody"

// member says whether a process is in the sandbox of a mark. What its number stands for may be gone.
func member(pid int, mark string) bool {
	return darwin.Sandboxed(pid) && darwin.MayLookUp(pid, mark) && !darwin.MayLookUp(pid, otherMark)
}

// members are the processes in the sandbox of a mark.
func members(mark string) (pids []int, err error) {
	all, err := darwin.Processes(os.Geteuid())
	for _, pid := range all {
		if member(pid, mark) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// emptyPatience is how long the last of those who were killed may take to be gone.
const emptyPatience = 10 * time.Second

// killAll kills everybody in a sandbox until nobody is there.
func killAll(mark string) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		pids, err := members(mark)
		switch {
		case err != nil:
			return err
		case len(pids) == 0:
			return nil
		case time.Since(began) > emptyPatience:
			return errors.New("processes of it are left: " + strconv.Itoa(len(pids)))
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// keep waits for the end of standard input, which is that of the supervisor, and ends what it has left.
func keep(mark, dir string) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	_, _ = io.Copy(io.Discard, os.Stdin)
	err := killAll(mark)
	if filepath.IsAbs(dir) && strings.HasPrefix(filepath.Base(dir), placePrefix) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
