package rootfs

// chain is a manager of tool chains, or one tool chain, with a directory of its
// own. It counts as used when an entry of PATH lies in that directory.
type chain struct {
	name string
	env  string   // variable that says where its directory is; set inside, too
	home string   // where it is otherwise, below the home directory
	show []string // what of it is shown; nil is all of it
	hide []string // what is not, where all of it is shown or it is visible anyway
	with string   // another one that it needs
}

// chains: what a package manager installs is shown, what it logs in with never.
var chains = [...]chain{
	{name: "asdf", env: "ASDF_DATA_DIR", home: ".asdf"},
	{name: "bun", env: "BUN_INSTALL", home: ".bun", show: []string{"bin", "install"}},
	{name: "cargo", env: "CARGO_HOME", home: ".cargo", show: []string{"bin", "git", "registry"},
		hide: []string{"config", "config.toml", "credentials", "credentials.toml"}, with: "rustup"},
	{name: "coursier", home: ".local/share/coursier"},
	{name: "deno", env: "DENO_INSTALL", home: ".deno"},
	{name: "dotnet", env: "DOTNET_ROOT", home: ".dotnet"},
	{name: "fnm", env: "FNM_DIR", home: ".local/share/fnm"},
	{name: "ghcup", home: ".ghcup"},
	{name: "go", env: "GOPATH", home: "go", show: []string{"bin"}},
	{name: "jenv", env: "JENV_ROOT", home: ".jenv"},
	{name: "juliaup", home: ".juliaup"},
	{name: "local", home: ".local", show: []string{"bin"}},
	{name: "mise", env: "MISE_DATA_DIR", home: ".local/share/mise"},
	{name: "nodenv", env: "NODENV_ROOT", home: ".nodenv"},
	{name: "nvm", env: "NVM_DIR", home: ".nvm", hide: []string{".npmrc"}},
	{name: "opam", env: "OPAMROOT", home: ".opam"},
	{name: "perlbrew", env: "PERLBREW_ROOT", home: "perl5/perlbrew"},
	{name: "phpenv", env: "PHPENV_ROOT", home: ".phpenv"},
	{name: "pipx", env: "PIPX_HOME", home: ".local/share/pipx"},
	{name: "plenv", env: "PLENV_ROOT", home: ".plenv"},
	{name: "pnpm", env: "PNPM_HOME", home: ".local/share/pnpm"},
	{name: "pyenv", env: "PYENV_ROOT", home: ".pyenv"},
	{name: "rbenv", env: "RBENV_ROOT", home: ".rbenv"},
	{name: "rubygems", home: ".gem", show: []string{"ruby"}},
	{name: "rustup", env: "RUSTUP_HOME", home: ".rustup"},
	{name: "rvm", env: "rvm_path", home: ".rvm"},
	{name: "sdkman", env: "SDKMAN_DIR", home: ".sdkman", show: []string{"bin", "candidates", "src", "var"}},
	{name: "swiftly", home: ".local/share/swiftly"},
	{name: "uv", home: ".local/share/uv", show: []string{"python", "tools"}},
	{name: "volta", env: "VOLTA_HOME", home: ".volta"},
}

// installations are variables that name one installed tool chain.
var installations = [...]string{"CONDA_PREFIX", "GOROOT", "JAVA_HOME", "VIRTUAL_ENV"}

// prefixSigns: a directory with bin and one of these beside it is what a
// program was installed to, and its files are found relative to it.
var prefixSigns = [...]string{"lib", "lib64", "libexec", "share", "pkg", "jre", "jars", "conda-meta"}

// environments are files that a virtualenv, or a conda environment, has at its top.
var environments = [...]string{"pyvenv.cfg", "conda-meta/history"}

// landmarks are files by which an installed tool chain is known, in what it was installed to.
// One component may end in a pattern.
var landmarks = [...]string{
	"pyvenv.cfg",
	"conda-meta/history",
	"lib/python3*/os.py",
	"lib64/python3*/os.py",
	"lib/pypy3*/os.py",
	"lib-python/3/os.py", // PyPy before 3.9
	"include/node/node.h",
	"lib/jrt-fs.jar",
	"jre/lib/rt.jar",
	"src/runtime/runtime.go",
	"lib/rustlib/components",
	"lib/ocaml/stdlib.cma",
}

// parts are what is shown of an installation in a tree of work.
var parts = [...]string{"bin", "sbin", "lib", "lib64", "libexec", "include", "share", "etc", "conf", "jre", "jars", "pkg", "ssl",
	"conda-meta", "condabin", "x86_64-conda-linux-gnu", "aarch64-conda-linux-gnu", "pyvenv.cfg", "VERSION", "release"}

// pythons are how the names of Python's executables begin.
var pythons = [...]string{"python", "pypy", "graalpy"}
