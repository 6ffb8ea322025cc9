package handoff

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

var allFallbacks = Fallbacks{true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true}

var someUsage = Usage{UserUS: 5, SystemUS: 6, MaxRSS: 7, RSSAtMost: true, Switches: 8, ReadBytes: 9, WriteBytes: 10}

// full has one frame of each kind, with no field zero.
func full() []Frame {
	return []Frame{
		&Box{
			UID: 1000, GID: 1001, OtherIDs: true, Stranger: 7, Namespaces: 0x7e020000, TempDir: "/tmp/x", DropGroups: true, Hostname: "confine",
			Landlock: Landlock{HandledFS: 1<<16 - 1, HandledNet: 3, Scoped: 2,
				Rules: []LandlockRule{{Path: "/usr", Dev: 7, Ino: 1 << 63, Access: 13, Optional: true}, {Path: "/"}}},
			Root: Mount{Kind: MountOverlay, Src: "/image", Dev: 1, Ino: 2},
			Mounts: []Mount{
				{Kind: MountBind, Dst: "/usr", Src: "/usr", Dev: 1 << 40, Ino: 1<<63 + 1, ReadOnly: true, Optional: true},
				{Kind: MountFile, Dst: "/etc/hosts", Text: "x\n", Mode: 0o644},
				{Kind: MountTmpfs, Dst: "/scratch", Size: 1 << 40},
				{Kind: MountBind, Dst: "/dev/null", Src: "/dev/null", Device: true, Instead: true, Sealed: true},
			},
			Scratch: Scratch{Size: 1 << 40, Inodes: 7, Stacked: true, HandOut: true, Tried: true,
				Layers: []Layer{{Src: "/l", Dev: 1, Ino: 2, Places: []Upper{{"/tmp", "1"}}}}},
			Network: Network{Pings: true, Ping: 5, Dials: true,
				Requests: []Netlink{{Name: "routes", Protocol: 12, Messages: "\x00\xff", Acks: 2, Role: RoleRedirect}},
				Sockets: []Socket{{Family: 2, Type: 1, Protocol: 255, Options: []SocketOption{{-1, 19, 1}},
					Address: "\x7f\x00\x00\x01", Port: 53, Listen: true, Role: RoleIPv6, Use: UseResolve}}},
			Refuse: Fallbacks{ProcOfCaller: true, MountSetattr: true, NoListener: true},
		},
		&Bounds{
			Group: Group{Dir: true, Procs: 3, Ordinary: true, Linger: true}, Views: []Mount{{Kind: MountBind, Dst: "/sys/fs/cgroup", Src: "/c", Ino: 7}},
			PIDMax: 32, ShowIPC: true, Sysctls: []Sysctl{{"kernel/sem", "1 2 3 4"}},
		},
		&Exec{
			ID: 3, Argv: []string{"sh", "-c", "", "\xff\xfe"}, Env: []string{"A=b", "C="}, Dir: "/tmp", Last: true, Audit: true, CountTasks: true,
			Rlimits: []Rlimit{{Resource: 7, Soft: 1, Hard: ^uint64(0)}}, CPUs: []uint32{0, 3},
			Seccomp: []uint64{1, ^uint64(0)}, SeccompFlags: 1, SeccompNotify: []uint64{2}, SeccompPass: 3,
			TTY: [3]bool{true, false, true}, Rows: 24, Cols: 80, Modes: []uint32{1, 2, 3}, Tells: true,
		},
		&Close{},
		&SetupError{Step: "mounts", Op: "openat2", Path: "/a b", Errno: 13},
		&Sockets{Fallbacks: allFallbacks},
		&Built{Skipped: []uint32{3}, Fallbacks: allFallbacks, Uppers: []Upper{{"/a", "7"}}, Places: []Upper{{"/b", "8"}}, HasProc: true, HasScratch: true, Sized: 2, Stacks: 4, NoLayers: "x", IPC: 3},
		&ExecError{ID: 1, Path: "/bin/sh", Step: StepExecve, Op: "prlimit64", Errno: 2},
		&Started{ID: 1, PID: 2, Path: "/bin/sh", HasPTY: true, HasListener: true, NoListener: 16},
		&Stopped{ID: 1, Signal: 20},
		&Exited{ID: 1, WaitStatus: 0x1234, Used: someUsage, InitTasks: 12, Astray: 11, Left: LeftMaybe, LastPID: 1 << 33},
		&Closed{Used: someUsage},
		&Ping{ID: 5},
	}
}

func TestFramesArriveAsSent(t *testing.T) {
	kinds := map[Kind]bool{}
	for _, want := range full() {
		got, err := Decode(Encode(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
		kinds[want.kind()] = true
	}
	for k := Kind(1); empty(k) != nil; k++ {
		if !kinds[k] {
			t.Errorf("no frame of kind %d is tried", k)
		}
	}
}

// Every field has to be set above and survive: a field that the codec forgets would silently be zero
// on the other side.
func TestEveryFieldIsCarried(t *testing.T) {
	for _, f := range full() {
		v := reflect.ValueOf(f).Elem()
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() {
				t.Errorf("%T sets no %s, so nothing shows that it is carried", f, name)
			}
		}
	}
	fields := map[string]bool{}
	for _, m := range full()[0].(*Box).Mounts {
		mv := reflect.ValueOf(m)
		for i := range mv.NumField() {
			if !mv.Field(i).IsZero() {
				fields[mv.Type().Field(i).Name] = true
			}
		}
	}
	mt := reflect.TypeFor[Mount]()
	for i := range mt.NumField() {
		if !fields[mt.Field(i).Name] {
			t.Errorf("no mount sets %s", mt.Field(i).Name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := Encode(full()[0])
	other, unknown := bytes.Clone(good), bytes.Clone(good)
	other[0]++
	unknown[kindAt] = 99
	for _, c := range []struct {
		name  string
		frame []byte
		why   string
	}{
		{"nothing", nil, "cut short"},
		{"one byte", good[:1], "cut short"},
		{"a frame cut short", good[:len(good)-1], "cut short"},
		{"bytes left over", append(bytes.Clone(good), 0), "left over"},
		{"another version", other, "version"},
		{"a kind that there isn't", unknown, "kind"},
	} {
		if _, err := Decode(c.frame); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
}

func TestAnyCutIsRefused(t *testing.T) {
	for _, f := range full() {
		good := Encode(f)
		for n := range good {
			if _, err := Decode(good[:n]); err == nil {
				t.Fatalf("%T: the first %d of %d bytes passed", f, n, len(good))
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, frame := range full() {
		f.Add(Encode(frame))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Decode(frame)
		if err == nil && !bytes.Equal(Encode(m), frame) {
			t.Error("decoded, but encodes to something else")
		}
	})
}
