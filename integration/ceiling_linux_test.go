package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// TestDirsThatAreExchangedStayBelowTheCeiling exchanges a directory and a link to a secret without end, as a sandbox can that
// writes to what is around them, while requests name the directory. The control is a server without a ceiling, which shows the secret.
func TestDirsThatAreExchangedStayBelowTheCeiling(t *testing.T) {
	t.Parallel()
	needs(t, "userns")
	p := placeOf(t)
	must.Do(t, copyProgram(filepath.Join(scene.programs, "confine-server"), p.program("confine-server")))
	ceiling, srv, secret := filepath.Join(p.own, "ceiling.toml"), filepath.Join(p.work, "srv"), filepath.Join(p.work, "secret")
	dir, link := filepath.Join(srv, "work", "x"), filepath.Join(srv, "work", "y")
	must.Do(t, os.WriteFile(ceiling, []byte("[sandbox]\nprofile = 'standard'\nworkdir = 'rw'\nfilesystem.allow_write = ['"+filepath.Join(srv, "work")+"']\n"), 0o644))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
	must.Do(t, os.MkdirAll(filepath.Join(secret, "in"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(secret, "key"), []byte("SECRET"), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(secret, "in", "key"), []byte("SECRET"), 0o644))
	must.Do(t, os.Symlink(secret, link))

	var exchanged atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
					if exchanged.Add(1)%64 == 0 { // some requests find the directory
						time.Sleep(time.Millisecond)
					}
				}
			}
		}
	}()
	defer func() { close(stop); <-stopped }()

	// posted says how often the secret was shown, and how often there was any answer of a run.
	posted := func(args []string, enough func(shown, ran, refused int) bool) (shown, ran, refused int) {
		socket := filepath.Join(p.own, "s")
		cmd := p.command(t.Context(), "confine", append([]string{"serve", "--listen", "unix:" + socket}, args...)...)
		cmd.Dir = srv
		must.Do(t, cmd.Start())
		defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
		own, err := os.Open(p.own) // whose name can be too long for a socket
		must.Do(t, err)
		defer own.Close()
		client := &http.Client{Transport: &http.Transport{DialContext: dialing(fmt.Sprintf("/proc/self/fd/%d/s", own.Fd()))}}
		begun := time.Now()
		for i := 0; time.Since(begun) < 2*time.Minute && !enough(shown, ran, refused); i++ {
			name := []string{dir, dir + "/in"}[i%2]
			doc := map[string]any{"argv": []string{"sh", "-c", "cd " + name + " && cat key; echo changed > key"}}
			if policy := map[string]any{"profile": "standard"}; i%4 < 2 {
				policy["workdir"] = "rw"
				doc["dir"], doc["policy"] = name, policy
			} else {
				policy["allow_write"] = []string{name}
				doc["policy"] = policy
			}
			body, err := json.Marshal(doc)
			must.Do(t, err)
			answer, err := client.Post("http://c/v1/runs", "application/json", bytes.NewReader(body))
			if err != nil {
				time.Sleep(10 * time.Millisecond) // it isn't there yet
				continue
			}
			text, err := io.ReadAll(answer.Body)
			must.Do(t, err)
			must.Do(t, answer.Body.Close())
			switch {
			case strings.Contains(string(text), "SECRET"):
				shown++
			case answer.StatusCode == http.StatusOK:
				ran++
			default:
				refused++
			}
		}
		return shown, ran, refused
	}
	before := exchanged.Load()
	begun := time.Now()
	shown, ran, refused := posted([]string{"--ceiling", ceiling}, func(_, ran, refused int) bool {
		return min(ran, refused) >= 60 || min(ran, refused) >= 5 && time.Since(begun) > 8*time.Second
	})
	count := exchanged.Load() - before
	told := fmt.Sprintf("%d exchanges; %d runs, %d refused, the secret shown %d times", count, ran, refused, shown)
	t.Log(told)
	if shown > 0 {
		t.Error(told)
	}
	for _, name := range []string{"key", "in/key"} {
		if text, err := os.ReadFile(filepath.Join(secret, name)); err != nil || string(text) != "SECRET" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if ran < 5 || refused < 5 || count < 1000 {
		t.Error("too few to prove anything: " + told)
	}
	if shown, _, _ := posted(nil, func(shown, _, _ int) bool { return shown > 0 }); shown == 0 {
		t.Error("without a ceiling nothing was shown either: it is no attack")
	}
}
