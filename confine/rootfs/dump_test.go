package rootfs

import (
	"fmt"
	"os"
	"testing"
)

func base() Input {
	return Input{Workdir: "ro", TempDir: true, Dir: "/work/main", HomeDir: os.Getenv("HOME"), UserName: "root", Env: os.Getenv, Command: "/bin/true", AccessUID: uint32(os.Geteuid()), AccessGID: uint32(os.Getegid()), UID: uint32(os.Geteuid())}
}
func TestDump(t *testing.T) {
	in := base()
	for _, p := range DefaultProtect() {
		in.Protect = append(in.Protect, p.Path)
	}
	if w := os.Getenv("W"); w != "" {
		in.Workdir = w
	}
	if w := os.Getenv("C"); w != "" {
		in.Command = w
	}
	if os.Getenv("H") != "" {
		in.Home = true
	}
	x, err := Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range x.Mounts {
		fmt.Printf("%2d %-40s %-30s ro=%v dev=%v %q\n", m.Kind, m.Dst, m.Src, m.ReadOnly, m.Device, m.Text[:min(len(m.Text), 40)])
	}
	fmt.Println(x.Dir, x.Env, x.KeepAbsent, x.Notices)
	for _, r := range x.Rules {
		fmt.Println(r)
	}
}
func BenchmarkDefault(b *testing.B) {
	b.ReportAllocs()
	in := base()
	for b.Loop() {
		if _, err := Compile(in); err != nil {
			b.Fatal(err)
		}
	}
}
