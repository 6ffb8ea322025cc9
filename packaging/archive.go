package main

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// archive writes a tar, of Windows a zip, of one directory that can be copied to any prefix.
func (r *release) archive(p platform) error {
	name := "confine-" + r.version + "-" + p.os + "-" + p.arch
	if p.os == "windows" {
		return r.make(name+".zip", func(w io.Writer) error { return r.zip(w, name, r.files(p)) })
	}
	return r.make(name+".tar.gz", func(w io.Writer) error { return r.tar(w, name, r.files(p)) })
}

func (r *release) tar(w io.Writer, dir string, files []file) error {
	compressed := gzip.NewWriter(w)
	t := tar.NewWriter(compressed)
	for _, f := range files {
		h := &tar.Header{Name: dir + "/" + f.to, Mode: int64(f.mode), ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.isLink {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.from
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			continue
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h.Size = int64(len(text))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), compressed.Close())
}

func (r *release) zip(w io.Writer, dir string, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: dir + "/" + f.to, Method: zip.Deflate, Modified: r.time}
		h.SetMode(f.mode)
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}
