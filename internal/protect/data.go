package protect

// Path is a path that stays as it is even in a writable tree.
type Path struct{ Path, Reason string }

const (
	whyGit    = "git runs what it says"
	whyShell  = "shells run it when they start, or enter the directory"
	whyEditor = "editors run what it says"
	whyCI     = "the CI service runs what it says, with its secrets"
	whyAgent  = "coding agents run what it says"
	whyPolicy = "it is the policy of later runs"
	whyTool   = "package managers take sources and scripts from it"
	whyBuild  = "build tools run what it says"
	whyClient = "programs run, or send to, what it says"
	whyTold   = "coding agents take it for what their user wants"
	whyStart  = "interpreters and debuggers run it when they start in the directory"
	whySwitch = "what stands in PATH for a tool runs the one that it names or points to"
	whyPath   = "shells find programs in it, and desktops what opens a file"
)

// library has usercustomize.py and *.pth of each version of Python, which run before any
// program in it.
const library = "~/.local/lib"

// Default gives the paths, relative to each writable tree, that programs
// outside would run or read later; with "~/", in the home directory only: what a shell, a prompt, an editor, a
// debugger, an interpreter, a version manager or a coding agent goes by when it is only started there,
// and what package managers do. Not what only a build, a test or a linter of the project reads, which is the project's own
// (pnpm-workspace.yaml, flake.nix, .eslintrc, Vagrantfile); nor what a program asks about when it has
// changed (.rvmrc); nor what names no more than a version (.nvmrc, .python-version). What doesn't exist is kept
// so: no other name is one that builds and tests make at the top of a project. It is a function because few runs need the list.
func Default() []Path {
	all := make([]Path, 0, 440)
	of := func(reason string, paths ...string) {
		for _, p := range paths {
			all = append(all, Path{p, reason})
		}
	}
	of(whyPolicy, "confine.toml")
	of(whyGit, ".git/config", ".git/config.worktree", ".git/hooks")
	of("git takes config and hooks from where it points", ".git/commondir")
	of("git takes sources from where it points", ".gitmodules")
	of("git takes sources from, and sends to, where it points", ".git/remotes", ".git/branches")
	of("Mercurial runs what it says", ".hg/hgrc", ".hg/hgrc-not-shared")
	of("Mercurial takes settings from where it points", ".hg/sharedpath")
	of("Mercurial runs what it says", ".hgrc", ".config/hg")
	of("Jujutsu runs what it says", ".jj/repo/config.toml", ".jj/workspace-config.toml", ".jjconfig.toml", ".config/jj")
	of("Jujutsu starts git, which runs what it says", ".jj/repo/store/git/config", ".jj/repo/store/git/hooks", ".jj/repo/store/git_target")
	of("Python takes its modules from where it points", "pyvenv.cfg")
	of(whyShell,
		".envrc", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".config/bash_completion",
		".local/share/bash-completion", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zshrc.zwc", ".zshenv.zwc",
		".zprofile.zwc", ".zlogin.zwc", ".zlogout.zwc", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".config/fish",
		".config/nushell", ".config/powershell", ".config/direnv", ".config/mise")
	of("all that systemd starts for the user has its environment from it", ".config/environment.d")
	of("desktops run it when they start", ".config/plasma-workspace")
	of("the message bus starts what it says", ".local/share/dbus-1/services")
	of("desktops run it when they start", ".config/autostart")
	of("systemd runs it", ".config/systemd", ".local/share/systemd/user")
	of(whyShell, ".pam_environment", ".xprofile", ".xsession", ".xsessionrc", ".xinitrc")
	of("ssh lets in and runs what it says", ".ssh")
	of(whyGit, ".gitconfig", ".config/git")
	of("Sapling runs what it says", ".sl/config")
	of("Pijul runs what it says", ".pijul/config")
	of("Darcs runs what it says", "_darcs/prefs/defaults")
	of("repo runs it, whatever it is asked for", ".repo/repo")
	of("gdb runs it", ".gdbinit", ".gdbearlyinit", ".config/gdb")
	of("lldb runs it", ".lldbinit")
	of("pdb runs it", ".pdbrc")
	of(whyPath, ".local/bin", ".local/share/applications")
	of(whyClient, ".tmux.conf", ".config/tmux/tmux.conf", ".screenrc", ".forward")
	of("rlogin and rsh let in who it says", ".rhosts")
	of("sshd lets in who it says", ".shosts")
	of("services with Kerberos let in who it says", ".k5login")
	of("ksu lets in who it says", ".k5users")
	of(whyClient,
		".procmailrc", ".qmail", ".mailfilter", ".mailcap", ".lessfilter", ".lesskey", ".config/lesskey", ".less", ".config/less", ".psqlrc",
		".sqliterc", ".config/sqlite3", ".my.cnf", ".curlrc", ".config/curlrc", ".wgetrc", "ansible.cfg", ".ansible.cfg")
	of(whyStart,
		".irbrc", "irb.rc", "_irbrc", "$irbrc", ".pryrc", ".config/irb", ".config/pry", ".byebugrc", ".rdbgrc", ".rdbgrc.rb", ".perldb",
		"perldb.ini", ".Rprofile")
	of("R has its environment from it, and with that its profile", ".Renviron")
	of("R restores it, and runs .First of it", ".RData")
	of("rbenv gives Ruby its environment from it, and with that what it loads", ".rbenv-vars")
	of("ctags, which editors start, writes to the file that it names", ".ctags", ".ctags.d", "ctags.d", "~/.config/ctags")
	of("gtags, which editors start, loads the parsers that it names", "gtags.conf", "obj/gtags.conf", "~/.globalrc")
	of(whyStart, ".ghci", ".ocamlinit", ".octaverc", "startup.m", ".iex.exs", ".erlang", ".psysh.php")
	of(whySwitch,
		"rust-toolchain", "rust-toolchain.toml", "lean-toolchain", "global.json", ".bazeliskrc", ".bazelversion", "tools/bazel", ".tool-versions",
		".prototools", ".corepack.env")
	of(whyShell,
		".direnv", ".mise.toml", ".mise.local.toml", ".mise", ".rtx.toml", "mise.toml", "mise.local.toml", "mise/config.toml",
		"mise/config.local.toml", "mise/conf.d", ".config/mise.toml", ".config/mise.local.toml")
	of(whyEditor,
		".vscode", ".idea", ".fleet", ".zed", ".helix", ".gitpod.yml", ".idx", ".replit", ".codesandbox", ".devcontainer", ".devcontainer.json",
		".vim", ".vimrc", ".gvimrc", ".config/vim", ".exrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".emacs", ".emacs.el", ".emacs.elc",
		".config/emacs", ".emacs.d", ".dir-locals.el", ".dir-locals-2.el")
	of(whyAgent,
		".mcp.json", ".claude", ".cursor", ".codex", ".gemini", ".opencode", "opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".qwen",
		".amazonq", ".kiro", ".roo", ".roomodes", ".kilocode", ".kilocodemodes", ".windsurf", ".continue", ".continuerc.json", ".aider.conf.yml",
		".aider.model.settings.yml", ".pi", ".grok", ".iflow", ".qoder", ".openhands", ".factory", ".agents", ".agent", ".github/hooks",
		".github/mcp.json", ".github/agents", ".github/chatmodes", ".github/prompts", ".github/skills")
	of(whyTold,
		"AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", "CRUSH.md", "WARP.md", "IFLOW.md",
		".github/copilot-instructions.md", ".github/instructions", ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".rules", ".junie",
		".trae", ".augment", ".augment-guidelines", ".goosehints")
	of(whyCI,
		".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".travis.yml", ".drone.yml", ".drone.yaml", ".drone.jsonnet",
		".drone.star", ".woodpecker.yml", ".woodpecker.yaml", ".woodpecker", ".buildkite", "buildkite.yml", "buildkite.yaml", "buildkite.json",
		"buildkite/pipeline.yml", "buildkite/pipeline.yaml", "buildkite/pipeline.json", ".gitea/workflows", ".forgejo/workflows", ".cirrus.yml",
		".cirrus.yaml", ".cirrus.star", ".semaphore", ".teamcity", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml",
		".appveyor.yml", ".zuul.yaml", ".zuul.d", "zuul.yaml", "zuul.d", ".build.yml", ".builds", "buildspec.yml", "cloudbuild.yaml",
		"cloudbuild.yml", "cloudbuild.json", ".tekton", ".taskcluster.yml")
	of(whyGit,
		".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", "hk.pkl", "hk.local.pkl", "hk.toml", "hk.yaml", "hk.yml", "hk.json",
		".config/hk.pkl", ".config/hk.local.pkl", ".husky", ".huskyrc", ".huskyrc.js", ".huskyrc.json", ".huskyrc.yaml", ".huskyrc.yml",
		"husky.config.js", ".config/husky", ".overcommit.yml", ".local-overcommit.yml", ".lefthook", ".lefthook-local")
	of(whyTool,
		".npmrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".pypirc", ".yarnrc", ".pnpmfile.cjs", ".pnpmfile.mjs", ".bunfig.toml",
		"bunfig.toml", "uv.toml", "nuget.config", "NuGet.config", "NuGet.Config", ".gemrc", ".bundle/config", "pdm.toml", ".pixi/config.toml",
		".pip/pip.conf", ".config/pip/pip.conf", ".condarc")
	// Not the directories: what builds leave in them is nobody's settings.
	of(whyBuild,
		".cargo/config.toml", ".cargo/config", ".m2/settings.xml", ".mvn/extensions.xml", ".mvn/settings.xml", ".mvn/maven-user.properties",
		".mvn/jvm.config", ".mvn/maven.config", ".mvn/wrapper/maven-wrapper.properties", ".gradle/gradle.properties", ".gradle/init.gradle",
		".gradle/init.gradle.kts", "gradle/wrapper/gradle-wrapper.properties", ".gradle/init.d", ".bazelrc")
	// In a project these are its own programs, or what a test or a cache has made.
	of(whyPath, "~/bin", "~/.cargo/bin")
	of(whyShell,
		"~/.cargo/env", "~/.cargo/env.fish", "~/.cargo/env.nu", "~/.config/starship.toml", "~/.config/xonsh", "~/.config/elvish", "~/.xonshrc",
		"~/.local/share/fish/vendor_conf.d", "~/.local/share/fish/vendor_functions.d", "~/.local/share/fish/vendor_completions.d",
		"~/.local/share/nushell/vendor/autoload", "~/.asdfrc")
	of(whyEditor, "~/.local/share/nvim/site", "~/.ideavimrc", "~/.config/ideavim", "~/.nanorc", "~/.config/nano")
	of(whyStart,
		"~/.ipython/profile_default/startup", "~/.ipython/profile_default/ipython_config.py", "~/.ipython/profile_default/ipython_config.json",
		"~/.julia/config", "~/.config/erlang", "~/.config/psysh", "~/.psysh", "~/.ghc/ghci.conf", "~/.config/ocaml", "~/.tclshrc", "~/.wishrc",
		"~/.guile", "~/.sbclrc")
	of("what plays sound loads the libraries that it names", "~/.asoundrc", "~/.config/alsa")
	of(whyTool,
		"~/.config/uv", "~/.config/pnpm", "~/.config/gem", "~/.nuget/NuGet", "~/.config/NuGet", "~/.conda/.condarc", "~/.conda/condarc",
		"~/.conda/condarc.d", "~/.config/conda", "~/.mambarc")
	of(whyBuild, "~/.mavenrc", "~/.m2/extensions.xml")
	of("interpreters load it when they start", library)
	of(whyClient,
		"~/.gnupg/gpg.conf", "~/.gnupg/gpg-agent.conf", "~/.gnupg/scdaemon.conf", "~/.gnupg/gpg.conf-2", "~/.gnupg/gpg.conf-2.2",
		"~/.gnupg/gpg.conf-2.4", "~/.gnupg/gpg.conf-2.5", "~/.gnupg/dirmngr.conf", "~/.gnupg/gpgsm.conf", "~/.gnupg/common.conf", "~/.aws/config",
		"~/.aws/credentials", "~/.aws/cli/alias", "~/.kube/config", "~/.kube/kuberc", "~/.docker/config.json", "~/.docker/cli-plugins")
	return append(all, lefthook()...)
}

// lefthook reads each form that it knows, under these names.
func lefthook() (all []Path) {
	for _, name := range [...]string{"lefthook", ".lefthook", ".config/lefthook"} {
		for _, end := range [...]string{".yml", ".yaml", ".toml", ".json", ".jsonc"} {
			all = append(all, Path{name + end, whyGit}, Path{name + "-local" + end, whyGit})
		}
	}
	return all
}
