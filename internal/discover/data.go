package discover

// chain is a manager of tool chains, or one tool chain, with a directory of its
// own. It counts as used when an entry of PATH lies in that directory.
type chain struct {
	Name string
	env  string   // variable that says where its directory is; set inside, too
	Home string   // where it is otherwise, below the home directory
	Show []string // what of it is shown; nil is all of it
	Hide []string // what is not, where all of it is shown or it is visible anyway
	with string   // another one that it needs
}

// Chains: what a package manager installs is shown, what it logs in with never.
var Chains = [...]chain{
	{Name: "asdf", env: "ASDF_DATA_DIR", Home: ".asdf"},
	{Name: "bun", env: "BUN_INSTALL", Home: ".bun", Show: []string{"bin", "install"}},
	{Name: "cargo", env: "CARGO_HOME", Home: ".cargo", Show: []string{"bin", "git", "registry"},
		Hide: []string{"config", "config.toml", "credentials", "credentials.toml"}, with: "rustup"},
	{Name: "coursier", Home: ".local/share/coursier"},
	{Name: "deno", env: "DENO_INSTALL", Home: ".deno"},
	{Name: "dotnet", env: "DOTNET_ROOT", Home: ".dotnet"},
	{Name: "fnm", env: "FNM_DIR", Home: ".local/share/fnm"},
	{Name: "ghcup", Home: ".ghcup"},
	{Name: "go", env: "GOPATH", Home: "go", Show: []string{"bin"}},
	{Name: "jenv", env: "JENV_ROOT", Home: ".jenv"},
	{Name: "juliaup", Home: ".juliaup"},
	{Name: "local", Home: ".local", Show: []string{"bin"}},
	{Name: "mise", env: "MISE_DATA_DIR", Home: ".local/share/mise"},
	{Name: "nodenv", env: "NODENV_ROOT", Home: ".nodenv"},
	{Name: "nvm", env: "NVM_DIR", Home: ".nvm", Hide: []string{".npmrc"}},
	{Name: "opam", env: "OPAMROOT", Home: ".opam"},
	{Name: "perlbrew", env: "PERLBREW_ROOT", Home: "perl5/perlbrew"},
	{Name: "phpenv", env: "PHPENV_ROOT", Home: ".phpenv"},
	{Name: "pipx", env: "PIPX_HOME", Home: ".local/share/pipx"},
	{Name: "plenv", env: "PLENV_ROOT", Home: ".plenv"},
	{Name: "pnpm", env: "PNPM_HOME", Home: ".local/share/pnpm"},
	{Name: "pyenv", env: "PYENV_ROOT", Home: ".pyenv"},
	{Name: "rbenv", env: "RBENV_ROOT", Home: ".rbenv"},
	{Name: "rubygems", Home: ".gem", Show: []string{"ruby"}},
	{Name: "rustup", env: "RUSTUP_HOME", Home: ".rustup"},
	{Name: "rvm", env: "rvm_path", Home: ".rvm"},
	{Name: "sdkman", env: "SDKMAN_DIR", Home: ".sdkman", Show: []string{"bin", "candidates", "src", "var"}},
	{Name: "swiftly", Home: ".local/share/swiftly"},
	{Name: "uv", Home: ".local/share/uv", Show: []string{"python", "tools"}},
	{Name: "volta", env: "VOLTA_HOME", Home: ".volta"},
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
