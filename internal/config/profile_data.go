package config

// builtin is a profile that ships. What it says is fixed under its name: a golden
// file and its digest hold it.
type builtin struct {
	name  string
	about string
	says  []line
}

// line is one setting of a built-in profile, and why it is so.
type line struct {
	option string
	words  []string
	why    string
}

// everyProfile is what all built-in profiles say before their own lines. They all protect
// the paths of package protect as well.
var everyProfile = [...]line{
	{"output-limit", []string{"1M"}, "more than a person reads; keeps a runaway print from filling a log"},
	{"disk-limit", []string{"1G"}, "scratch is memory where it is a tmpfs"},
	{"max-files", []string{"262144"}, "empty files cost the kernel memory that no size limit counts"},
	{"grace", []string{"2s"}, "time to write a last line after SIGTERM"},
	{"block-internal", []string{"true"}, "an allowed name must not lead to the host or its cloud's metadata"},
	{"temp-dir", []string{"true"}, "nearly every program wants one"},
	{"keep", []string{"true"}, "who asks for an overlay wants to look at it"},
	{"seccomp", []string{"default"}, "programs run unharmed, the kernel's rarely used calls are gone"},
	{"seccomp-action", []string{"errno"}, "programs probe for calls and take a no"},
	{"isolation", []string{"process"}, "starts in milliseconds"},
	{"deterministic", []string{"false"}, ""},

	{"env", []string{"PATH", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "LANG", "LANGUAGE"}, "how to find programs, how to talk to the terminal"},
	{"env", []string{"CI"}, "programs stop asking questions"},
	{"env", []string{"PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START", "COVERAGE_FILE", "PYENV_ROOT", "PYENV_VERSION", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"}, "Python and its environments"},
	{"env", []string{"NODE_PATH", "NODE_ENV", "NVM_DIR", "NVM_BIN"}, "Node.js"},
	{"env", []string{"JAVA_HOME", "SDKMAN_DIR"}, "Java"},
	{"env", []string{"GOROOT", "GOPATH", "GOFLAGS", "GOTOOLCHAIN"}, "Go"},
	{"env", []string{"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"}, "Rust"},
	{"env", []string{"PERL5LIB", "RUBYLIB", "GEM_HOME", "GEM_PATH"}, "Perl, Ruby"},
	{"env", []string{"ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR"}, "managers of tool versions"},
	{"env", []string{"SOURCE_DATE_EPOCH"}, "reproducible builds"},
	{"env-set", []string{"PYTHONHASHSEED=0"}, "the same order of sets in every run"},
	{"env-set", []string{"PYTHONDONTWRITEBYTECODE=1"}, "no __pycache__ in the tree"},
	{"env-set", []string{"LC_ALL=C.UTF-8"}, "the same sorting and messages everywhere"},
	{"env-set", []string{"TZ=UTC"}, "the same clock everywhere"},
}

// builtins in the order in which they are listed.
var builtins = [...]builtin{
	{"default", "any command: reads the current directory, writes nothing", []line{
		{"time-limit", []string{"30s"}, ""},
		{"cpu-time", []string{"20s"}, ""},
		{"memory-limit", []string{"512M"}, ""},
		{"processes", []string{"32"}, ""},
		{"file-descriptors", []string{"512"}, ""},
		{"workdir", []string{"ro"}, "a command can look at what it is run on"},
		{"etc", []string{"true"}, "programs have their settings there, and many don't start without"},
	}},
	{"permissive", "as default, with room for large programs", []line{
		{"time-limit", []string{"60s"}, ""},
		{"memory-limit", []string{"1G"}, ""},
		{"processes", []string{"256"}, ""},
		{"file-descriptors", []string{"1024"}, ""},
		{"workdir", []string{"ro"}, "a command can look at what it is run on"},
		{"etc", []string{"true"}, "programs have their settings there, and many don't start without"},
	}},
	{"standard", "code that needs no files of the caller's", []line{
		{"time-limit", []string{"30s"}, ""},
		{"cpu-time", []string{"20s"}, ""},
		{"memory-limit", []string{"512M"}, ""},
		{"processes", []string{"64"}, ""},
		{"file-descriptors", []string{"512"}, ""},
		{"cpus", []string{"1"}, "one run doesn't slow down the next"},
		{"workdir", []string{"none"}, "it needs none"},
	}},
	{"strict", "code that nobody trusts", []line{
		{"time-limit", []string{"10s"}, ""},
		{"cpu-time", []string{"10s"}, ""},
		{"memory-limit", []string{"256M"}, ""},
		{"processes", []string{"32"}, ""},
		{"file-descriptors", []string{"128"}, ""},
		{"cpus", []string{"1"}, "one run doesn't slow down the next"},
		{"cpu-limit", []string{"50"}, "the host stays usable"},
		{"workdir", []string{"none"}, "it needs none"},
		{"landlock", []string{"true"}, "should the mount namespace fail, something else has to fail too"},
		{"seccomp", []string{"strict"}, "what a plain program needs, and no more"},
		{"seccomp-action", []string{"kill"}, "a call beyond that is an attack"},
	}},
	{"testing", "a test suite: writes land in an overlay", []line{
		{"time-limit", []string{"30s"}, ""},
		{"cpu-time", []string{"30s"}, ""},
		{"memory-limit", []string{"500M"}, ""},
		{"processes", []string{"256"}, ""},
		{"file-descriptors", []string{"1024"}, ""},
		{"workdir", []string{"overlay"}, "tests write where they stand, and leave nothing"},
		{"etc", []string{"true"}, "programs have their settings there, and many don't start without"},
		{"keep", []string{"false"}, "what tests write is of no use afterwards"},
	}},
	{"development", "working on a project: its tree is writable", []line{
		{"time-limit", []string{"60s"}, ""},
		{"memory-limit", []string{"2G"}, ""},
		{"processes", []string{"512"}, ""},
		{"file-descriptors", []string{"4096"}, ""},
		{"output-limit", []string{"none"}, "a build's log is read in full"},
		{"workdir", []string{"rw"}, "the result is to stay"},
		{"etc", []string{"true"}, "programs have their settings there, and many don't start without"},
		{"home", []string{"true"}, "one's other projects and caches are there; secrets, and most names with a leading dot, are not"},
		{"deny", []string{"secrets"}, "nor in the project itself: .env, keys, tokens"},
		{"allow-network", []string{"localhost", "*.local"}, "one's own services"},
	}},
	{"agent", "tools of an agent: few processes, writes land in an overlay", []line{
		{"time-limit", []string{"60s"}, ""},
		{"cpu-time", []string{"30s"}, ""},
		{"memory-limit", []string{"512M"}, ""},
		{"processes", []string{"10"}, "a shell and its tools; threads count, and Node.js, Java and Go want more"},
		{"file-descriptors", []string{"512"}, ""},
		{"workdir", []string{"overlay"}, "what it wrote is looked at before it counts"},
		{"etc", []string{"true"}, "programs have their settings there, and many don't start without"},
	}},
}

// noProfile is what a policy has that started from no profile: no limit, nothing
// of the caller's visible, and no weaker isolation.
var noProfile = [...]line{
	{"workdir", []string{"none"}, ""},
	{"block-internal", []string{"true"}, ""},
	{"seccomp", []string{"default"}, ""},
	{"seccomp-action", []string{"errno"}, ""},
	{"isolation", []string{"process"}, ""},
}
