package rootfs

// Protected is a path that stays as it is even in a writable tree.
type Protected struct{ Path, Reason string }

const (
	whyGit    = "git runs what it says"
	whyShell  = "shells run it when they start, or enter the directory"
	whyEditor = "editors run what it says"
	whyCI     = "the CI service runs what it says, with its secrets"
	whyAgent  = "coding agents run what it says"
	whyPolicy = "it is the policy of later runs"
	whyTool   = "package managers take sources and scripts from it"
)

// DefaultProtect gives the paths, relative to each writable tree, that programs
// outside would obey later. It is a function because few runs need the list.
func DefaultProtect() []Protected {
	return []Protected{
		{"confine.toml", whyPolicy},
		{".git/config", whyGit},
		{".git/config.worktree", whyGit},
		{".git/hooks", whyGit},
		{".git/commondir", "git takes config and hooks from where it points"},
		{".gitmodules", "git takes sources from where it points"},
		{".envrc", whyShell},
		{".bashrc", whyShell},
		{".bash_profile", whyShell},
		{".bash_login", whyShell},
		{".bash_logout", whyShell},
		{".bash_aliases", whyShell},
		{".profile", whyShell},
		{".zshrc", whyShell},
		{".zshenv", whyShell},
		{".zprofile", whyShell},
		{".zlogin", whyShell},
		{".zlogout", whyShell},
		{".kshrc", whyShell},
		{".mkshrc", whyShell},
		{".cshrc", whyShell},
		{".tcshrc", whyShell},
		{".login", whyShell},
		{".inputrc", whyShell},
		{".config/fish", whyShell},
		{".config/autostart", "desktops run it when they start"},
		{".config/systemd", "systemd runs it"},
		{".pam_environment", whyShell},
		{".xprofile", whyShell},
		{".xsession", whyShell},
		{".xinitrc", whyShell},
		{".ssh", "ssh lets in and runs what it says"},
		{".gitconfig", whyGit},
		{".config/git", whyGit},
		{".gdbinit", "gdb runs it"},
		{".mise.toml", whyShell},
		{"mise.toml", whyShell},
		{".vscode", whyEditor},
		{".idea", whyEditor},
		{".fleet", whyEditor},
		{".zed", whyEditor},
		{".devcontainer", whyEditor},
		{".devcontainer.json", whyEditor},
		{".vim", whyEditor},
		{".vimrc", whyEditor},
		{".exrc", whyEditor},
		{".nvimrc", whyEditor},
		{".nvim.lua", whyEditor},
		{".config/nvim", whyEditor},
		{".emacs", whyEditor},
		{".emacs.d", whyEditor},
		{".dir-locals.el", whyEditor},
		{".dir-locals-2.el", whyEditor},
		{".sublime-project", whyEditor},
		{".mcp.json", whyAgent},
		{".claude", whyAgent},
		{".cursor", whyAgent},
		{".codex", whyAgent},
		{".gemini", whyAgent},
		{".github/workflows", whyCI},
		{".github/actions", whyCI},
		{".gitlab-ci.yml", whyCI},
		{".circleci", whyCI},
		{".travis.yml", whyCI},
		{".drone.yml", whyCI},
		{".woodpecker.yml", whyCI},
		{".woodpecker", whyCI},
		{".buildkite", whyCI},
		{".gitea/workflows", whyCI},
		{".forgejo/workflows", whyCI},
		{".cirrus.yml", whyCI},
		{".semaphore", whyCI},
		{".teamcity", whyCI},
		{"Jenkinsfile", whyCI},
		{"azure-pipelines.yml", whyCI},
		{"bitbucket-pipelines.yml", whyCI},
		{"appveyor.yml", whyCI},
		{".pre-commit-config.yaml", whyGit},
		{".npmrc", whyTool},
		{".yarnrc.yml", whyTool},
		{".pypirc", whyTool},
	}
}
