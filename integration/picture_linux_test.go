package integration

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// TestPicturesInABrowser: a browser makes of a page what was written, elements and all, and has nothing to say about it,
// whatever the run has called its processes and the hosts that it wanted.
func TestPicturesInABrowser(t *testing.T) {
	t.Parallel()
	needs(t, "userns", "program:chromium", "program:python3")
	dir := t.TempDir()
	confine := filepath.Join(scene.programs, "confine")
	hostile := `import os, socket, subprocess, sys
for name in ["<script>document.title='owned'</script>", "\"><img src=x onerror=document.title='owned'>", "</title></style><script>document.title='owned'</script>", "\u202egnp.exe \u05d0\u05d1", "x" * 60000]:
    subprocess.run([name, "0.1"], executable="/bin/sleep")
for host in ["refused.example", "<b>x</b>.example"]:
    try: socket.create_connection((host, 443), 5)
    except (OSError, UnicodeError): pass
sys.exit(3)`
	for name, argv := range map[string][]string{
		"hostile": {"--allow-network", "ok.example", "--", "python3", "-c", hostile},
		"limit":   {"--time-limit", "500ms", "--grace", "100ms", "--", "sh", "-c", "sleep 9 & sleep 9"},
	} {
		t.Run(name, func(t *testing.T) {
			record, page, picture := filepath.Join(dir, name+".rec"), filepath.Join(dir, name+".html"), filepath.Join(dir, name+".svg")
			run := exec.Command(confine, append([]string{"--record", record}, argv...)...)
			run.Env = append(os.Environ(), "HOME="+dir, "CONFINE_ALLOW_PARTIAL=all")
			if out, err := run.CombinedOutput(); run.ProcessState == nil || run.ProcessState.ExitCode() == 0 {
				t.Fatal(err, string(out))
			}
			if out, err := exec.Command(confine, "report", record, "--html", page, "--svg", picture).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			for _, file := range []string{page, picture} {
				text, err := os.ReadFile(file)
				must.Do(t, err)
				dom, said := browse(t, file)
				if said != "" {
					t.Errorf("%s: the browser says\n%s", file, said)
				}
				drawn, shown := structure(t, string(text)), structure(t, dom)
				if len(drawn) < 50 || !slices.Equal(drawn, shown) {
					t.Errorf("%s: %d elements were written, and %d are shown\n%.4000s", file, len(drawn), len(shown), dom)
				}
				for _, want := range []string{"head", "time", "band", "section", "row"} {
					if !slices.ContainsFunc(shown, func(e string) bool { return e == "g data-part="+want }) {
						t.Errorf("%s: no %s", file, want)
					}
				}
			}
		})
	}
	// The control: what such a name would do is seen.
	bad := filepath.Join(dir, "bad.html")
	must.Do(t, os.WriteFile(bad, []byte("<!DOCTYPE html><html><body><img src=x onerror=\"console.error('owned')\"></body></html>"), 0o600))
	if _, said := browse(t, bad); !strings.Contains(said, "owned") {
		t.Errorf("an error on the console is not seen: %q", said)
	}
}

// browse gives what a browser makes of a file, and what it says on its console.
func browse(t *testing.T, file string) (dom, console string) {
	t.Helper()
	args := []string{"--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--no-sandbox", // it has none of its own where it is started by root, or without user namespaces
		"--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", "file://" + file}
	cmd := exec.CommandContext(t.Context(), "chromium", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = time.Minute
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var said []string
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			said = append(said, line)
		}
	}
	return out.String(), strings.Join(said, "")
}

// structure is the elements of a page in their order: what a browser adds by itself aside.
func structure(t *testing.T, text string) (all []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(fmt.Errorf("%w in %.300s", err, text))
		}
		e, ok := tok.(xml.StartElement)
		if !ok || e.Name.Local == "tbody" {
			continue
		}
		name := e.Name.Local
		for _, a := range e.Attr {
			if a.Name.Local == "data-part" {
				name += " data-part=" + a.Value
			}
		}
		all = append(all, name)
	}
}
