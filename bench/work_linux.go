package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// suite is a pytest suite that computes, parses, and writes small files.
//
//go:embed testdata/test_work.py
var suite []byte

// pytest is the suite, ready to run.
type pytest struct {
	bare    command
	missing string // why it can't be
	fast    string // a directory in memory
}

// pytest writes the suite to a directory of this name. A /tmp in memory for all: else
// the disk would be measured.
func (b *bench) pytest(name string) (*pytest, error) {
	dir := filepath.Join(b.scratch, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "test_work.py"), suite, 0o644); err != nil {
		return nil, err
	}
	python := "/usr/bin/python3"
	if exec.Command(python, "-m", "pytest", "--version").Run() != nil {
		return &pytest{missing: python + " has no pytest"}, nil
	}
	fast, err := os.MkdirTemp("/dev/shm", "bench-")
	if err != nil {
		return nil, err
	}
	argv := []string{python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_work.py"}
	// The same settings for all.
	env := append(b.withoutTmp(), "TMPDIR="+fast, "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1")
	return &pytest{bare: command{argv: argv, dir: dir, env: env}, fast: fast}, nil
}

func (p *pytest) close() {
	if p.fast != "" {
		_ = os.RemoveAll(p.fast)
	}
}

// confined is the suite by confine with these options.
func (p *pytest) confined(b *bench, options string) peer {
	c := b.confined(options, p.bare.argv...)
	c.dir = p.bare.dir
	return b.timed("confine "+options, c)
}

func measurePytest(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bare"}
	p, err := b.pytest("pytest")
	if err != nil {
		return nil, err
	}
	defer p.close()
	if r.measured, r.verdict = p.missing, absent; p.missing != "" {
		return r, nil
	}
	peers := []peer{b.timed("bare", p.bare)}
	if b.bwrap != "" {
		c := b.bwrapped([]string{"--bind", p.bare.dir, p.bare.dir, "--chdir", p.bare.dir}, p.bare.argv...)
		c.dir, c.env = p.bare.dir, append(b.withoutTmp(), "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1")
		peers = append(peers, b.timed("bwrap", c))
	}
	peers = append(peers, p.confined(b, "-p testing"))
	r.note("Start-up included. $TMPDIR is in memory for all of them.")
	return r, r.compare(peers, b.rounds(7), "confine -p testing", atMost(1.02))
}

func (b *bench) withoutTmp() (env []string) {
	for _, e := range b.env {
		if !strings.HasPrefix(e, "TMPDIR=") {
			env = append(env, e)
		}
	}
	return env
}

// packages is how many packages the program has that is built.
const packages = 60

// goProject makes a Go program in a directory of this name, and builds it once: the
// standard library comes from the cache afterwards.
func (b *bench) goProject(name string) (*project, error) {
	p := &project{dir: filepath.Join(b.scratch, name)}
	var err error
	if p.tool, err = goRoot(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(p.dir, "tmp"), 0o755); err != nil {
		return nil, err
	}
	p.bare = command{argv: []string{p.tool + "/bin/go", "build", "-o", "out", "."}, dir: p.dir,
		env: append(b.withoutTmp(), "GOCACHE="+p.dir+"/cache", "GOTMPDIR="+p.dir+"/tmp", "GOFLAGS=-mod=mod",
			"GOTOOLCHAIN=local", "GOPROXY=off", "GOTELEMETRY=off", "CGO_ENABLED=0", "GOROOT="+p.tool)}
	if err := p.change(); err != nil {
		return nil, err
	}
	_, err = b.time(&p.bare)
	return p, err
}

// confined is the build by confine with these options, which are its name too.
func (p *project) confined(b *bench, options, more string) peer {
	c := b.confined(options+" --time-limit 10m --cpu-time 10m --memory-limit 4G --processes 1024 "+
		"--env GOCACHE --env GOTMPDIR --env GOFLAGS --env GOTOOLCHAIN --env GOPROXY --env GOTELEMETRY --env CGO_ENABLED --env GOROOT "+
		"--allow-read "+p.tool+" "+more, p.bare.argv...)
	c.dir, c.env = p.dir, p.bare.env
	return p.changed(b.timed("confine "+options, c))
}

func measureGoBuild(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bare"}
	p, err := b.goProject("gobuild")
	if err != nil {
		return nil, err
	}
	peers := []peer{p.changed(b.timed("bare", p.bare))}
	if b.bwrap != "" {
		c := b.bwrapped([]string{"--ro-bind", p.tool, p.tool, "--bind", p.dir, p.dir, "--chdir", p.dir}, p.bare.argv...)
		c.dir, c.env = p.dir, p.bare.env
		peers = append(peers, p.changed(b.timed("bwrap", c)))
	}
	peers = append(peers, p.confined(b, "-p testing --workdir rw", ""))
	r.note("%d packages change each time; the standard library comes from the build cache. All write to the same disk.", packages)
	return r, r.compare(peers, b.rounds(7), "confine -p testing --workdir rw", atMost(1.02))
}

func goRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return filepath.EvalSymlinks(strings.TrimSpace(string(out)))
}

// project is a Go program whose packages are never the same twice.
type project struct {
	dir, tool string
	bare      command
	nth       int
}

func (p *project) changed(of peer) peer {
	return peer{of.name, func() (reading, error) {
		if err := p.change(); err != nil {
			return reading{}, err
		}
		return of.take()
	}}
}

func (p *project) change() error {
	p.nth++
	var imports, calls strings.Builder
	files := map[string]string{"go.mod": "module example.org/built\n\ngo 1.24\n"}
	for i := range packages {
		name := fmt.Sprintf("p%d", i)
		fmt.Fprintf(&imports, "import %q\n", "example.org/built/"+name)
		fmt.Fprintf(&calls, "\t%s.Print()\n", name)
		var body strings.Builder
		fmt.Fprintf(&body, "package %s\n\nimport (\n\t\"fmt\"\n\t\"sort\"\n)\n\n// Print prints.\nfunc Print() { fmt.Println(%d) }\n", name, p.nth)
		for f := range 40 {
			fmt.Fprintf(&body, "\nfunc F%d(m map[string]int) (keys []string) {\n\tfor k, v := range m {\n\t\tif v > %d {\n"+
				"\t\t\tkeys = append(keys, fmt.Sprint(k, v))\n\t\t}\n\t}\n\tsort.Strings(keys)\n\treturn keys\n}\n", f, p.nth+f)
		}
		files[name+"/p.go"] = body.String()
	}
	files["main.go"] = "package main\n\n" + imports.String() + "\nfunc main() {\n" + calls.String() + "}\n"
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
