package supervisor

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
)

func TestMain(m *testing.M) {
	if child.Called() {
		child.Main()
	}
	os.Exit(m.Run())
}

func TestTry(t *testing.T) {
	runtime.LockOSThread()
	p := &plan.Plan{Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	p.UIDMap = plan.IDMap{uid, uid}
	p.GIDMap = plan.IDMap{gid, gid}
	b := func(s string) handoff.Mount {
		return handoff.Mount{Kind: handoff.MountBind, Src: s, Dst: s, ReadOnly: true}
	}
	d := func(s string) handoff.Mount {
		return handoff.Mount{Kind: handoff.MountBind, Src: s, Dst: s, Device: true}
	}
	l := func(s, t string) handoff.Mount {
		return handoff.Mount{Kind: handoff.MountSymlink, Dst: s, Text: t}
	}
	p.Child = handoff.Child{
		Argv: []string{"sh", "-c", os.Getenv("TRY")}, Env: []string{"PATH=/usr/bin"}, Dir: "/tmp", UID: uid, GID: gid,
		Namespaces: uint64(p.Namespaces), Hostname: "confine", ScratchSize: 1 << 30, ScratchInodes: 1000,
		Mounts: []handoff.Mount{b("/usr"), l("/bin", "usr/bin"), l("/lib", "usr/lib"), l("/lib64", "usr/lib64"), {Kind: handoff.MountProc, Dst: "/proc"},
			{Kind: handoff.MountDir, Dst: "/dev", Mode: 0755}, d("/dev/null"), d("/dev/tty"), {Kind: handoff.MountDevpts, Dst: "/dev/pts"},
			{Kind: handoff.MountScratch, Dst: "/tmp", Mode: 01777},
			{Kind: handoff.MountScratch, Dst: "/dev/shm", Mode: 01777},
			{Kind: handoff.MountOverlay, Src: "/opt", Dst: "/opt"},
			{Kind: handoff.MountMask, Dst: "/usr/share/doc"},
			{Kind: handoff.MountMask, Dst: "/proc/keys"},
			{Kind: handoff.MountReadOnly, Dst: "/proc/sys"},
			{Kind: handoff.MountFile, Dst: "/etc/hosts", Text: "127.0.0.1 localhost\n", Mode: 0644},
		},
		Rlimits: []handoff.Rlimit{{7, 128, 128}},
		CPUs:    []uint32{0},
	}
	c, err := start(p, [3]int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for {
		f, fds, err := linux.ReceiveFrame(c.sock)
		if err != nil {
			t.Log(err)
			break
		}
		m, err := handoff.DecodeMessage(f)
		t.Logf("%+v %v %v", m, fds, err)
	}
	t.Log(c.reap())
}
