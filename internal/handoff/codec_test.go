package handoff

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func fullChild() *Child {
	return &Child{
		Argv: []string{"sh", "-c", "", "\xff\xfe"}, Env: []string{"A=b", "C="}, Dir: "/tmp",
		UID: 1000, GID: 1001, OtherIDs: true, Namespaces: 0x7e020000, TempDir: "/tmp/x", DropGroups: true, Hostname: "confine",
		Landlock: Landlock{Log: true, HandledFS: 1<<16 - 1, HandledNet: 3, Scoped: 2,
			Rules: []LandlockRule{{Path: "/usr", Dev: 7, Ino: 1 << 63, Access: 13, Optional: true}, {Path: "/"}}},
		Root: Mount{Kind: MountOverlay, Src: "/image", Dev: 1, Ino: 2},
		Mounts: []Mount{
			{Kind: MountBind, Dst: "/usr", Src: "/usr", Dev: 1 << 40, Ino: 1<<63 + 1, ReadOnly: true, Optional: true},
			{Kind: MountFile, Dst: "/etc/hosts", Text: "x\n", Mode: 0o644},
			{Kind: MountTmpfs, Dst: "/scratch", Size: 1 << 40},
			{Kind: MountBind, Dst: "/dev/null", Src: "/dev/null", Device: true},
		},
		ScratchSize: 1 << 40, ScratchInodes: 7,
		JoinDir: true, JoinProcs: 3, Linger: true,
		Network: Network{Pings: true, Ping: 5, Dials: true,
			Requests: []Netlink{{Name: "routes", Protocol: 12, Messages: "\x00\xff", Acks: 2, Role: RoleRedirect}},
			Sockets: []Socket{{Family: 2, Type: 1, Protocol: 255, Options: []SocketOption{{-1, 19, 1}},
				Address: "\x7f\x00\x00\x01", Port: 53, Listen: true, Role: RoleIPv6, Use: UseResolve}}},
		Rlimits: []Rlimit{{Resource: 7, Soft: 1, Hard: ^uint64(0)}},
		CPUs:    []uint32{0, 3}, PIDMax: 32,
		Seccomp: []uint64{1, ^uint64(0)}, SeccompFlags: 1, SeccompNotify: []uint64{2}, SeccompPass: 3,
		Refuse: Fallbacks{ProcOfCaller: true, MountSetattr: true, NoListener: true},
		TTY:    [3]bool{true, false, true}, Rows: 24, Cols: 80,
	}
}

func TestChildArrivesAsSent(t *testing.T) {
	want := fullChild()
	got, err := DecodeChild(EncodeChild(want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Every field of the plan has to be in fullChild and survive: a field that the
// codec forgets would silently be zero inside.
func TestEveryFieldOfChildIsCarried(t *testing.T) {
	v := reflect.ValueOf(*fullChild())
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("fullChild doesn't set %s, so nothing shows that it is carried", v.Type().Field(i).Name)
		}
	}
	fields := map[string]bool{}
	for _, m := range fullChild().Mounts {
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

func TestMessageArrivesAsSent(t *testing.T) {
	want := &Message{
		Kind: KindReady, Step: "mounts", Op: "openat2", Path: "/a b", Errno: 13, Number: 15, PID: 2,
		Skipped: []uint32{3}, Fallbacks: Fallbacks{true, true, true, true, true, true, true, true, true, true, true, true, true}, Uppers: []Upper{{"/a", 7}},
		HasProc: true, HasScratch: true, HasPTY: true, HasPIDFD: true, HasListener: true, Sized: 2,
		WaitStatus: 0x1234, UserUS: 5, SystemUS: 6, MaxRSS: 7, RSSAtMost: true,
		Switches: 8, ReadBytes: 9, WriteBytes: 10, InitTasks: 12, Astray: 11,
	}
	v := reflect.ValueOf(*want)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not set, so nothing shows that it is carried", v.Type().Field(i).Name)
		}
	}
	got, err := DecodeMessage(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := EncodeChild(fullChild())
	other := bytes.Clone(good)
	other[0]++
	message := (&Message{Kind: KindReady}).Encode()
	for _, c := range []struct {
		name  string
		frame []byte
		why   string
	}{
		{"nothing", nil, "cut short"},
		{"a frame cut short", good[:len(good)-1], "cut short"},
		{"bytes left over", append(bytes.Clone(good), 0), "left over"},
		{"another version", other, "version"},
		{"a message instead of a plan", message, "kind"},
	} {
		if _, err := DecodeChild(c.frame); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
	if _, err := DecodeMessage(good); err == nil {
		t.Error("a plan passed for a message")
	}
	if _, err := DecodeMessage([]byte{1, 2}); err == nil {
		t.Error("two bytes passed for a message")
	}
}

func TestAnyCutIsRefused(t *testing.T) {
	good := EncodeChild(fullChild())
	for n := range good {
		if _, err := DecodeChild(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes passed for a plan", n, len(good))
		}
	}
}

func FuzzDecodeChild(f *testing.F) {
	f.Add(EncodeChild(fullChild()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, err := DecodeChild(frame)
		if err == nil && !bytes.Equal(EncodeChild(p), frame) {
			t.Error("decoded, but encodes to something else")
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add((&Message{Kind: KindExited, WaitStatus: 9}).Encode())
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := DecodeMessage(frame)
		if err == nil && !bytes.Equal(m.Encode(), frame) {
			t.Error("decoded, but encodes to something else")
		}
	})
}
