package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/confine-run/confine/status"
)

// flooded: the attempt can't see how much of what it wrote was kept.
func (d *driver) flooded(ctx context.Context, a *attempt, r *Result) (Outcome, string) {
	got := d.confined(ctx, a)
	r.Foretold = a.foretell(got.ledger)
	if got.err != nil {
		return Failed, "the run: " + got.err.Error()
	}
	n, most := len(status.Decoded(got.report.Stdout, got.report.Encoding.Stdout)), 64<<10+len("[TRUNCATED]\n")+1
	why := fmt.Sprintf("%d of 2000000 bytes came out", n)
	if n > most || !got.report.Truncated.Stdout || n == 0 {
		return Failed, why
	}
	return Held, why
}

// bombed: whether the bomb was refused, killed or made its tasks doesn't matter. It
// has to be over.
func (d *driver) bombed(ctx context.Context, a *attempt, r *Result) (Outcome, string) {
	got := d.confined(ctx, a)
	r.Foretold = a.foretell(got.ledger)
	if got.err != nil || got.token != "" || got.report.Status == status.InternalError {
		return got.judge(a)
	}
	return Held, fmt.Sprintf("%s after %d ms, and nothing is left", got.report.Status, got.report.DurationMS)
}

// killed lets another process supervise, and kills it.
func (d *driver) killed(ctx context.Context, a *attempt, r *Result) (Outcome, string) {
	v, err := d.ground("inside/" + a.name)
	if err != nil {
		return Failed, err.Error()
	}
	defer v.letGo()
	words, _ := fill(a.inside, v)
	policy := d.narrowed(a, v)
	text, err := json.Marshal(holding{Policy: policy, Argv: append([]string{d.exe, Word}, words...), Dir: v["tree"]})
	if err != nil {
		return Failed, err.Error()
	}
	var said bytes.Buffer
	cmd := outside(ctx, d.exe, holdWord)
	cmd.Env = append(cmd.Env, "TMPDIR="+v["tmp"]) // where what it makes outside would be left
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &said
	if err := cmd.Start(); err != nil {
		return Failed, err.Error()
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.Foretold = a.foretell(d.ledger)
	// That it is there inside is a control of its own.
	there := until(longest, func() bool {
		select {
		case <-ended:
			return true
		default:
			return len(started(v["token"])) > 0
		}
	})
	_ = cmd.Process.Kill()
	<-ended
	gone := until(3*time.Second, func() bool { return len(holders(v["token"])) == 0 })
	var files []os.DirEntry
	tidy := until(3*time.Second, func() bool {
		files, err = os.ReadDir(v["tmp"])
		return err == nil && len(files) == 0
	})
	// A cgroup goes with the next run.
	_ = d.confined(ctx, &attempt{name: "sweep", inside: "say swept"})
	switch {
	case !tidy:
		end(v["token"])
		return Failed, fmt.Sprintf("temporary files of the run are left: %v %v", files, err)
	case !gone:
		end(v["token"])
		return Failed, "a process of the run is left"
	case !there || said.Len() > 0:
		return NotTestable, strings.TrimSpace("inside it was not started " + firstLine(said.String()))
	default:
		return Held, "nothing is left"
	}
}

// started are those with the token that have started what is to survive.
func started(token string) (pids []int) {
	return slices.DeleteFunc(holders(token), func(pid int) bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !bytes.Contains(b, []byte("\x00deaf\x00")) || bytes.Contains(b, []byte("\x00each\x00"))
	})
}

func until(most time.Duration, done func() bool) bool {
	for end := time.Now().Add(most); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// escaped asks the real command line for something that it has to say no to.
func (d *driver) escaped(ctx context.Context, a *attempt, r *Result) (Outcome, string) {
	v, err := d.ground("inside/" + a.name)
	if err != nil {
		return Failed, err.Error()
	}
	defer v.letGo()
	cmd := exec.CommandContext(ctx, d.exe, "run", "--log", "normal", "--log-format", "text", "--allow-partial", "all", "--", "nonesuch"+v["escape"])
	cmd.Dir = v["tree"]
	text, _ := cmd.CombinedOutput()
	switch {
	case !bytes.Contains(text, []byte("nonesuch")):
		return NotTestable, "confine doesn't name it: " + firstLine(string(text))
	case bytes.ContainsAny(text, "\x1b\x07"):
		return Failed, "they come out as they are"
	default:
		return Held, "they are shown, not sent"
	}
}
