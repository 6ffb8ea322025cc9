package rootfs

import (
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

func TestToolChains(t *testing.T) {
	for _, c := range []struct {
		name   string
		extra  []string
		env    []string
		cmd    string
		want   []string
		envOut []string // name, value
		unseen []string
	}{
		{"pyenv", []string{"/home/u/.pyenv/shims/python3*", "/home/u/.pyenv/versions/"}, []string{"PATH=/home/u/.pyenv/shims:/usr/bin"}, "",
			[]string{"/home/u/.pyenv", "ro /home/u/.pyenv"}, []string{"PYENV_ROOT", "/home/u/.pyenv", "PATH", "/home/u/.pyenv/shims:/usr/bin"}, nil},
		{"pyenv elsewhere", []string{"/srv/py/shims/"}, []string{"PATH=/srv/py/shims:/usr/bin", "PYENV_ROOT=/srv/py"}, "",
			[]string{"/srv/py", "ro /srv/py"}, []string{"PYENV_ROOT", "/srv/py"}, nil},
		{"of another user, out of reach", nil, []string{"PATH=/root/.pyenv/shims:/usr/bin"}, "",
			[]string{"/root/.pyenv", "", "/root", ""}, []string{"PATH", "/usr/bin", "PYENV_ROOT", ""}, nil},
		{"cargo and rustup, without credentials", []string{"/home/u/.cargo/bin/rustup*", "/home/u/.cargo/bin/cargo -> rustup",
			"/home/u/.cargo/registry/", "/home/u/.cargo/credentials.toml=s", "/home/u/.cargo/config.toml=s", "/home/u/.rustup/toolchains/"},
			[]string{"PATH=/home/u/.cargo/bin"}, "",
			[]string{"/home/u/.cargo/bin", "ro /home/u/.cargo/bin", "/home/u/.cargo/registry", "ro /home/u/.cargo/registry",
				"/home/u/.rustup", "ro /home/u/.rustup"}, []string{"CARGO_HOME", "/home/u/.cargo", "RUSTUP_HOME", "/home/u/.rustup"},
			[]string{"/home/u/.cargo/credentials.toml", "/home/u/.cargo/config.toml"}},
		{"cargo in the system, without credentials", []string{"/usr/local/cargo/bin/cargo*", "/usr/local/cargo/credentials.toml=s", "/usr/local/rustup/"},
			[]string{"PATH=/usr/local/cargo/bin", "CARGO_HOME=/usr/local/cargo", "RUSTUP_HOME=/usr/local/rustup"}, "",
			[]string{"/usr/local/cargo", "", "/usr/local/cargo/credentials.toml", "mask"},
			[]string{"CARGO_HOME", "/usr/local/cargo", "RUSTUP_HOME", "/usr/local/rustup"}, nil},
		{"nvm", []string{"/home/u/.nvm/versions/node/v20/bin/node*", "/home/u/.npmrc=token"}, []string{"PATH=/home/u/.nvm/versions/node/v20/bin"}, "",
			[]string{"/home/u/.nvm", "ro /home/u/.nvm"}, nil, []string{"/home/u/.npmrc"}},
		{"go, with warm caches", []string{"/usr/local/go/bin/go*", "/home/u/.cache/go-build/", "/home/u/go/pkg/mod/", "/home/u/go/bin/"},
			[]string{"PATH=/usr/local/go/bin:/home/u/go/bin"}, "",
			[]string{"/home/u/.cache/go-build", "overlay /home/u/.cache/go-build", "/home/u/go/pkg/mod", "ro /home/u/go/pkg/mod", "/home/u/go/bin", "ro /home/u/go/bin"},
			[]string{"GOCACHE", "/home/u/.cache/go-build", "GOMODCACHE", "/home/u/go/pkg/mod", "GOPATH", "/home/u/go"}, nil},
		{"caches without go", []string{"/home/u/.cache/go-build/"}, []string{"PATH=/usr/bin"}, "", []string{"/home/u/.cache/go-build", ""}, []string{"GOCACHE", ""}, nil},
		{"a virtualenv", []string{"/home/u/v/bin/python -> python3", "/home/u/v/bin/python3 -> /home/u/.pyenv/versions/3.12/bin/python3.12",
			"/home/u/.pyenv/versions/3.12/bin/python3.12*", "/home/u/v/pyvenv.cfg=include-system-site-packages = false\nhome = /home/u/.pyenv/versions/3.12/bin\n"},
			[]string{"PATH=/home/u/v/bin:/usr/bin", "VIRTUAL_ENV=/home/u/v"}, "",
			[]string{"/home/u/v", "ro /home/u/v", "/home/u/.pyenv", "ro /home/u/.pyenv"}, []string{"VIRTUAL_ENV", "/home/u/v"}, nil},
		{"a virtualenv in the project, by command", []string{"/home/u/p/.venv/bin/python -> /opt/py/bin/python3", "/opt/py/bin/python3*", "/opt/py/lib/python3.12/os.py=",
			"/home/u/p/.venv/pyvenv.cfg=home = /opt/py/bin"}, []string{"PATH=/usr/bin"}, ".venv/bin/python",
			[]string{"/opt/py", "ro /opt/py", "/home/u/p/.venv", ""}, nil, nil},
		{"a virtualenv of an interpreter at home", []string{"/home/u/v/pyvenv.cfg=home = /home/u/python/bin", "/home/u/python/lib/python3.12/os.py=", "/home/u/python/bin/python3*", "/home/u/v/bin/"},
			[]string{"PATH=/home/u/v/bin"}, "", []string{"/home/u/python", "ro /home/u/python"}, nil, nil},
		{"conda", []string{"/home/u/conda/envs/e/conda-meta/", "/home/u/conda/envs/e/bin/", "/home/u/conda/envs/e/.condarc=s"},
			[]string{"PATH=/home/u/conda/envs/e/bin", "CONDA_PREFIX=/home/u/conda/envs/e"}, "",
			[]string{"/home/u/conda/envs/e", "ro /home/u/conda/envs/e", "/home/u/conda/envs/e/.condarc", "mask"}, []string{"CONDA_PREFIX", "/home/u/conda/envs/e"}, nil},
		{"JAVA_HOME", []string{"/opt/jdk/lib/", "/opt/jdk/bin/"}, []string{"PATH=/usr/bin", "JAVA_HOME=/opt/jdk"}, "",
			[]string{"/opt/jdk", "ro /opt/jdk"}, []string{"JAVA_HOME", "/opt/jdk"}, nil},
		{"JAVA_HOME that is no tool chain", nil, []string{"PATH=/usr/bin", "JAVA_HOME=/home/u"}, "", []string{"/home/u", "scratch"}, []string{"JAVA_HOME", ""}, nil},
		{"an installation outside of the home", []string{"/opt/x/bin/", "/opt/x/share/"}, []string{"PATH=/opt/x/bin"}, "", []string{"/opt/x", "ro /opt/x"}, nil, nil},
		{"only its executables, if it is none", []string{"/opt/x/bin/", "/opt/x/config/secret=1"}, []string{"PATH=/opt/x/bin"}, "",
			[]string{"/opt/x", "", "/opt/x/bin", "ro /opt/x/bin"}, nil, []string{"/opt/x/config/secret"}},
		{"bin at home", []string{"/home/u/bin/", "/home/u/lib/"}, []string{"PATH=/home/u/bin"}, "", []string{"/home/u", "scratch", "/home/u/bin", "ro /home/u/bin"}, nil, nil},
		{"links of ~/.local/bin", []string{"/home/u/.local/bin/black -> ../share/pipx/venvs/black/bin/black", "/home/u/.local/share/pipx/venvs/black/bin/black*",
			"/home/u/.local/bin/tool -> /home/u/apps/tool.sh", "/home/u/apps/tool.sh*", "/home/u/apps/secret=1",
			"/home/u/.local/lib/python3.11/site-packages/", "/home/u/.local/share/keyrings/k=1"}, []string{"PATH=/home/u/.local/bin"}, "",
			[]string{"/home/u/.local/bin", "ro /home/u/.local/bin", "/home/u/.local/share/pipx", "ro /home/u/.local/share/pipx",
				"/home/u/apps/tool.sh", "ro /home/u/apps/tool.sh", "/home/u/.local/lib/python3.11", "ro /home/u/.local/lib/python3.11"}, nil,
			[]string{"/home/u/apps/secret", "/home/u/.local/share/keyrings/k"}},
		{"npm's links in a node at home", []string{"/home/u/node/bin/npm -> ../lib/node_modules/npm/cli.js", "/home/u/node/lib/node_modules/npm/cli.js*", "/home/u/node/x=1"},
			[]string{"PATH=/home/u/node/bin"}, "", []string{"/home/u/node/bin", "ro /home/u/node/bin", "/home/u/node/lib", "ro /home/u/node/lib"}, nil, []string{"/home/u/node/x"}},
		{"entries that are too broad", []string{"/bin2/"}, []string{"PATH=/:/home/u:/tmp:/home:/usr/bin:/etc"}, "",
			[]string{"/home/u", "scratch", "/home", ""}, []string{"PATH", "/usr/bin"}, []string{"/home/u/.ssh/id", "/etc/shadow"}},
		{"an installation in the root", []string{"/data/bin/", "/data/lib/"}, []string{"PATH=/data/bin"}, "", []string{"/data", "", "/data/bin", "ro /data/bin"}, nil, nil},
		{"PATH in its order, without what isn't there", []string{"/usr/games/"}, []string{"PATH=/bin::/nope:/usr/games:.:/bin:src:/usr/bin/true:/usr/bin"}, "", nil,
			[]string{"PATH", "/bin:/usr/games:.:src:/usr/bin"}, nil},
		{"PATH through a link", []string{"/big/x/bin/", "/l -> big/x"}, []string{"PATH=/l/bin"}, "", []string{"/l", "link big/x", "/big/x/bin", "ro /big/x/bin"}, []string{"PATH", "/l/bin"}, nil},
		{"the command, by its path", []string{"/srv/a/tool*", "/srv/a/secret=1"}, []string{"PATH=/usr/bin"}, "/srv/a/tool",
			[]string{"/srv/a/tool", "ro /srv/a/tool"}, nil, []string{"/srv/a/secret"}},
		{"the command, found in PATH, installed elsewhere", []string{"/usr/bin/tool -> /opt/t-1/bin/tool", "/opt/t-1/bin/tool*", "/opt/t-1/lib/"}, []string{"PATH=/usr/bin"}, "tool",
			[]string{"/opt/t-1", "ro /opt/t-1"}, nil, nil},
		{"a command that isn't there", nil, []string{"PATH=/usr/bin"}, "/no/such", nil, nil, nil},
		{"a directory as command", nil, []string{"PATH=/usr/bin"}, "/home/u/.ssh", []string{"/home/u/.ssh", ""}, nil, nil},
		{"nix", []string{"/nix/store/h-sys/bin/x*", "/run/current-system -> /nix/store/h-sys"}, []string{"PATH=/run/current-system/bin"}, "",
			[]string{"/nix/store", "ro /nix/store", "/run/current-system", "link /nix/store/h-sys"}, []string{"PATH", "/run/current-system/bin"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hosttest.Debian(t, c.extra...)
			h.Other = true
			r := compile(t, h, func(in *view.Input) { in.Env, in.Command = environ(c.env...), c.cmd })
			r.want(c.want...)
			for i := 0; i < len(c.envOut); i += 2 {
				if got := r.Env[c.envOut[i]]; got != c.envOut[i+1] {
					t.Errorf("%s=%s, want %s", c.envOut[i], got, c.envOut[i+1])
				}
			}
			for _, p := range c.unseen {
				if r.sees(p) {
					t.Errorf("%s is visible", p)
				}
			}
		})
	}
}

// Go compiles nothing with a build cache that it can't write to.
func TestGoHasABuildCacheWithoutOverlays(t *testing.T) {
	h := hosttest.Debian(t, "/usr/local/go/bin/go*", "/home/u/.cache/go-build/00/x=1", "/home/u/go/pkg/mod/", "/l -> /home/u/.cache/go-build")
	const cache, modules = "/home/u/.cache/go-build", "/home/u/go/pkg/mod"
	of := func(pairs ...string) func(*view.Input) {
		return func(in *view.Input) { in.Env = environ(append(pairs, "PATH=/usr/local/go/bin")...) }
	}
	bare := func(in *view.Input) { of()(in); in.Bare = true }
	r := compile(t, h, bare)
	r.want(cache, "", modules, "ro "+modules)
	if v, there := r.Env["GOCACHE"]; there || !slices.Equal(r.Caches, []string{"GOCACHE"}) || r.Env["GOMODCACHE"] != modules {
		t.Errorf("GOCACHE=%s, %q", v, r.Caches)
	}
	// One that may be written to is as good as it ever was.
	r = compile(t, h, func(in *view.Input) { bare(in); in.AllowWrite = []string{cache} })
	r.want(cache, "rw "+cache)
	if r.Env["GOCACHE"] != cache || len(r.Caches) != 0 {
		t.Errorf("%v %q", r.Env, r.Caches)
	}
	// An overlay that only the attempt shows to be none says what is to be instead.
	r = compile(t, h, of("GOCACHE=/l"))
	for _, m := range r.Mounts {
		if m.Dst == cache && m.Text != "GOCACHE=/l\x00GOCACHE=/tmp/go-cache" || m.Dst == modules && m.Text != "" {
			t.Errorf("%s: %q", m.Dst, m.Text)
		}
	}
	if r.want(cache, "overlay "+cache); r.Env["GOCACHE"] != "/l" || len(r.Caches) != 0 {
		t.Errorf("%v %q", r.Env, r.Caches)
	}
	r = compile(t, h, func(in *view.Input) { of()(in); in.TempDir = false })
	for _, m := range r.Mounts {
		if m.Dst == cache && m.Text != "" {
			t.Errorf("nowhere to go, and %q", m.Text)
		}
	}
	// And where something is mounted in it, that is known before.
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo(cache+"/00"))
	r = compile(t, h, func(in *view.Input) { of()(in); in.OwnUserns = true })
	if r.want(cache, "ro "+cache); r.Env["GOCACHE"] != "/tmp/go-cache" {
		t.Errorf("GOCACHE=%s", r.Env["GOCACHE"])
	}
}

func TestToolChainsTakeNothingFromTheWorkdir(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.venv/bin/python*", "/home/u/p/.venv/pyvenv.cfg=home = /usr/bin")
	for _, mode := range []string{"rw", "overlay"} {
		r := compile(t, h, func(in *view.Input) {
			in.Workdir, in.Env = mode, environ("PATH=/home/u/p/.venv/bin:/usr/bin", "VIRTUAL_ENV=/home/u/p/.venv")
		})
		r.want("/home/u/p/.venv", "")
		if r.Env["VIRTUAL_ENV"] != "/home/u/p/.venv" {
			t.Error("VIRTUAL_ENV is not set")
		}
	}
}

func TestWhatCantBeReachedIsNamed(t *testing.T) {
	h := hosttest.Debian(t)
	h.Other = true
	r := compile(t, h, func(in *view.Input) { in.Env = environ("PATH=/root/.pyenv/shims:/usr/bin") })
	for _, rule := range r.Rules {
		if rule.Path == "/root/.pyenv/shims" && rule.Access == view.RuleHidden {
			return
		}
	}
	t.Errorf("no rule says so: %v", r.Rules)
}

func TestMountsForAnotherUserAreOptional(t *testing.T) {
	h := hosttest.Debian(t, "/opt/x/bin/", "/opt/x/lib/")
	h.Other = true
	r := compile(t, h, func(in *view.Input) { in.Env = environ("PATH=/opt/x/bin:/usr/bin") })
	seen := map[string]bool{}
	for _, m := range r.Mounts {
		seen[m.Dst] = m.Optional
	}
	if !seen["/opt/x"] || seen["/usr"] {
		t.Errorf("optional: /opt/x %v, /usr %v", seen["/opt/x"], seen["/usr"])
	}
}

// A home directory that is shown can't be written to; npm and Go do nothing without a cache that can.
func TestCachesAreEmptyWhereTheirOwnAreReadOnly(t *testing.T) {
	for _, c := range []struct {
		name        string
		extra       []string
		change      func(*view.Input)
		golang, npm string
	}{
		{"a private home", nil, nil, "", ""},
		{"a home that is shown", nil, func(in *view.Input) { in.Home = true }, "", ""},
		{"caches that are there", []string{"/home/u/.npm/_cacache/", "/home/u/.cache/go-build/"}, func(in *view.Input) { in.Home = true },
			"/home/u/.cache/go-build", ""},
		{"by a link", []string{"/data/", "/home/u/.cache -> /data"}, func(in *view.Input) { in.AllowRead = []string{"/data", "/home/u/.cache"} }, "/tmp/go-cache", ""},
		{"a home that is an overlay", nil, func(in *view.Input) { in.Home, in.EphemeralHome = true, true }, "", ""},
		{"a home that is writable", nil, func(in *view.Input) { in.Home, in.AllowWrite = true, []string{"/home/u"} }, "", ""},
		{"one cache that is writable", []string{"/home/u/.npm/"}, func(in *view.Input) { in.Home, in.AllowWrite = true, []string{"/home/u/.npm"} }, "", ""},
		{"elsewhere", nil, func(in *view.Input) {
			in.Home, in.Env = true, environ("PATH=/usr/local/go/bin", "npm_config_cache=/tmp/n", "GOCACHE=off")
		}, "", ""},
		{"elsewhere, and shown", []string{"/data/"}, func(in *view.Input) {
			in.AllowRead, in.Env = []string{"/data"}, environ("PATH=/usr/local/go/bin", "npm_config_cache=/data/n")
		}, "", "/tmp/npm-cache"},
		{"no tool chain", nil, func(in *view.Input) { in.Home, in.Env = true, environ("PATH=/bin") }, "", ""},
		{"Landlock alone", nil, func(in *view.Input) { in.Home, in.Bare = true, true }, "", ""},
		{"nowhere to go", nil, func(in *view.Input) { in.Home, in.TempDir = true, false }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hosttest.Debian(t, append(c.extra, "/usr/local/go/bin/go*", "/usr/local/go/bin/npm*")...)
			r := compile(t, h, func(in *view.Input) {
				in.Env = environ("PATH=/usr/local/go/bin")
				if c.change != nil {
					c.change(in)
				}
			})
			if r.Env["GOCACHE"] != c.golang || r.Env["npm_config_cache"] != c.npm {
				t.Errorf("GOCACHE=%s npm_config_cache=%s", r.Env["GOCACHE"], r.Env["npm_config_cache"])
			}
		})
	}
}

// With an empty cache npm asks for a newer npm at every start.
func TestNpmLooksForNoNewsOfItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*view.Input)
		want   string
	}{
		{"a private home", func(*view.Input) {}, "false"},
		{"a cache that can only be read", func(in *view.Input) { in.Home = true }, "false"},
		{"the caller's cache", func(in *view.Input) { in.AllowWrite, in.Home = []string{"/home/u/.npm"}, true }, ""},
		{"as the caller says", func(in *view.Input) {
			in.Env = environ("PATH=/usr/local/npm/bin", "npm_config_update_notifier=true")
		}, ""},
		{"no npm", func(in *view.Input) { in.Env = environ("PATH=/bin") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := compile(t, hosttest.Debian(t, "/usr/local/npm/bin/npm*", "/home/u/.npm/"), func(in *view.Input) {
				in.Env = environ("PATH=/usr/local/npm/bin")
				tt.change(in)
			})
			if got := r.Env["npm_config_update_notifier"]; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
