package integration

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killed is how often the supervisor is killed; after killedWithin at most, in
// which it sets up the run and is in the middle of it.
const (
	killed       = 40
	killedWithin = 60 * time.Millisecond
)

// TestNothingOutlivesAKilledSupervisor kills confine where it can't do anything
// about it, at random moments from its start on.
func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	t.Parallel()
	own, work := filepath.Join(scene.dir, "own", t.Name()), filepath.Join(scene.dir, "work", t.Name())
	for _, dir := range []string{own + "/bin", own + "/tmp", own + "/home", work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"confine", "attempt"} {
		if err := copyProgram(filepath.Join(scene.programs, name), filepath.Join(own, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := takeStock(own, work)
	if err != nil {
		t.Fatal(err)
	}
	began := 0
	for range killed {
		delay := rand.N(killedWithin)
		cmd := exec.Command(filepath.Join(own, "bin", "confine"), "-p", "testing", "--",
			"sh", "-c", own+"/bin/attempt daemon 60; echo began; exec "+own+"/bin/attempt deaf 60")
		cmd.Dir = work
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own + "/home", "TMPDIR=" + own + "/tmp", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay) // the moment is what is tested
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if strings.Contains(out.String(), "began") {
			began++
		}
		left := s.left()
		for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = s.left() {
			time.Sleep(5 * time.Millisecond)
		}
		if len(left) > 0 {
			t.Fatalf("killed after %v, and left behind:\n%s", delay, strings.Join(left, "\n"))
		}
	}
	t.Logf("of %d runs %d had begun", killed, began)
}
