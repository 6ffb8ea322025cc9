package learn

// obeyedOnHost are directories that are never made writable because something was written in
// them: what is put there, everybody on the host runs or goes by. For root, that is.
var obeyedOnHost = [...]string{
	"/boot", "/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/var/spool/cron", "/var/spool/at", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/systemd",
}

// obeyedAtHome are the same below a home directory: programs that are found by their name,
// and what shells, desktops and interpreters take up when they start. What rootfs protects in
// all trees is not repeated here.
var obeyedAtHome = [...]string{
	"bin", "go/bin", ".local/bin", ".cargo/bin", ".npm-global/bin", ".npm-packages/bin", ".yarn/bin", ".bun/bin", ".deno/bin", ".pyenv/shims", ".rbenv/shims", ".asdf/shims",
	".bashrc.d", ".zshrc.d", ".oh-my-zsh", ".zsh", ".config/zsh", ".git-templates", ".local/lib",
	".config/plasma-workspace", ".config/sway", ".config/i3", ".config/hypr", ".kde/Autostart",
	".local/share/applications", ".local/share/dbus-1", ".local/share/systemd", ".local/share/kservices5", ".local/share/nvim",
}
