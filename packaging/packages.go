package main

import (
	"io"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a deb and an rpm. Both need nothing of any other package.
func (r *release) packages(p platform) error {
	for _, packager := range []interface {
		nfpm.Packager
		ConventionalExtension() string
	}{deb.Default, rpm.DefaultRPM} {
		info := nfpm.WithDefaults(r.info(p, packager.ConventionalExtension()))
		if err := r.make(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

// info is what nfpm makes a package of.
func (r *release) info(p platform, kind string) *nfpm.Info {
	info := &nfpm.Info{
		Name: "confine", Arch: p.arch, Platform: p.os, Version: r.version, MTime: r.time,
		Section: "utils", Priority: "optional", License: "Apache-2.0", Homepage: "https://github.com/confine-run/confine",
		Maintainer:  "confine-run (https://github.com/confine-run/confine)",
		Description: "runs any command under a policy, and says what was enforced\nLimits on time, memory, processes, files, disk, output, network, system calls and privileges:\nno root, no daemon.",
	}
	info.RPM.Compression = "zstd" // Fedora's, and of everything since RHEL 8
	info.RPM.Summary = "Runs any command under a policy, and says what was enforced"
	info.RPM.BuildHost = "localhost" // instead of whoever builds
	places := map[string]string{}
	kinds := map[string]string{"share/doc/confine/LICENSE": files.TypeRPMLicense, "share/doc/confine/README.md": files.TypeRPMDoc}
	if kind == ".deb" {
		// What Debian's policy and its zsh call them.
		places["share/doc/confine/LICENSE"], places["share/zsh/site-functions/_confine"] = "share/doc/confine/copyright", "share/zsh/vendor-completions/_confine"
		kinds = nil
	}
	for _, f := range r.files(p) {
		to := f.to
		if other := places[f.to]; other != "" {
			to = other
		}
		c := &files.Content{Source: f.from, Destination: "/usr/" + to, Type: kinds[f.to], FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.time, Owner: "root", Group: "root"}}
		if f.isLink {
			c.Type = files.TypeSymlink
		}
		info.Contents = append(info.Contents, c)
	}
	if kind == ".deb" {
		own := func(name string) string { return filepath.Join(r.root, "packaging", name) }
		info.Contents = append(info.Contents, &files.Content{
			Source: own("apparmor"), Destination: "/usr/share/confine/apparmor", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.time, Owner: "root", Group: "root"},
		})
		info.Scripts.PostInstall, info.Scripts.PostRemove = own("postinst"), own("postrm")
	}
	return info
}
