package rootfs

import (
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/discover"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

// clone is a checkout that somebody else filled, below the home directory; what it wants to see is
// in ~/.ssh, ~/private and /srv/app.
var clone = []string{"/home/u/c/.git/HEAD=x", "/home/u/c/sub/", "/home/u/c/real/run.sh*", "/home/u/.ssh/id_rsa=secret",
	"/home/u/private/notes=secret", "/home/u/private/bin/tool*", "/home/u/private/lib/", "/srv/app/bin/tool*", "/srv/app/lib/x=secret",
	"/usr/local/go/bin/go*"}

// Whatever a tree of work names, nothing of what it names is shown, and one notice says so.
func TestNothingInATreeOfWorkDecidesWhatIsShown(t *testing.T) {
	t.Parallel()
	unseen := []string{"/home/u/.ssh/id_rsa", "/home/u/private/notes", "/home/u/private/bin/tool", "/srv/app/bin/tool", "/srv/app/lib/x"}
	for _, tt := range []struct {
		name  string
		extra []string
		env   []string
		cmd   string
	}{
		{"pyvenv.cfg of the command's", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/c/.venv/pyvenv.cfg=home = /home/u/.ssh"}, nil, ".venv/bin/tool"},
		{"pyvenv.cfg of a directory in PATH", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/c/.venv/pyvenv.cfg=home = /home/u/private/bin"}, []string{"PATH=/home/u/c/.venv/bin"}, ""},
		{"pyvenv.cfg by VIRTUAL_ENV", []string{"/home/u/c/.venv/bin/", "/home/u/c/.venv/pyvenv.cfg=HOME=/srv/app/bin"}, []string{"VIRTUAL_ENV=/home/u/c/.venv"}, ""},
		{"pyvenv.cfg beside a link on the way", []string{"/home/u/c/run.sh -> fake/bin/run.sh", "/home/u/c/fake/bin/run.sh -> ../../real/run.sh",
			"/home/u/c/fake/pyvenv.cfg=home = /home/u/.ssh"}, nil, "./run.sh"},
		{"the same by its full path", []string{"/home/u/c/run.sh -> fake/bin/run.sh", "/home/u/c/fake/bin/run.sh -> ../../real/run.sh",
			"/home/u/c/fake/pyvenv.cfg=home = /home/u/.ssh"}, nil, "/home/u/c/run.sh"},
		{"pyvenv.cfg by a link", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/c/cfg=home = /home/u/private", "/home/u/c/.venv/pyvenv.cfg -> ../cfg"}, nil, ".venv/bin/tool"},
		{"pyvenv.cfg with a home by a link", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/c/l -> ../.ssh", "/home/u/c/.venv/pyvenv.cfg=home = /home/u/c/l"}, nil, ".venv/bin/tool"},
		{"a magic link", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/proc/self/cwd -> /home/u/private", "/home/u/c/.venv/pyvenv.cfg=home = /proc/self/cwd/bin"}, nil, ".venv/bin/tool"},
		{"a Python in the tree that is a link", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/c/py/bin/python3 -> /home/u/private/bin/tool", "/home/u/c/py/lib/python3.9/os.py=",
			"/home/u/c/.venv/pyvenv.cfg=home = /home/u/c/py/bin"}, nil, ".venv/bin/tool"},
		{"a Python of another checkout", []string{"/home/u/c/.venv/bin/tool -> ../../real/run.sh", "/home/u/private/.git/HEAD=x", "/home/u/private/bin/python3*", "/home/u/private/lib/python3.9/os.py=",
			"/home/u/c/.venv/pyvenv.cfg=home = /home/u/private/bin"}, nil, ".venv/bin/tool"},
		{"the command is a link", []string{"/home/u/c/run.sh -> ../private/bin/tool"}, nil, "./run.sh"},
		{"the command is a link, by its full path", []string{"/home/u/c/run.sh -> /srv/app/bin/tool"}, nil, "/home/u/c/run.sh"},
		{"the command is found in PATH", []string{"/home/u/c/.bin/x -> /srv/app/bin/tool"}, []string{"PATH=/home/u/c/.bin"}, "x"},
		{"a link in a directory in PATH", []string{"/home/u/c/.bin/x -> /home/u/.ssh/id_rsa"}, []string{"PATH=/home/u/c/.bin:/bin"}, ""},
		{"a link in a relative directory in PATH", []string{"/home/u/c/.bin/x -> /srv/app/bin/tool"}, []string{"PATH=.bin:/bin"}, ""},
		{"a directory in PATH that is a link", []string{"/home/u/c/.bin -> /home/u/private/bin"}, []string{"PATH=/home/u/c/.bin:/bin"}, ""},
		{"a directory in PATH below a link", []string{"/home/u/c/l -> /srv/app"}, []string{"PATH=/home/u/c/l/bin:/bin"}, ""},
		{"a directory in PATH by two links", []string{"/home/u/c/l -> m", "/home/u/c/m -> /srv/app"}, []string{"PATH=/home/u/c/l/bin:/bin"}, ""},
		{"GOCACHE", []string{"/home/u/c/l -> /home/u/private"}, []string{"GOCACHE=/home/u/c/l", "PATH=/usr/local/go/bin"}, ""},
		{"XDG_CACHE_HOME", []string{"/home/u/c/go-build -> /home/u/private"}, []string{"XDG_CACHE_HOME=/home/u/c", "PATH=/usr/local/go/bin"}, ""},
		{"GOMODCACHE", []string{"/home/u/c/l -> /home/u/private"}, []string{"GOMODCACHE=/home/u/c/l", "PATH=/usr/local/go/bin"}, ""},
		{"GOPATH's modules", []string{"/home/u/c/go/pkg/mod -> /home/u/private"}, []string{"GOPATH=/home/u/c/go", "PATH=/usr/local/go/bin"}, ""},
		{"GOPATH's programs", []string{"/home/u/c/go/bin -> /home/u/private/bin"}, []string{"GOPATH=/home/u/c/go", "PATH=/home/u/c/go/bin:/bin"}, ""},
		{"JAVA_HOME", []string{"/home/u/c/l -> /home/u/private"}, []string{"JAVA_HOME=/home/u/c/l"}, ""},
		{"GOROOT", []string{"/home/u/c/l -> /srv/app"}, []string{"GOROOT=/home/u/c/l"}, ""},
		{"CONDA_PREFIX", []string{"/home/u/c/l -> /home/u/private"}, []string{"CONDA_PREFIX=/home/u/c/l"}, ""},
		{"VIRTUAL_ENV", []string{"/home/u/c/l -> /home/u/private"}, []string{"VIRTUAL_ENV=/home/u/c/l"}, ""},
		{"a part of a manager's directory", []string{"/home/u/c/cargo/bin/cargo*", "/home/u/c/cargo/registry -> /home/u/private"},
			[]string{"CARGO_HOME=/home/u/c/cargo", "PATH=/home/u/c/cargo/bin"}, ""},
		{"a manager's directory", []string{"/home/u/c/l -> /home/u/private", "/home/u/c/l2/x="}, []string{"PYENV_ROOT=/home/u/c/l", "PATH=/home/u/c/l/bin:/bin"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, where := range []struct{ workdir, dir string }{{"none", "/home/u/c"}, {"ro", "/home/u/c"}, {"overlay", "/home/u/c"}, {"rw", "/home/u/c"}, {"none", "/srv"}, {"ro", "/home/u/c/sub"}} {
				relative := tt.cmd != "" && tt.cmd[0] != '/' || strings.Contains(strings.Join(tt.env, " "), "PATH=.")
				if relative && where.dir != "/home/u/c" {
					continue
				}
				h := hosttest.Debian(t, append(append([]string{}, clone...), tt.extra...)...)
				r := compile(t, h, func(in *view.Input) {
					in.Workdir, in.Dir, in.Env, in.Command = where.workdir, where.dir, environ(append(tt.env, "PATH=/bin")...), tt.cmd
				})
				for _, p := range unseen {
					if r.sees(p) {
						t.Errorf("%v: %s is visible", where, p)
					}
				}
				if len(r.Notices) != 1 || !strings.HasPrefix(r.Notices[0], "not shown: ") {
					t.Errorf("%v: notices %q", where, r.Notices)
				}
				for _, m := range r.Mounts {
					if kindNames[m.Kind] == "link" && hostfs.Under(m.Dst, "/proc") {
						t.Errorf("%v: a link in /proc: %s", where, m.Dst)
					}
				}
			}
		})
	}
}

// What a tree of work is shown of itself is no more than what an installation has, without secrets.
func TestATreeOfWorkShowsLittleOfItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		extra  []string
		env    []string
		cmd    string
		seen   []string
		unseen []string
	}{
		{"a planted pyvenv.cfg", []string{"/srv/c/.git/HEAD=x", "/srv/c/bin/x*", "/srv/c/pyvenv.cfg=home = /usr/bin", "/srv/c/data/list=1"}, nil, "/srv/c/bin/x",
			[]string{"/srv/c/bin/x"}, []string{"/srv/c/data/list"}},
		{"a planted conda-meta", []string{"/srv/c/.git/HEAD=x", "/srv/c/bin/x*", "/srv/c/conda-meta/history=", "/srv/c/data/list=1"}, nil, "/srv/c/bin/x",
			[]string{"/srv/c/bin/x"}, []string{"/srv/c/data/list"}},
		{"lib beside bin", []string{"/srv/c/.git/HEAD=x", "/srv/c/bin/x*", "/srv/c/lib/y=", "/srv/c/data/list=1"}, []string{"PATH=/srv/c/bin"}, "",
			[]string{"/srv/c/bin/x", "/srv/c/lib/y"}, []string{"/srv/c/data/list"}},
		{"lib beside bin, in no checkout", []string{"/srv/c/bin/x*", "/srv/c/lib/y=", "/srv/c/data/list=1"}, nil, "/srv/c/bin/x",
			[]string{"/srv/c/bin/x", "/srv/c/lib/y"}, []string{"/srv/c/data/list"}},
		{"secrets by name", []string{"/home/u/p/.bin/a -> ../.env", "/home/u/p/.bin/b -> ../k/id_rsa", "/home/u/p/.env*", "/home/u/p/k/id_rsa*", "/home/u/p/.bin/.env=1"},
			[]string{"PATH=/home/u/p/.bin:/bin"}, "", []string{"/home/u/p/.bin/a"}, []string{"/home/u/p/.env", "/home/u/p/k/id_rsa", "/home/u/p/.bin/.env"}},
		{"what is no program", []string{"/home/u/p/.bin/a -> ../list", "/home/u/p/list=1"}, []string{"PATH=/home/u/p/.bin:/bin"}, "", nil, []string{"/home/u/p/list"}},
		{"the tree as a directory in PATH", []string{"/home/u/p/.bin -> .", "/home/u/p/list=1"}, []string{"PATH=/home/u/p/.bin:/bin"}, "", nil, []string{"/home/u/p/list"}},
		{"a program of another clone", []string{"/home/u/p/.bin/a -> ../../q/x", "/home/u/q/.git/HEAD=x", "/home/u/q/x*"}, []string{"PATH=/home/u/p/.bin:/bin"}, "", nil, []string{"/home/u/q/x"}},
		{"a clone in a clone", []string{"/home/u/p/.git/HEAD=x", "/home/u/p/in/.git/HEAD=x", "/home/u/p/in/.bin/a -> ../../x", "/home/u/p/x*"}, []string{"PATH=/home/u/p/in/.bin:/bin"}, "",
			nil, []string{"/home/u/p/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := compile(t, hosttest.Debian(t, tt.extra...), func(in *view.Input) {
				in.Workdir, in.Env, in.Command = "none", environ(append(tt.env, "PATH=/bin")...), tt.cmd
			})
			for _, p := range tt.seen {
				if !r.sees(p) {
					t.Errorf("%s is not visible: %q", p, r.Notices)
				}
			}
			for _, p := range tt.unseen {
				if r.sees(p) {
					t.Errorf("%s is visible", p)
				}
			}
		})
	}
}

// What projects and homes really have is shown, without a word.
func TestInstalledToolChainsAreShownByLinksInATreeOfWork(t *testing.T) {
	t.Parallel()
	const (
		python = "/bin/python3.12*"
		mark   = "/lib/python3.12/os.py="
	)
	for _, tt := range []struct {
		name  string
		extra []string
		env   []string
		cmd   string
		seen  []string
	}{
		{"the system's Python", []string{"/home/u/p/.venv/bin/python -> /usr/bin/python3", "/home/u/p/.venv/pyvenv.cfg=home = /usr/bin"}, nil, ".venv/bin/python", nil},
		{"pyenv", []string{"/home/u/p/.venv/bin/python -> /home/u/.pyenv/versions/3.12/bin/python3.12", "/home/u/.pyenv/versions/3.12" + python, "/home/u/.pyenv/versions/3.12" + mark,
			"/home/u/.pyenv/.git/HEAD=x", "/home/u/p/.venv/pyvenv.cfg=home = /home/u/.pyenv/versions/3.12/bin"}, nil, ".venv/bin/python", []string{"/home/u/.pyenv/versions/3.12/lib/python3.12/os.py"}},
		{"uv, through a link of its own", []string{"/home/u/p/.venv/bin/python -> /home/u/.local/share/uv/python/cp-3.12/bin/python3.12",
			"/home/u/.local/share/uv/python/cp-3.12.1" + python, "/home/u/.local/share/uv/python/cp-3.12.1" + mark, "/home/u/.local/share/uv/python/cp-3.12 -> cp-3.12.1",
			"/home/u/p/.venv/pyvenv.cfg=home = /home/u/.local/share/uv/python/cp-3.12/bin"}, nil, ".venv/bin/python", []string{"/home/u/.local/share/uv/python/cp-3.12.1/lib/python3.12/os.py"}},
		{"conda", []string{"/home/u/p/.venv/bin/python -> /home/u/miniconda3/bin/python3.12", "/home/u/miniconda3" + python, "/home/u/miniconda3" + mark,
			"/home/u/p/.venv/pyvenv.cfg=home = /home/u/miniconda3/bin"}, nil, ".venv/bin/python", []string{"/home/u/miniconda3/lib/python3.12/os.py"}},
		{"of a cluster", []string{"/home/u/p/.venv/bin/python -> /apps/py/bin/python3.12", "/apps/py" + python, "/apps/py" + mark,
			"/home/u/p/.venv/pyvenv.cfg=home = /apps/py/bin"}, []string{"VIRTUAL_ENV=/home/u/p/.venv", "PATH=/home/u/p/.venv/bin:/bin"}, "", []string{"/apps/py/lib/python3.12/os.py"}},
		{"a directory of links to it", []string{"/home/u/p/.venv/bin/python -> /apps/bin/python3", "/apps/bin/python3 -> ../py/bin/python3.12", "/apps/py" + python, "/apps/py" + mark,
			"/home/u/p/.venv/pyvenv.cfg=home = /apps/bin"}, nil, ".venv/bin/python", []string{"/apps/py/lib/python3.12/os.py"}},
		{"a virtualenv elsewhere, by a link", []string{"/home/u/p/.venv -> /home/u/.cache/pypoetry/virtualenvs/x", "/home/u/.cache/pypoetry/virtualenvs/x/bin/python -> /usr/bin/python3",
			"/home/u/.cache/pypoetry/virtualenvs/x/pyvenv.cfg=home = /usr/bin", "/home/u/.cache/pypoetry/virtualenvs/x/lib/y="}, []string{"PATH=/home/u/p/.venv/bin:/bin"}, "python",
			[]string{"/home/u/.cache/pypoetry/virtualenvs/x/lib/y"}},
		{"a virtualenv elsewhere", []string{"/home/u/.virtualenvs/x/bin/python -> /usr/bin/python3", "/home/u/.virtualenvs/x/pyvenv.cfg=home = /usr/bin", "/home/u/.virtualenvs/x/lib/y="},
			[]string{"PATH=/home/u/.virtualenvs/x/bin:/bin"}, "python", []string{"/home/u/.virtualenvs/x/lib/y"}},
		{"node_modules/.bin", []string{"/home/u/p/node_modules/.bin/e -> ../e/bin/e.js", "/home/u/p/node_modules/e/bin/e.js*"}, []string{"PATH=/home/u/p/node_modules/.bin:/bin"}, "e",
			[]string{"/home/u/p/node_modules/e/bin/e.js"}},
		{"node_modules above", []string{"/home/u/p/.git/HEAD=x", "/home/u/p/src/node_modules/.bin/e -> ../../../node_modules/e/e.js", "/home/u/p/node_modules/e/e.js*"},
			[]string{"PATH=/home/u/p/src/node_modules/.bin:/bin"}, "", []string{"/home/u/p/node_modules/e/e.js"}},
		{"npm link, in ~/.local", []string{"/home/u/.local/bin/t -> ../lib/node_modules/t/bin/cli", "/home/u/.local/lib/node_modules/t -> /home/u/src/t", "/home/u/src/t/bin/cli*",
			"/home/u/src/t/.git/HEAD=x"}, []string{"PATH=/home/u/.local/bin:/bin"}, "t", []string{"/home/u/src/t/bin/cli"}},
		{"a virtualenv of another checkout, in ~/.local", []string{"/home/u/.local/bin/t -> /home/u/src/t/.venv/bin/t", "/home/u/src/t/.venv/bin/t*", "/home/u/src/t/.venv/lib/y=",
			"/home/u/src/t/.venv/pyvenv.cfg=home = /usr/bin", "/home/u/src/t/.git/HEAD=x"}, []string{"PATH=/home/u/.local/bin:/bin"}, "t", []string{"/home/u/src/t/.venv/lib/y"}},
		{"a checkout by a link outside", []string{"/home/u/now -> p", "/home/u/p/.git/HEAD=x", "/home/u/p/.bin/t -> ../t", "/home/u/p/t*"}, []string{"PATH=/home/u/now/.bin:/bin"}, "t",
			[]string{"/home/u/p/t"}},
		{"~/bin", []string{"/home/u/bin/t -> ../apps/t", "/home/u/apps/t*"}, []string{"PATH=/home/u/bin:/bin"}, "t", []string{"/home/u/apps/t"}},
		{"a JDK by a link", []string{"/home/u/p/jdk -> /opt/jdk", "/opt/jdk/lib/jrt-fs.jar=", "/opt/jdk/bin/java*"}, []string{"JAVA_HOME=/home/u/p/jdk", "PATH=/home/u/p/jdk/bin:/bin"}, "java",
			[]string{"/opt/jdk/lib/jrt-fs.jar"}},
		{"Go's caches in the project", []string{"/home/u/p/.cache/b/x=", "/home/u/p/.cache/m/y=", "/usr/local/go/bin/go*"},
			[]string{"GOCACHE=/home/u/p/.cache/b", "GOMODCACHE=/home/u/p/.cache/m", "PATH=/usr/local/go/bin:/bin"}, "", []string{"/home/u/p/.cache/b/x", "/home/u/p/.cache/m/y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, workdir := range []string{"none", "ro", "overlay", "rw"} {
				r := compile(t, hosttest.Debian(t, tt.extra...), func(in *view.Input) {
					in.Workdir, in.Env, in.Command = workdir, environ(append(tt.env, "PATH=/bin")...), tt.cmd
				})
				for _, p := range tt.seen {
					if !r.sees(p) {
						t.Errorf("%s: %s is not visible", workdir, p)
					}
				}
				if len(r.Notices) > 0 {
					t.Errorf("%s: %q", workdir, r.Notices)
				}
			}
		})
	}
}

// A file that can't be read, or says nonsense, is no reason to say or show anything, and none to fail.
func TestAnOddPyvenvShowsNothing(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"a FIFO": "pyvenv.cfg%", "a directory": "pyvenv.cfg/", "a loop": "pyvenv.cfg -> pyvenv.cfg", "a device": "pyvenv.cfg -> /dev/zero",
		"too large": "pyvenv.cfg=home = /home/u/.ssh\n" + strings.Repeat("#", discover.MaxVenvConfig), "relative": "pyvenv.cfg=home = ../../../.ssh",
		"not there": "pyvenv.cfg=home = /home/u/nope", "too long": "pyvenv.cfg=home = /" + strings.Repeat("b", 300), "NUL": "pyvenv.cfg=home = /home/u/.ssh\x00/x",
		"only the first counts": "pyvenv.cfg=home = /usr/bin\nhome = /home/u/.ssh",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, workdir := range []string{"none", "ro"} {
				r := compile(t, hosttest.Debian(t, "/home/u/p/v/bin/x*", "/home/u/p/v/"+config), func(in *view.Input) { in.Workdir, in.Command = workdir, "v/bin/x" })
				if r.sees("/home/u/.ssh/id") || len(r.Notices) > 0 || !r.sees("/home/u/p/v/bin/x") {
					t.Errorf("%s: notices %q", workdir, r.Notices)
				}
			}
		})
	}
}

// However many links a tree has, what comes of them is bounded.
func TestATreeOfWorkMakesNoLongTable(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 400 {
		n := strings.Repeat("x", 1+i%20) + strings.Repeat("y", 1+i/20)
		lines = append(lines, "/home/u/p/.bin/"+n+" -> ../"+n+"/bin/t", "/home/u/p/"+n+"/bin/t*", "/home/u/p/"+n+"/lib/", "/home/u/p/"+n+"/pyvenv.cfg=")
	}
	r := compile(t, hosttest.Debian(t, lines...), func(in *view.Input) { in.Workdir, in.Env = "none", environ("PATH=/home/u/p/.bin:/bin") })
	if len(r.Mounts) > 600 {
		t.Errorf("%d mounts", len(r.Mounts))
	}
}

// swapped is a host on which a name leads elsewhere when it is opened than when its links are read.
type swapped struct {
	*hosttest.Host
	name, target string
}

func (h *swapped) Resolve(name string) (hostfs.File, error) {
	if name == h.name {
		return h.Host.Resolve(h.target)
	}
	return h.Host.Resolve(name)
}

func (h *swapped) Readlink(name string) (string, error) {
	if name == h.name {
		return "", syscall.EINVAL
	}
	return h.Host.Readlink(name)
}

func TestANameThatWasSwappedIsNotShown(t *testing.T) {
	t.Parallel()
	h := hosttest.Debian(t, append([]string{"/home/u/c/run -> ../private/bin/tool"}, clone...)...)
	r := compile(t, &swapped{h, "/home/u/c/run", "/home/u/private/bin/tool"}, func(in *view.Input) {
		in.Workdir, in.Dir, in.Command = "none", "/home/u/c", "/home/u/c/run"
	})
	if r.sees("/home/u/private/bin/tool") {
		t.Error("it is visible")
	}
}
