package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// slurm is a controller and two nodes on this host, with a munged of their own.
type slurm struct {
	*testing.T
	*place
	dir     string
	confine string
	jobs    int
}

const slurmConf = `ClusterName=confine
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%[2]d
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%[1]s/munge.sock
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd.%%n.pid
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[5]s/spool.%%n
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[3]d CPUs=2 RealMemory=2000 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=%[4]d CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

func startSlurm(t *testing.T) *slurm {
	t.Helper()
	p := placeOf(t)
	s := &slurm{T: t, place: p, dir: t.TempDir(), confine: p.program("confine")}
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		l.Close()
	}
	// Of one host they would be the steps' sockets of the other node, too, in a tree that the tasks are shown: what is hidden there has to stay.
	spool := t.TempDir()
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	for path, text := range map[string][]byte{"munge.key": key, "slurm.conf": fmt.Appendf(nil, slurmConf, s.dir, ports[0], ports[1], ports[2], spool)} {
		must.Do(t, os.WriteFile(filepath.Join(s.dir, path), text, 0o400))
	}
	for _, dir := range []string{s.dir + "/state", spool + "/spool.n1", spool + "/spool.n2"} {
		must.Do(t, os.Mkdir(dir, 0o700))
	}
	s.daemon("munged", "--foreground", "--force", "--socket="+s.dir+"/munge.sock", "--key-file="+s.dir+"/munge.key", "--pid-file="+s.dir+"/munge.pid",
		"--seed-file="+s.dir+"/munge.seed", "--log-file="+s.dir+"/munge.log")
	s.until("munge", func() bool {
		_, err := os.Stat(s.dir + "/munge.sock")
		return err == nil
	})
	s.daemon("slurmctld", "-D", "-f", s.dir+"/slurm.conf")
	for _, node := range []string{"n1", "n2"} {
		s.daemon("slurmd", "-D", "-N", node, "-f", s.dir+"/slurm.conf")
	}
	s.until("two nodes", func() bool {
		out, _, _ := s.run("sinfo", "-h", "-o", "%T %D")
		return out == "idle 2\n"
	})
	return s
}

// daemon starts one of the programs, which ends with the test.
func (s *slurm) daemon(name string, args ...string) {
	s.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(s, cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		if s.Failed() {
			s.Logf("%s: %s", name, out.String())
		}
	})
}

func (s *slurm) until(what string, ok func() bool) {
	s.Helper()
	if !must.Within(60*time.Second, ok) {
		s.Fatalf("%s: not within a minute", what)
	}
}

// run runs one of Slurm's programs.
func (s *slurm) run(name string, args ...string) (out, errs string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.dir+"/slurm.conf")
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// TestSlurm has tasks of real slurmds confined: on two nodes, within what a batch job was given, and not at all where that can't be.
func TestSlurm(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("slurmd wants root")
	}
	t.Parallel()
	needs(t, "userns", "program:munged", "program:slurmctld", "program:slurmd", "program:srun", "program:python3")
	s := startSlurm(t)
	out, errs, code := s.run("srun", "-N2", s.confine, "slurm", "--report", s.dir+"/report.%j.%t.json", "--", "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME; test ! -e "+s.dir+"/munge.sock; exit $((SLURM_PROCID*3))")
	if lines := strings.Fields(out); code != 3 || len(lines) != 4 || !strings.Contains(out, "0 n1\n") || !strings.Contains(out, "1 n2\n") {
		t.Errorf("two nodes: %d, %q, %q", code, out, errs)
	}
	reports, err := filepath.Glob(s.dir + "/report.*.json")
	if err != nil || len(reports) != 2 {
		t.Errorf("%q, %v", reports, err)
	}
	for _, path := range reports {
		var r status.Report
		if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &r) != nil || r.Cmd[0] != "sh" {
			t.Errorf("%s: %v", path, err)
		}
	}

	hog := "python3 -c 'x = b\"a\" * 200_000_000; print(\"had it\")'"
	if out, code := s.batch("--mem-per-cpu=400", s.confine+" slurm -- "+hog); code != 0 || !strings.Contains(out, "had it") {
		t.Errorf("within the allocation: %d, %q", code, out)
	}
	if out, code := s.batch("--mem-per-cpu=100", s.confine+" slurm -- "+hog); code != 137 || !strings.Contains(out, "MEM_LIMIT") {
		t.Errorf("beyond the allocation: %d, %q", code, out)
	}
	if out, code := s.batch("--mem-per-cpu=100", "srun "+s.confine+" slurm -- "+hog); code != 137 || !strings.Contains(out, "MEM_LIMIT") {
		t.Errorf("beyond the allocation, in a step: %d, %q", code, out)
	}
	touched := s.dir + "/touched"
	for name, words := range map[string]string{
		"more than the allocation":     s.confine + " slurm -m 1G --allow-write " + s.dir + " -- touch " + touched,
		"a sandbox that can't be had":  s.confine + " slurm --isolation vm --vm-kernel none.such --allow-write " + s.dir + " -- touch " + touched,
		"a program that isn't there":   s.dir + "/no-confine slurm -- touch " + touched,
		"an environment that is wrong": "SLURM_MEM_PER_CPU=all " + s.confine + " slurm --allow-write " + s.dir + " -- touch " + touched,
	} {
		if out, code := s.batch("--mem-per-cpu=100", words); code == 0 {
			t.Errorf("%s: %q", name, out)
		}
		if _, err := os.Stat(touched); err == nil {
			t.Fatalf("%s: it has run", name)
		}
	}
	if out, code := s.batch("--mem-per-cpu=100", s.confine+" slurm --allow-write "+s.dir+" -- touch "+touched); code != 0 {
		t.Errorf("the same, and right: %d, %q", code, out)
	}
	if _, err := os.Stat(touched); err != nil {
		t.Error(err)
	}
	s.cancelled()
	cmd := exec.Command(s.confine, "slurm", "--", "true")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if text, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 125 || !strings.Contains(string(text), "no task of Slurm's") {
		t.Errorf("outside of Slurm: %v, %s", err, text)
	}
}

// batch runs a script of one line, and gives what it wrote and its exit code. It asks itself whether that has ended: "sbatch -W" asks every other second.
func (s *slurm) batch(option, line string) (string, int) {
	s.Helper()
	s.jobs++
	said := fmt.Sprint(s.dir, "/out.", s.jobs)
	id, errs, code := s.run("sbatch", "--parsable", "-o", said, option, "--wrap", line)
	if code != 0 {
		s.Fatal(errs)
	}
	s.until("the end of "+line, func() bool {
		now, _, _ := s.run("scontrol", "show", "job", "--oneliner", strings.TrimSpace(id))
		var ended bool
		for field := range strings.FieldsSeq(now) {
			if state, ok := strings.CutPrefix(field, "JobState="); ok {
				ended = state == "COMPLETED" || state == "FAILED" || state == "OUT_OF_MEMORY" || state == "NODE_FAIL" || state == "CANCELLED" || state == "TIMEOUT"
			}
			if how, ok := strings.CutPrefix(field, "ExitCode="); ok {
				rc, signal, _ := strings.Cut(how, ":")
				if code, _ = strconv.Atoi(rc); signal != "0" {
					code = -1 // it didn't exit
				}
			}
		}
		return ended
	})
	text, err := os.ReadFile(said)
	must.Do(s, err)
	return string(text), code
}

// cancelled looks that nothing is left of a task when Slurm has ended its job.
func (s *slurm) cancelled() {
	s.Helper()
	out, errs, code := s.run("sbatch", "--parsable", "-o", s.dir+"/long", "--wrap", s.confine+" slurm --allow-write "+s.dir+" -- sh -c 'trap \"\" TERM; echo begun; while :; do date +%s%N >"+s.dir+"/tick; sleep 0.05; done'")
	if code != 0 {
		s.Fatal(errs)
	}
	s.until("the task", func() bool {
		_, err := os.Stat(s.dir + "/tick")
		return err == nil
	})
	if _, errs, code := s.run("scancel", strings.TrimSpace(out)); code != 0 {
		s.Fatal(errs)
	}
	s.until("the end of the job", func() bool {
		left, _, _ := s.run("squeue", "-h")
		return left == ""
	})
	s.until("the end of its processes", func() bool { return len(s.stays()) == 0 })
	before, _ := os.ReadFile(s.dir + "/tick")
	time.Sleep(300 * time.Millisecond) // that is what it is about
	if after, _ := os.ReadFile(s.dir + "/tick"); !bytes.Equal(before, after) {
		s.Error("the command goes on after its job was cancelled")
	}
}
