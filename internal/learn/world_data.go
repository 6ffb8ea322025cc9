package learn

// broad are directories that are never granted as a whole because something in them was
// used: they belong to many programs, or to many people. So are "/" and all directories
// directly below it.
var broad = [...]string{
	"/etc", "/home", "/mnt", "/media", "/opt", "/proc", "/root", "/run", "/run/user", "/srv", "/sys", "/dev", "/tmp", "/var",
	"/var/cache", "/var/lib", "/var/log", "/var/run", "/var/spool", "/var/tmp", "/usr/local", "/usr/share", "/etc/ssl", "/etc/ssl/private",
}

// broadHome are the same below a home directory, which is one itself.
var broadHome = [...]string{
	".cache", ".config", ".config/autostart", ".config/systemd", ".config/systemd/user", ".local", ".local/bin", ".local/lib", ".local/share", ".local/state",
	"bin", "Desktop", "Documents", "Downloads", "Library", "Mail", "Music", "Pictures", "Videos", "snap", "src", "go", "Projects", "projects",
}

// secretsOfHost are patterns of what root alone reads, and nobody else is to: those of
// home directories are in package rootfs.
var secretsOfHost = [...]string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers-", "/etc/sudoers.d",
	"/etc/ssh/ssh_host_*_key", "/etc/ssl/private",
}

// trustedOnHost are directories that are never made writable because something was written in
// them: everybody on the host runs what is there, or reads it as configuration. Only root can write to them.
var trustedOnHost = [...]string{
	"/boot", "/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/var/spool/cron", "/var/spool/at", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/systemd",
}

// trustedAtHome are the same below a home directory: programs that are found by their name,
// and what shells, desktops and interpreters take up when they start. What rootfs protects in
// all trees is not repeated here.
var trustedAtHome = [...]string{
	"bin", "go/bin", ".local/bin", ".cargo/bin", ".npm-global/bin", ".npm-packages/bin", ".yarn/bin", ".bun/bin", ".deno/bin", ".pyenv/shims", ".rbenv/shims", ".asdf/shims",
	".bashrc.d", ".zshrc.d", ".oh-my-zsh", ".zsh", ".config/zsh", ".git-templates", ".local/lib",
	".config/plasma-workspace", ".config/sway", ".config/i3", ".config/hypr", ".kde/Autostart",
	".local/share/applications", ".local/share/dbus-1", ".local/share/systemd", ".local/share/kservices5", ".local/share/nvim",
}
