package main

import (
	"fmt"
	"os"
	"os/exec"
)

// makeDisk has mmdebstrap make the userland, once for each version of its packages.
func makeDisk(c *cache, a *archive) (path string, err error) {
	var versions []version
	for _, name := range disk.packages {
		versions = append(versions, a.found[name])
	}
	name, err := digest(disk.release, disk.suites, disk.packages, disk.hooks, versions)
	if err != nil {
		return "", err
	}
	return c.get("disks", name+".ext2", func(path string) error {
		args := []string{"--quiet", "--variant=minbase", "--architectures=amd64", "--format=ext2"}
		for _, p := range disk.packages {
			args = append(args, "--include="+p)
		}
		for _, h := range disk.hooks {
			args = append(args, "--customize-hook="+h)
		}
		args = append(args, disk.release, path)
		for _, s := range disk.suites {
			args = append(args, a.source(s))
		}
		cmd := exec.Command("mmdebstrap", args...)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return unavailable{fmt.Errorf("mmdebstrap: %w\n%s", err, text)}
		}
		return nil
	})
}
