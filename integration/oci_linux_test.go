package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/confine-run/confine/internal/must"
)

// The command line of an OCI runtime: bundles made here, and the engines that make them, podman and containerd, as root.

// ociScene is a root file system of one program, and the runtime under the name that engines know it by.
type ociScene struct {
	dir, rootfs, runtime string
}

func newOCIScene(t *testing.T) *ociScene {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("root alone makes containers")
	}
	t.Parallel()
	needs(t, "userns", "procmount", "overlay", "program:busybox")
	busybox, err := exec.LookPath("busybox")
	must.Do(t, err)
	// Short, because names of sockets are.
	dir, err := os.MkdirTemp("/tmp", "oci")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &ociScene{dir: dir, rootfs: filepath.Join(dir, "rootfs"), runtime: filepath.Join(dir, "confine-oci")}
	for _, d := range []string{"bin", "tmp", "etc", "proc", "dev", "sys", "run"} {
		must.Do(t, os.MkdirAll(filepath.Join(s.rootfs, d), 0o755))
	}
	must.Do(t, copyProgram(busybox, filepath.Join(s.rootfs, "bin/busybox")))
	for _, name := range []string{"sh", "cat", "ls", "id", "sleep", "hostname", "stty", "mount", "head", "grep", "ip"} {
		must.Do(t, os.Symlink("busybox", filepath.Join(s.rootfs, "bin", name)))
	}
	must.Do(t, os.Symlink(filepath.Join(scene.programs, "confine-server"), s.runtime))
	return s
}

// object is a part of a config.json.
type object = map[string]any

// bundle makes one that runs a script, with what is changed of it.
func (s *ociScene) bundle(t *testing.T, script string, change func(config object)) string {
	t.Helper()
	var namespaces []object
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	config := object{
		"ociVersion": "1.0.2", "hostname": "inside", "root": object{"path": s.rootfs},
		"process": object{"args": []string{"sh", "-c", script}, "cwd": "/", "env": []string{"PATH=/bin", "A=b"}, "user": object{"uid": 0, "gid": 0}},
		"mounts":  []object{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":   object{"namespaces": namespaces},
	}
	if change != nil {
		change(config)
	}
	dir, err := os.MkdirTemp(s.dir, "bundle")
	must.Do(t, err)
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	must.Do(t, err)
	return dir
}

// command runs a program, and says what it said and how it exited.
func (s *ociScene) command(t *testing.T, stdin string, argv ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	if cmd.Env = append(os.Environ(), "HOME="+s.dir); stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	said, err := os.CreateTemp(s.dir, "out") // a file, since what is left in the background has it open
	must.Do(t, err)
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	must.Do(t, broken(cmd.Run()))
	text, err := os.ReadFile(said.Name())
	must.Do(t, err)
	return string(text), cmd.ProcessState.ExitCode()
}

func (s *ociScene) oci(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	return s.command(t, "", append([]string{s.runtime, "--root", filepath.Join(s.dir, "state")}, args...)...)
}

// state is what the runtime says of a container.
func (s *ociScene) state(t *testing.T, id string) (status string, pid int) {
	t.Helper()
	out, code := s.oci(t, "state", id)
	var now struct {
		Status string
		Pid    int
	}
	if err := json.Unmarshal([]byte(out), &now); code != 0 || err != nil {
		t.Fatalf("state: %d %v %s", code, err, out)
	}
	return now.Status, now.Pid
}

func TestOCIBundles(t *testing.T) {
	s := newOCIScene(t)
	for name, c := range map[string]struct {
		script string
		change func(object)
		code   int
		want   string
	}{
		"exit code":     {"exit 7", nil, 7, ""},
		"signal":        {"kill -9 $$", nil, 137, ""},
		"no command":    {"", func(c object) { c["process"].(object)["args"] = []string{"nosuch"} }, 127, "EXEC_FAILED"},
		"env, name":     {"echo $A $(hostname) $(id -u)", nil, 0, "b inside 0\n"},
		"user":          {"id -u; id -g", func(c object) { c["process"].(object)["user"] = object{"uid": 1000, "gid": 1001} }, 0, "1000\n1001\n"},
		"capabilities":  {"grep CapBnd /proc/self/status", nil, 0, "CapBnd:\t0000000000000000\n"},
		"writable root": {"echo x >/x && cat /x", nil, 0, "x\n"},
		"sealed root":   {"echo x >/x || echo y >/tmp/y", func(c object) { c["root"].(object)["readonly"] = true }, 1, "Read-only file system"},
		"network none":  {"ip link | grep -c ^[0-9]", nil, 0, "1\n"},
		"memory": {"a=x; while :; do a=$a$a; done", func(c object) {
			c["linux"].(object)["resources"] = object{"memory": object{"limit": 32 << 20}}
		}, 137, ""},
		"tasks": {"for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done", func(c object) {
			c["linux"].(object)["resources"] = object{"pids": object{"limit": 5}}
		}, 2, "can't fork"},
		"masks": {"head -c1 /proc/version /proc/uptime; mount | grep uptime.*ro,", func(c object) {
			c["process"].(object)["user"] = object{"uid": 1000, "gid": 1000}
			c["linux"].(object)["maskedPaths"], c["linux"].(object)["readonlyPaths"] = []string{"/proc/version", "/etc/shadow", "/sys/firmware"}, []string{"/proc/uptime"}
		}, 0, "/proc/version: Permission denied"},
		"no filter": {"cat /proc/self/status | grep Seccomp: ", nil, 0, "Seccomp:\t2\n"},
		"own filter": {"ls / >/dev/null; id", func(c object) {
			c["linux"].(object)["seccomp"] = object{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []object{{"names": []string{"getuid", "geteuid"}, "action": "SCMP_ACT_KILL_PROCESS"}}}
		}, 159, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := s.oci(t, "run", "-b", s.bundle(t, c.script, c.change), "c")
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("%d, want %d; %q, want %q", code, c.code, out, c.want)
			}
		})
	}
	if out, _ := s.oci(t, "list"); out != "[]\n" {
		t.Error("left:", out)
	}
}

// TestOCIOfAPod: a bundle as containerd's CRI makes it for a container of a pod, whose namespaces it is to join.
func TestOCIOfAPod(t *testing.T) {
	s := newOCIScene(t)
	ended := filepath.Join(s.dir, "ended")
	secrets := filepath.Join(s.dir, "secrets")
	must.Do(t, errors.Join(os.WriteFile(ended, nil, 0o666), os.Chmod(ended, 0o666), os.Mkdir(secrets, 0o755), os.WriteFile(secrets+"/token", []byte("sesame\n"), 0o644)))
	pod := s.bundle(t, "sleep 1000", nil)
	if out, code := s.oci(t, "create", "-b", pod, "pod"); code != 0 {
		t.Fatal(out)
	}
	_, pid := s.state(t, "pod")
	of := func(kind string) object {
		return object{"type": kind, "path": fmt.Sprint("/proc/", pid, "/ns/", kind[:3])}
	}
	own := []string{"rbind", "rprivate", "rw"}
	out, code := s.oci(t, "run", "-b", s.bundle(t, "id -u; cat /var/run/secrets/x/token; head -c1 /proc/interrupts 2>&1; ip link | grep -c ^[0-9]; echo the end >/dev/termination-log", func(c object) {
		p := c["process"].(object)
		p["user"], p["oomScoreAdj"], p["noNewPrivileges"], p["capabilities"] = object{"uid": 1000, "gid": 1000, "additionalGids": []int{1000}}, 1000, true, object{}
		c["annotations"] = object{"io.kubernetes.cri.container-type": "container"}
		c["linux"] = object{
			"namespaces":  []object{{"type": "pid"}, {"type": "mount"}, {"type": "cgroup"}, of("ipc"), of("uts"), of("network")},
			"cgroupsPath": "/kubepods/burstable/pod/c",
			"resources": object{"devices": []object{{"allow": false, "access": "rwm"}}, "memory": object{"limit": 64 << 20, "swap": 64 << 20}, "cpu": object{"shares": 512, "quota": 50000, "period": 100000},
				"unified": object{"memory.oom.group": "1"}},
			"maskedPaths":   []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware", "/sys/devices/virtual/powercap"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		}
		c["mounts"] = []object{{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts"}, {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue"}, {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"ro"}},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{"ro"}}, {"destination": "/dev/shm", "type": "bind", "source": "/dev/shm", "options": own},
			{"destination": "/dev/termination-log", "type": "bind", "source": ended, "options": own}, {"destination": "/var/run/secrets/x", "type": "bind", "source": secrets, "options": []string{"rbind", "rprivate", "ro"}}}
	}), "c")
	if code != 0 || out != "1000\nsesame\nhead: /proc/interrupts: Permission denied\n1\n" {
		t.Error(code, out)
	}
	if text, err := os.ReadFile(ended); string(text) != "the end\n" {
		t.Error(string(text), err)
	}
	if out, code := s.oci(t, "delete", "--force", "pod"); code != 0 {
		t.Error(out)
	}
}

// TestOCIHostile: what a bundle says about the host is refused, or stays inside.
func TestOCIHostile(t *testing.T) {
	s := newOCIScene(t)
	outside := filepath.Join(s.dir, "outside")
	volume := filepath.Join(s.dir, "volume")
	for _, dir := range []string{outside, volume} {
		must.Do(t, os.Mkdir(dir, 0o755))
	}
	if err := os.MkdirAll(s.rootfs+outside, 0o755); err != nil { // where the links lead inside
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": outside, "up": "../../../../../.." + outside, "dangling": outside + "/nothing", "kernel": "/proc"} {
		must.Do(t, os.Symlink(to, filepath.Join(s.rootfs, name)))
	}
	fifo := filepath.Join(s.dir, "fifo")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	bind := func(src, dst string) func(object) {
		return func(c object) {
			c["mounts"] = append(c["mounts"].([]object), object{"destination": dst, "type": "bind", "source": src, "options": []string{"rbind", "rw"}})
		}
	}
	for name, c := range map[string]struct {
		change func(object)
		code   int
		want   string
	}{
		"a place in the root":        {bind(volume, "/place"), 0, ""}, // the control: it is made
		"a place through a link":     {bind(volume, "/link/a"), 0, ""},
		"a place through a link up":  {bind(volume, "/up/b"), 0, ""},
		"a place above":              {bind(volume, "/../../.."+outside+"/c"), 0, ""},
		"a place at a dangling link": {bind(volume, "/dangling/d"), 1, "file exists"},
		"a place in /proc by a link": {bind(volume, "/kernel/e"), 1, "has a private one inside"},
		"a place in /proc":           {bind(volume, "/proc/sys"), 1, "/proc is the container's own"},
		"the host's /proc":           {bind("/proc", "/p"), 1, "what is the kernel's"},
		"the host's root":            {bind("/", "/h"), 1, "what is the kernel's"},
		"the host's root as its own": {func(c object) { c["root"] = object{"path": "/proc/thread-self/root"} }, 1, "refuses root.path /"},
		"a device":                   {bind("/dev/null", "/n"), 1, "mounts of devices"},
		"a device by mknod": {func(c object) {
			c["linux"].(object)["devices"] = []object{{"path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11}}
		}, 1, "linux.devices /dev/kmsg"},
		"a hook": {func(c object) {
			c["hooks"] = object{"createRuntime": []object{{"path": "/bin/touch", "args": []string{"touch", outside + "/hook"}}}}
		}, 1, "hooks.createRuntime"},
		"the host's processes":     {func(c object) { c["linux"].(object)["namespaces"] = []object{{"type": "mount"}, {"type": "ipc"}} }, 1, "without pid"},
		"a field that isn't known": {func(c object) { c["linux"].(object)["netDevices"] = object{} }, 1, `unknown field "netDevices"`},
		"a network that is no network": {func(c object) {
			c["linux"].(object)["namespaces"] = []object{{"type": "mount"}, {"type": "ipc"}, {"type": "pid"}, {"type": "network", "path": "/proc/self/ns/pid"}}
		}, 1, "setns"},
		"a network that nobody ever writes to": {func(c object) {
			c["linux"].(object)["namespaces"] = []object{{"type": "mount"}, {"type": "ipc"}, {"type": "pid"}, {"type": "network", "path": fifo}}
		}, 1, "setns"},
		"the host's network by its path": {func(c object) {
			c["linux"].(object)["namespaces"] = []object{{"type": "mount"}, {"type": "ipc"}, {"type": "pid"}, {"type": "network", "path": "/proc/self/ns/net"}}
		}, 0, ""},
		"settings of the host's network": {func(c object) {
			c["linux"].(object)["namespaces"] = []object{{"type": "mount"}, {"type": "ipc"}, {"type": "pid"}, {"type": "network", "path": "/proc/self/ns/net"}}
			c["linux"].(object)["sysctl"] = object{"net.ipv4.ip_default_ttl": "64"} // what it is
		}, 1, "is the host's network"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := s.oci(t, "run", "-b", s.bundle(t, "true", c.change), "c")
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("%d, want %d; %q, want %q", code, c.code, out, c.want)
			}
		})
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Error("made outside:", entries, err)
	}
	if _, err := os.Stat(filepath.Join(s.rootfs, "place")); err != nil {
		t.Error("the control:", err)
	}
	pipe := s.bundle(t, "true", nil)
	must.Do(t, errors.Join(os.Remove(filepath.Join(pipe, "config.json")), syscall.Mkfifo(filepath.Join(pipe, "config.json"), 0o600)))
	if out, code := s.oci(t, "run", "-b", pipe, "c"); code != 1 || !strings.Contains(out, "no regular file") {
		t.Error(code, out)
	}
	good := s.bundle(t, "true", nil)
	for _, id := range []string{"../c", "a/b", "..", ""} {
		if out, code := s.oci(t, "create", "-b", good, id); code != 1 || !strings.Contains(out, "is no ID") {
			t.Errorf("%q: %d %s", id, code, out)
		}
	}
	if out, _ := s.oci(t, "list"); out != "[]\n" {
		t.Error("left:", out)
	}
}

// TestOCILifecycle: created, running and stopped; its supervisor's death is its end.
func TestOCILifecycle(t *testing.T) {
	s := newOCIScene(t)
	ok := func(out string, code int) {
		t.Helper()
		if code != 0 {
			t.Fatal(code, out)
		}
	}
	pidFile := filepath.Join(s.dir, "pid")
	ok(s.oci(t, "create", "-b", s.bundle(t, "sleep 1000", nil), "--pid-file", pidFile, "c"))
	text, err := os.ReadFile(pidFile)
	if status, pid := s.state(t, "c"); err != nil || status != "created" || strconv.Itoa(pid) != string(text) {
		t.Fatal(status, pid, string(text), err)
	}
	for _, kind := range []string{"net", "ipc", "uts", "mnt"} { // what joins them by this pid isn't to be in the host's
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if its, err2 := os.Readlink("/proc/" + string(text) + "/ns/" + kind); err != nil || err2 != nil || its == own {
			t.Error(kind, own, its, err, err2)
		}
	}
	if out, code := s.oci(t, "exec", "c", "true"); code != 1 || !strings.Contains(out, "not running") {
		t.Error("exec before the start:", code, out)
	}
	if out, code := s.oci(t, "delete", "c"); code != 1 || !strings.Contains(out, "not stopped") {
		t.Error("delete of one that lives:", code, out)
	}
	ok(s.oci(t, "start", "c"))
	if out, code := s.oci(t, "start", "c"); code != 1 {
		t.Error("a second start:", out)
	}
	if out, code := s.oci(t, "exec", "--env", "B=c", "--cwd", "/tmp", "c", "sh", "-c", "echo $A$B $PWD; exit 5"); code != 5 || out != "bc /tmp\n" {
		t.Error("exec:", code, out)
	}
	if out, code := s.oci(t, "exec", "c", "nosuch"); code != 127 {
		t.Error("exec of nothing:", code, out)
	}
	out, code := s.oci(t, "ps", "--format", "json", "c")
	var pids []int
	if err := json.Unmarshal([]byte(out), &pids); code != 0 || err != nil || len(pids) != 2 {
		t.Fatal(code, out, err) // init, and sleep
	}
	status, pid := s.state(t, "c")
	if status != "running" {
		t.Error(status)
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	if !must.Within(10*time.Second, func() bool {
		now, _ := s.state(t, "c")
		return now == "stopped" && syscall.Kill(pids[0], 0) != nil && syscall.Kill(pids[1], 0) != nil
	}) {
		t.Fatal("something survived the supervisor")
	}
	if out, code := s.oci(t, "kill", "c", "KILL"); code != 1 || !strings.Contains(out, "not running") {
		t.Error("kill of one that has stopped:", code, out)
	}
	ok(s.oci(t, "delete", "c"))
	ok(s.oci(t, "create", "-b", s.bundle(t, "sleep 1000", nil), "d"))
	ok(s.oci(t, "kill", "d", "9"))
	ok(s.oci(t, "delete", "--force", "d"))
	ok(s.oci(t, "delete", "--force", "d"))
	if out, code := s.oci(t, "state", "d"); code != 1 || !strings.Contains(out, "does not exist") {
		t.Error(code, out)
	}
}

// inTerminal runs a command in a terminal of its own.
func inTerminal(t *testing.T, argv ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 91})
	must.Do(t, err)
	defer tty.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(tty) // EIO is its end
	_ = cmd.Wait()
	return b.String(), cmd.ProcessState.ExitCode()
}

func TestOCIPodman(t *testing.T) {
	s := newOCIScene(t)
	needs(t, "program:podman")
	base := []string{"podman", "--root", s.dir + "/storage", "--runroot", s.dir + "/run", "--runtime", s.runtime}
	podman := func(args ...string) (string, int) {
		return s.command(t, "", append(base[:len(base):len(base)], args...)...)
	}
	t.Cleanup(func() {
		_ = exec.Command("podman", append(base[1:len(base):len(base)], "rm", "--all", "--force", "--time", "0")...).Run()
		_ = exec.Command("umount", s.dir+"/storage/overlay").Run()
	})
	out, code := s.command(t, "", "tar", "-C", s.rootfs, "-cf", s.dir+"/image.tar", ".")
	if code == 0 {
		out, code = podman("import", "-q", s.dir+"/image.tar", "localhost/confine-oci:1")
	}
	if code != 0 {
		t.Fatal(out)
	}
	const image = "localhost/confine-oci:1"
	volume := filepath.Join(s.dir, "volume")
	must.Do(t, errors.Join(os.Mkdir(volume, 0o755), os.WriteFile(volume+"/f", []byte("from outside\n"), 0o644)))
	run := []string{"run", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=100:100", "--network", "none"}
	for _, c := range []struct {
		name    string
		options []string
		command string
		code    int
		want    string
	}{
		{"exit code and host name", []string{"--hostname", "hal"}, "hostname; exit 5", 5, "hal\n"},
		{"user, volume", []string{"--user", "1000:1000", "-v", volume + ":/a/b:ro"}, "id -u; cat /a/b/f; echo x >/a/b/g", 1, "1000\nfrom outside\n"},
		{"volume", []string{"-v", volume + ":/a"}, "echo inside >/a/g", 0, ""},
		{"read-only", []string{"--read-only", "-w", "/tmp"}, "echo y >y && cat y; echo x >/x", 1, "y\n"},
		{"memory", []string{"--memory", "32m"}, "a=x; while :; do a=$a$a; done", 137, ""},
		{"privileged", []string{"--privileged"}, "id", 126, "refuses linux.devices"},
		{"capability", []string{"--cap-add", "SYS_ADMIN"}, "id", 126, "refuses process.capabilities CAP_SYS_ADMIN"},
		{"the host's processes", []string{"--pid", "host"}, "id", 126, "refuses linux.namespaces without pid"},
	} {
		args := append(append(append(run[:len(run):len(run)], "--rm"), c.options...), image, "sh", "-c", c.command)
		if out, code := podman(args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d, want %d; %q, want %q", c.name, code, c.code, out, c.want)
		}
	}
	if text, err := os.ReadFile(volume + "/g"); string(text) != "inside\n" {
		t.Error(string(text), err)
	}
	if out, code := s.command(t, "typed\n", append(append(base[:len(base):len(base)], run...), "--rm", "-i", image, "cat")...); code != 0 || out != "typed\n" {
		t.Error("stdin:", code, out)
	}
	// podman tells how large it is after it has started the container.
	sized := `n=0; until [ "$(stty size)" = "30 91" ] || [ $n = 200 ]; do n=$((n+1)); sleep 0.05; done; stty size; exit 3`
	if out, code := inTerminal(t, append(append(base[:len(base):len(base)], run...), "--rm", "-it", image, "sh", "-c", sized)...); code != 3 || !strings.Contains(out, "30 91") {
		t.Error("terminal:", code, out)
	}
	if out, code := podman(append(run[:len(run):len(run)], "-d", "--name", "held", image, "sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.05; done")...); code != 0 {
		t.Fatal(out)
	}
	if out, code := podman("exec", "-e", "B=c", "held", "sh", "-c", "echo $B; exit 6"); code != 6 || out != "c\n" {
		t.Error("exec:", code, out)
	}
	if out, code := podman("exec", "-u", "5", "held", "id"); code == 0 || !strings.Contains(out, "refuses process.user 5:0") {
		t.Error("exec of another user:", code, out)
	}
	if out, code := podman("stop", "held"); code != 0 {
		t.Error(out)
	}
	if out, code := podman("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", "held"); code != 0 || out != "exited 9\n" {
		t.Error("stop:", code, out)
	}
	if out, code := podman("start", "held"); code != 0 {
		t.Error(out)
	}
	if out, code := podman("rm", "--force", "--time", "0", "held"); code != 0 {
		t.Error(out)
	}
}

func TestOCIContainerd(t *testing.T) {
	s := newOCIScene(t)
	needs(t, "program:containerd", "program:ctr")
	socket := s.dir + "/sock"
	snippet, err := os.ReadFile("../examples/kubernetes/containerd.toml")
	must.Do(t, err)
	config := fmt.Sprintf("root = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.snapshotter.v1.devmapper\", \"io.containerd.snapshotter.v1.zfs\"]\n[grpc]\n  address = %q\n", s.dir+"/d/root", s.dir+"/d/state", socket)
	// The example's own lines, as they are, with what of it is a place on the host.
	version, rest, _ := strings.Cut(string(snippet), "\n")
	must.Do(t, os.WriteFile(s.dir+"/config.toml", []byte(version+"\n"+config+strings.ReplaceAll(rest, "/usr/local/bin/confine-oci", s.runtime)), 0o600))
	daemon := exec.Command("containerd", "--config", s.dir+"/config.toml")
	var said bytes.Buffer
	daemon.Stdout, daemon.Stderr = &said, &said
	must.Do(t, daemon.Start())
	ctr := func(args ...string) (string, int) {
		t.Helper()
		return s.command(t, "", append([]string{"ctr", "--address", socket}, args...)...)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	})
	if !must.Within(20*time.Second, func() bool { _, code := ctr("version"); return code == 0 }) {
		t.Fatal("containerd doesn't answer")
	}
	if out, code := s.command(t, "", "containerd", "--config", s.dir+"/config.toml", "config", "dump"); code != 0 || !strings.Contains(out, `BinaryName = "`+s.runtime+`"`) {
		t.Errorf("the example is not as containerd reads it: %d\n%s", code, out)
	}
	run := []string{"run", "--runc-binary", s.runtime, "--rm", "--rootfs"}
	for i, c := range []struct {
		options []string
		command string
		code    int
		want    string
	}{
		{nil, "id -u; exit 4", 4, "0\n"},
		{[]string{"--memory-limit", "33554432"}, "a=x; while :; do a=$a$a; done", 137, ""},
		{[]string{"--read-only"}, "echo x >/x", 1, "Read-only"},
		{[]string{"--seccomp"}, "id -u", 0, "0\n"},
		{[]string{"--net-host", "--privileged"}, "id", 1, "refuses"},
		{[]string{"--mount", "type=bind,src=" + s.dir + "/rootfs/etc,dst=/v,options=rbind:ro"}, "ls -d /v", 0, "/v\n"},
	} {
		args := append(append(run[:len(run):len(run)], c.options...), s.rootfs, "c"+strconv.Itoa(i), "sh", "-c", c.command)
		if out, code := ctr(args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%q %q: %d, want %d; %q, want %q", c.options, c.command, code, c.code, out, c.want)
		}
	}
	if out, code := inTerminal(t, "ctr", "--address", socket, "run", "--runc-binary", s.runtime, "--rm", "-t", "--rootfs", s.rootfs, "tty", "sh", "-c", "test -t 0 && echo a terminal; exit 2"); code != 2 || !strings.Contains(out, "a terminal") {
		t.Error("terminal:", code, out)
	}
	if out, code := ctr("run", "--runc-binary", s.runtime, "-d", "--rootfs", s.rootfs, "held", "sleep", "1000"); code != 0 {
		t.Fatal(out)
	}
	if out, code := ctr("task", "exec", "--exec-id", "e", "held", "sh", "-c", "exit 6"); code != 6 {
		t.Error("exec:", code, out)
	}
	if out, code := ctr("task", "kill", "--signal", "SIGKILL", "held"); code != 0 {
		t.Error("kill:", code, out)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		out, code := ctr("task", "delete", "held")
		if code == 0 || strings.Contains(out, "137") {
			break
		}
		if !strings.Contains(out, "must be stopped") || time.Now().After(end) {
			t.Fatal("delete:", code, out)
		}
	}
	if out, code := ctr("container", "delete", "held"); code != 0 {
		t.Error("delete:", code, out)
	}
}
