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

// needless are files that C libraries look at for what doesn't matter inside.
func needless(p string) bool {
	switch p {
	case "/etc/locale.alias": // other names of languages; LC_ALL is C.UTF-8
		return true
	}
	return false
}
