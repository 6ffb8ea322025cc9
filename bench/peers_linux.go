package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
)

// confined is argv run by confine with these options.
func (b *bench) confined(options string, argv ...string) command {
	return command{argv: confineWords(b.confine, options, argv)}
}

func confineWords(binary, options string, argv []string) []string {
	words := append([]string{binary}, strings.Fields(options)...)
	return append(append(words, "--"), argv...)
}

// bwrapped is argv run by bwrap in full confinement, with what confine's profile
// "standard" shows: system, private /tmp, own /proc and /dev. extra comes after.
func (b *bench) bwrapped(extra []string, argv ...string) command {
	words := append(b.bwrapLinks(), "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--tmpfs", "/tmp")
	return command{argv: append(append(words, extra...), argv...)}
}

// bwrapLinks is what both begin with.
func (b *bench) bwrapLinks() []string {
	words := []string{b.bwrap, "--unshare-all", "--new-session", "--die-with-parent", "--dev", "/dev", "--proc", "/proc"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(dir); err == nil {
			words = append(words, "--symlink", to, dir)
		}
	}
	return words
}

// mountForMount is bwrap again, now with a mount for each one that confine makes
// in this run, masks of /proc and parts of /etc included.
func (b *bench) mountForMount(options string, argv ...string) (command, error) {
	words := append([]string{b.confine, "explain", "--json"}, strings.Fields(options)...)
	cmd := exec.Command(words[0], append(append(words[1:], "--"), argv...)...)
	cmd.Env, cmd.Dir = b.env, b.work
	text, err := cmd.Output()
	if err != nil {
		return command{}, err
	}
	var plan struct {
		Paths []struct{ Path, Access string }
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return command{}, err
	}
	bwrap := b.bwrapLinks()
	for _, p := range plan.Paths {
		bwrap = append(bwrap, bwrapMount(p.Path, p.Access)...)
	}
	return command{argv: append(bwrap, argv...)}, nil
}

// bwrapMount is one line of confine's plan in bwrap's words.
func bwrapMount(path, access string) []string {
	info, err := os.Stat(path)
	switch {
	case path == "/proc" || path == "/dev" || path == "/dev/shm" || path == "/etc":
		return nil // there already, or no mount
	case access == "private":
		return []string{"--tmpfs", path}
	case err != nil:
		return nil // not on this host: confine leaves it out as well
	case access == "hidden" && info.IsDir():
		return []string{"--tmpfs", path}
	case access == "hidden":
		return []string{"--ro-bind", "/dev/null", path}
	}
	return []string{"--ro-bind", path, path}
}
