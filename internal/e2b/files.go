package e2b

import (
	"compress/flate"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/filetree"
)

func (s *Server) health(c *call) error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// signed finds the sandbox for whose files a URL was signed, by ?signature: whoever has its token signs what may be done with one path, as
// which user, and perhaps until when. Without it, or with a wrong one, there is none.
func (s *Server) signed(r *http.Request) (id string) {
	query := r.URL.Query()
	said := query.Get("signature")
	if said == "" || r.URL.Path != "/files" || r.Header.Get("X-Access-Token") != "" {
		return ""
	}
	operation := "read"
	if r.Method == http.MethodPost {
		operation = "write"
	}
	before, after := query.Get("path")+":"+operation+":"+query.Get("username")+":", ""
	if until := query.Get("signature_expiration"); until != "" {
		at, err := strconv.ParseInt(until, 10, 64)
		if err != nil || time.Now().Unix() > at {
			return ""
		}
		after = ":" + until
	}
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.boxes))
	s.mu.Unlock()
	for _, one := range ids { // all of them, whichever it is
		sum := sha256.Sum256([]byte(before + s.token(one) + after))
		if hmac.Equal([]byte(said), []byte("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))) {
			id = one
		}
	}
	return id
}

// writeInfo is a file that was written.
type writeInfo struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

// plain makes an error one of HTTP.
func plain(err error) error {
	var e *rpcError
	var f *failure
	var damaged flate.CorruptInputError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &e):
		return &failure{e.code.status, e.message}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &damaged):
		return &failure{http.StatusBadRequest, "the body: " + err.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return &failure{http.StatusNotFound, err.Error()}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &failure{http.StatusInsufficientStorage, err.Error()}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &failure{http.StatusForbidden, err.Error()}
	}
	return &failure{rpcErrorOf(err).code.status, err.Error()}
}

// readFile gives a file.
func (s *Server) readFile(c *call) error {
	if err := c.user(); err != nil {
		return plain(err)
	}
	name, err := resolve(c.URL.Query().Get("path"))
	if err != nil {
		return plain(err)
	}
	files := c.box.Files()
	info, err := files.Stat(name)
	if err != nil {
		return plain(err)
	}
	if !info.Mode().IsRegular() {
		return &failure{http.StatusBadRequest, "path " + name + " is not a file"}
	}
	f, err := files.Open(name)
	if err != nil {
		return plain(err)
	}
	defer f.Close()
	filetree.Serve(c.prompt(), c.Request, f, info.ModTime())
	return nil
}

// maxParts is how many files one form has.
const maxParts = 10_000

// writeFiles writes a file of octets, or the files of a form, each under its name or the only one under ?path.
func (s *Server) writeFiles(c *call) error {
	if err := c.user(); err != nil {
		return plain(err)
	}
	for name := range c.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return &failure{http.StatusBadRequest, "metadata of files can't be had from confine serve"}
		}
	}
	kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
	var all []writeInfo
	var err error
	switch kind {
	case "multipart/form-data":
		all, err = s.writeForm(c)
	case "application/octet-stream":
		body := io.Reader(c.patient(s.BodyTime))
		switch c.Header.Get("Content-Encoding") {
		case "", "identity":
		case "gzip":
			if body, err = gzip.NewReader(body); err != nil {
				return &failure{http.StatusBadRequest, "the body is not compressed by gzip"}
			}
		default:
			return &failure{http.StatusUnsupportedMediaType, "the only Content-Encoding is gzip"}
		}
		all, err = c.write(all, c.URL.Query().Get("path"), body)
	default:
		err = &failure{http.StatusUnsupportedMediaType, "files come as multipart/form-data or application/octet-stream"}
	}
	if err != nil {
		return plain(err)
	}
	reply(c.w, http.StatusOK, all)
	return nil
}

func (s *Server) writeForm(c *call) (all []writeInfo, err error) {
	only := c.URL.Query().Get("path")
	r := c.Clone(c.Context())
	r.Body = c.patient(s.BodyTime)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "the form: " + err.Error()}
	}
	for n := 0; ; n++ {
		part, err := form.NextRawPart()
		if err == io.EOF && n > 0 {
			return all, nil
		}
		if err != nil {
			return nil, &failure{http.StatusBadRequest, "the form: " + err.Error()}
		}
		_, words, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		name := words["filename"]
		switch {
		case err != nil || words["name"] != "file":
			return nil, &failure{http.StatusBadRequest, "the form has something that is no file"}
		case n >= maxParts || only != "" && n > 0:
			return nil, &failure{http.StatusBadRequest, "the form has too many files"}
		case only != "":
			name = only
		}
		if all, err = c.write(all, name, part); err != nil {
			return nil, err
		}
	}
}

// write writes a file, with the directories that it needs.
func (c *call) write(all []writeInfo, name string, from io.Reader) ([]writeInfo, error) {
	if name == "" {
		return nil, &failure{http.StatusBadRequest, "a file has no path"}
	}
	name, err := resolve(name)
	if err == nil {
		err = filetree.Write(c.box.Files(), name, 0o644, from)
	}
	return append(all, writeInfo{path.Base(name), "file", name}), err
}
