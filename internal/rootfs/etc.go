package rootfs

import (
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/view"
)

// maxNameService bounds what is copied of the caller's resolv.conf and hosts.
const maxNameService = 256 << 10

// ownEtc writes the files of /etc that are about users and names. They tell
// nothing about the host.
func (c *system) ownEtc() {
	c.file("/etc/passwd", c.passwd())
	c.file("/etc/group", c.group())
	c.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n")
	for _, n := range c.names() {
		c.file(n.path, n.text)
	}
	what := "a chosen part"
	if len(c.Instead) > 0 {
		what = "what every user may read, and no secrets"
		c.file("/etc/machine-id", machineID+"\n")
	}
	c.Rule("/etc", view.RuleRead, "system: "+what+"; passwd, group, hosts, hostname, nsswitch.conf and resolv.conf are the run's own")
}

// machineID says nothing of the host. Programs that use D-Bus want one.
const machineID = "636f6e66696e65000000000000000000"

type nameFile struct{ path, text string }

// names are the files that say who the host is and where others are.
func (c *system) names() [3]nameFile {
	host := c.hostname()
	hosts := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 " + host + "\n"
	resolv := "" // without a network nobody answers; a resolver that is told of none asks 127.0.0.1 and is refused at once
	if c.In.NetworkAll {
		if text, err := c.Host.ReadFile("/etc/hosts", maxNameService); err == nil {
			hosts = text
		}
		resolv, _ = c.Host.ReadFile("/etc/resolv.conf", maxNameService)
	}
	if c.In.Resolver != "" {
		resolv = "nameserver " + c.In.Resolver + "\n"
	}
	return [...]nameFile{{"/etc/hostname", host + "\n"}, {"/etc/hosts", hosts}, {"/etc/resolv.conf", resolv}}
}

func (c *system) hostname() string {
	if h := field(c.In.Hostname); h != "" {
		return h
	}
	return "localhost"
}

// field makes text fit for a file of lines and colons.
func field(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == ':' || r == ',' || r == '#' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

const nobody = 65534

func (c *system) user() string {
	if name := field(c.In.UserName); name != "" && name != "root" && name != "nobody" {
		return name
	}
	return "user"
}

func (c *system) passwd() string {
	home := strings.NewReplacer(":", "", "\n", "").Replace(c.HomeEnv)
	gid := strconv.FormatUint(uint64(c.In.GID), 10)
	rootGID, rootHome := "0", "/root"
	if c.In.UID == 0 {
		rootGID, rootHome = gid, home
	}
	s := "root:x:0:" + rootGID + "::" + rootHome + ":/bin/sh\n"
	if c.In.UID != 0 && c.In.UID != nobody {
		s += c.user() + ":x:" + strconv.FormatUint(uint64(c.In.UID), 10) + ":" + gid + "::" + home + ":/bin/sh\n"
	}
	if c.In.UID == nobody {
		return s + "nobody:x:65534:" + gid + "::" + home + ":/bin/sh\n"
	}
	return s + "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
}

func (c *system) group() string {
	s := "root:x:0:\n"
	if c.In.GID != 0 && c.In.GID != nobody {
		s += c.user() + ":x:" + strconv.FormatUint(uint64(c.In.GID), 10) + ":\n"
	}
	return s + "nogroup:x:65534:\n"
}
