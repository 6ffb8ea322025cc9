package child

import (
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/root"
	"github.com/confine-run/confine/child/internal/target"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// Word is the hidden subcommand.
const Word = "__child"

// sock is where the supervisor put the socket.
const sock = 3

// The thread that packages are initialised on is the group's leader. What a __child sets of a thread, and what the kernel sends
// to one, is about that. An init begins here already: packages that it has no use for needn't be initialised, and the runtime
// keeps this thread for it without another one that makes threads. A guard has hooks, which main sets.
func init() {
	if unix.Getpid() != 1 {
		return
	}
	if early && calledAs(childLine) {
		linux.GrowStack()
		Main()
	}
	runtime.LockOSThread()
}

// Called says whether this is the command line of a child. Main looks further.
func Called(argv []string) bool { return len(argv) == 2 && argv[1] == Word }

// childLine is how the supervisor calls it.
const childLine = "confine\x00" + Word + "\x00"

// calledAs says whether this is our command line, which package os would give later. Where there is no /proc, main finds out.
func calledAs(line string) bool {
	fd, err := unix.Open("/proc/self/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var text [len(childLine) + 1]byte
	n, err := unix.Read(fd, text[:])
	return err == nil && string(text[:n]) == line
}

// NotCalled lets go of main's thread in a process that is no child.
func NotCalled() {
	if unix.Getpid() == 1 {
		runtime.UnlockOSThread()
	}
}

// Main is the child. It never returns. The caller has to be locked to its
// thread: signal mask, capabilities and parent-death signal belong to a thread.
func Main() {
	openCoverage()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the caller's again; the runtime's other threads keep the supervisor's choice
	s := &state{starter: target.Starter{Umask: unix.Umask(0), Ruleset: -1, JoinDir: linux.NoCgroup}}
	if why := s.receive(); why != "" {
		refuse(why)
	}
	for i := range steps {
		s.step = steps[i].name
		if err := steps[i].do(s); err != nil {
			s.fail(err)
		}
	}
	s.serve()
}

// receive takes what is to be built. Whatever is wrong before that is there can only
// mean that nobody of ours is on the other side.
func (s *state) receive() string {
	parent, isInit := unix.Getppid(), unix.Getpid() == 1
	if isInit != (parent == 0) || !isInit && !sameProgram(strconv.Itoa(parent)) {
		return "not started by confine"
	}
	// The peer is named by its pid as seen from here: 0 is "outside".
	peer, err := unix.GetsockoptUcred(sock, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(peer.Pid) != parent {
		return "no supervisor"
	}
	// From here on the supervisor's death is ours. Had it died before, the
	// socket would be at its end.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return "prctl PR_SET_PDEATHSIG"
	}
	frame, fds, err := linux.ReceiveFrame(sock)
	if err != nil {
		return "no plan"
	}
	f, err := handoff.Decode(frame)
	if err != nil {
		return err.Error()
	}
	var ok bool
	if s.box, ok = f.(*handoff.Box); !ok {
		return "no plan"
	}
	if s.box.Has(unix.CLONE_NEWPID) != isInit {
		return "a plan for another"
	}
	to := &s.starter
	to.Box = s.box
	stack := -1
	if s.box.Scratch.Stacked && len(fds) > 0 {
		stack, fds = fds[0], fds[1:]
	}
	if len(fds) > 0 || s.box.Scratch.Stacked && stack < 0 {
		return "not the descriptors that were announced"
	}
	s.root = root.New(s.box, &s.out, stack, renew, s.awaitBounds)
	return ""
}

// refuse ends a child that nobody planned, typed by hand for example.
func refuse(why string) {
	_, _ = unix.Write(2, []byte("[confine] __child is internal, and does nothing by itself: "+why+"\n"))
	exit(125)
}

func exit(code int) {
	flushCoverage()
	for {
		unix.Exit(code)
	}
}
