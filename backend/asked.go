package backend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// Asked is the ledger of a policy before anything is decided: what it asks for, in its words. The words for overlays and
// for the filter of system calls are found with what they mean on this host.
func Asked(q *config.Policy) plan.Ledger {
	l := plan.Ledger{}
	l.Ask(status.Containment, "all")
	l.Ask(status.Privileges, "none")
	l.Ask(status.Filesystem, filesystemAsked(&q.Filesystem))
	for _, o := range []struct {
		c     status.Capability
		asked bool
		words string
	}{
		{status.WallTime, q.TimeLimit > 0, config.FormatDuration(q.TimeLimit)},
		{status.CPUTime, q.CPUTime > 0, config.FormatDuration(q.CPUTime)},
		{status.CPURate, q.CPULimit > 0, strconv.Itoa(q.CPULimit) + "%"},
		{status.CPUs, q.CPUs > 0, strconv.Itoa(q.CPUs)},
		{status.Memory, q.MemoryLimit > 0, config.FormatSize(q.MemoryLimit)},
		{status.Tasks, q.Processes > 0, strconv.FormatInt(q.Processes, 10)},
		{status.FileDescriptors, q.FileDescriptors > 0, strconv.FormatInt(q.FileDescriptors, 10)},
		{status.FileSize, q.MaxFileSize > 0, config.FormatSize(q.MaxFileSize)},
		{status.Disk, q.DiskLimit > 0, config.FormatSize(q.DiskLimit)},
		{status.Files, q.MaxFiles > 0, strconv.FormatInt(q.MaxFiles, 10)},
		{status.Output, q.OutputLimit > 0, config.FormatSize(q.OutputLimit)},
	} {
		if o.asked {
			l.Ask(o.c, o.words)
		} else {
			l.Unasked(o.c, "none", "")
		}
	}
	switch n := &q.Network; {
	case n.All && n.Log:
		l.Ask(status.Network, "all, logged")
	case n.All:
		l.Unasked(status.Network, "all", "the caller's network")
	case len(n.Allow) == 0:
		l.Ask(status.Network, "none")
	default:
		l.Ask(status.Network, strings.Join(n.Allow, ","))
	}
	if len(q.Network.Publish) > 0 {
		l.Ask(status.Publish, strings.Join(q.Network.Publish, ","))
	}
	if q.Filesystem.Rootfs != "" {
		l.Ask(status.Rootfs, q.Filesystem.Rootfs)
	}
	if sized := sizedMounts(q); len(sized) > 0 {
		l.Ask(status.MountSize, strings.Join(sized, ","))
	}
	if q.CgroupParent != "" {
		l.Ask(status.Cgroup, q.CgroupParent)
	}
	return l
}

// sizedMounts are the mounts that have a size of their own.
func sizedMounts(q *config.Policy) (words []string) {
	for _, m := range q.Filesystem.Mounts {
		if m.Size > 0 {
			words = append(words, m.Dst+":"+config.FormatSize(m.Size))
		}
	}
	return words
}

func filesystemAsked(f *config.Filesystem) string {
	words := []string{"workdir " + f.Workdir}
	if f.Virtual {
		words = append(words, "virtual")
	}
	for _, of := range []struct {
		word  string
		paths []string
	}{{"read", f.AllowRead}, {"write", f.AllowWrite}, {"deny", f.Deny}} {
		if n := len(of.paths); n > 0 {
			words = append(words, fmt.Sprintf("%s %d", of.word, n))
		}
	}
	return strings.Join(words, ", ")
}
