package confine

import (
	"strconv"
	"strings"
)

// Validate checks a policy that was built by hand. Resolve and Profile give none
// but valid ones. Paths must be absolute.
func (p *Policy) Validate() error {
	r := &Resolved{Policy: *p}
	for i := range options {
		o := &options[i]
		if o.Run {
			continue
		}
		for _, w := range o.words(r) {
			if _, err := o.canonical(place{}, w); err != nil {
				s := said{option: o, where: "policy"}
				return s.blame(w, err)
			}
		}
	}
	return p.conflicts()
}

// leastMemory is what execve of a small static program takes, and some more.
const leastMemory = 1 << 20

// conflicts are demands that can't both be met. None is dropped in silence.
func (p *Policy) conflicts() error {
	n, f := &p.Network, &p.Filesystem
	switch {
	case p.MemoryLimit > 0 && p.MemoryLimit < leastMemory:
		return &UsageError{Msg: "memory-limit " + strconv.Quote(FormatSize(p.MemoryLimit)) + " is less than any program needs to start", Hint: "the least is " + FormatSize(leastMemory)}
	case n.All && len(n.Deny) > 0:
		return wholeNetwork("deny-network", n.Deny[0])
	case n.All && len(n.Ports) > 0:
		return wholeNetwork("allow-port")
	case n.All && n.MaxBytes > 0:
		return wholeNetwork("network-bytes")
	case n.All && n.MaxConnections > 0:
		return wholeNetwork("network-connections")
	case f.Virtual && len(f.Mounts) == 0 && f.Rootfs == "":
		return &UsageError{Msg: "virtual-fs shows nothing but mounts, and there are none", Hint: "add --mount SRC:DST"}
	}
	sized := 0
	for i, m := range f.Mounts {
		if m.Size > 0 {
			if sized++; sized > maxTmpfs {
				return &UsageError{Msg: "there are more than " + strconv.Itoa(maxTmpfs) + " mounts of tmpfs", Hint: "make directories in one of them"}
			}
		}
		for _, earlier := range f.Mounts[:i] {
			if m.Dst == earlier.Dst {
				return &UsageError{Msg: "mounts " + strconv.Quote(earlier.String()) + " and " + strconv.Quote(m.String()) + " have the same destination"}
			}
		}
	}
	for i, a := range n.Publish {
		for _, earlier := range n.Publish[:i] {
			port, _, _ := strings.Cut(a, ":")
			if other, _, _ := strings.Cut(earlier, ":"); port == other {
				return &UsageError{Msg: "publish " + strconv.Quote(earlier) + " and " + strconv.Quote(a) + " want the same port outside"}
			}
		}
	}
	for _, req := range p.Require {
		name, _, _ := strings.Cut(req, "=")
		for _, partial := range p.AllowPartial {
			if name == partial {
				return &UsageError{Msg: "require and allow-partial both name " + strconv.Quote(name), Hint: "keep one of them"}
			}
		}
	}
	return nil
}

// wholeNetwork is an option that says something of single hosts, beside the caller's
// network as it is.
func wholeNetwork(option string, word ...string) error {
	subject := option
	for _, w := range word {
		subject += " " + strconv.Quote(w)
	}
	return &UsageError{
		Msg:  subject + " can't be enforced on the caller's own network, which \"--allow-network all\" gives",
		Hint: "name the hosts that may be reached, or drop it with --" + option + " none",
	}
}

// check looks at everything together, at last, and notes what is surprising.
func (r *Resolved) check() error {
	if err := r.Policy.conflicts(); err != nil {
		return err
	}
	in, p := &r.Invocation, &r.Policy
	switch {
	case in.JSON && in.TTY == "always":
		return &UsageError{Msg: "json captures the streams, so the command can't have a terminal", Hint: "drop --json or --tty always"}
	case in.Report != "" && in.Report == in.Events:
		return &UsageError{Msg: "report and events would both write to " + strconv.Quote(in.Report), Hint: "name two places"}
	}
	if p.Network.All && len(p.Network.Allow) > 0 {
		r.Notices = append(r.Notices, "the network is allowed as a whole, so naming "+strconv.Quote(p.Network.Allow[0])+" narrows nothing")
	}
	if p.Filesystem.Keep && !p.hasOverlay() && r.asked("keep") {
		r.Notices = append(r.Notices, nothingToKeep)
	}
	return nil
}

const nothingToKeep = "there is no overlay, so there is nothing to keep (keep)"

// asked: somebody said it, and no profile.
func (r *Resolved) asked(option string) bool {
	said := r.Origins[option]
	return len(said) > 0 && !strings.HasPrefix(said[len(said)-1].Source, "profile ")
}

func (p *Policy) hasOverlay() bool {
	for _, m := range p.Filesystem.Mounts {
		if m.Mode == "overlay" {
			return true
		}
	}
	return p.Filesystem.Workdir == "overlay" || p.Filesystem.EphemeralHome || len(p.Filesystem.Overlay) > 0
}
