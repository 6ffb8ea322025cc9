package changes

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/sys/unix"
)

// Diff writes the changes at and below paths, all without paths. A patch is against
// what the real tree has at this moment.
func Diff(w io.Writer, r *Run, paths []string, o DiffOptions) error {
	all, err := r.shown(paths)
	if err != nil {
		return err
	}
	real := r.trees()
	defer real.close()
	for i := range real.roots {
		_, _ = real.open(i) // for looking only, as far as they are there
	}
	outside := (&following{trees: real, m: r.m}).outside
	if o.JSON {
		return r.writeJSON(w, all, outside)
	}
	shown := lines{r, o.From, outside}
	if !o.Patch {
		for _, e := range all {
			if _, err := fmt.Fprintln(w, shown.line(e)); err != nil {
				return err
			}
		}
		if n := r.Truncated(); n > 0 {
			_, err = fmt.Fprintf(w, "… and at least %d more that were not kept\n", n)
		}
		if n := r.Deep(); n > 0 && err == nil {
			_, err = fmt.Fprintf(w, "… and at least %d with paths that are too long to be kept, below %s\n", n, Quote(r.deepIn()))
		}
		return err
	}
	p := &patcher{run: r, lines: &shown, options: o.orDefault(), real: real}
	for i, root := range real.roots {
		if root >= 0 {
			continue
		}
		if _, err := real.open(i); err != nil {
			return r.treeGone(err)
		}
	}
	if p.blobs, err = r.openBlobs(); err != nil {
		return err
	}
	defer unix.Close(p.blobs)
	left := p.options.Total
	for i, e := range all {
		text, err := p.one(e)
		if err != nil {
			return err
		}
		if left -= int64(len(text)); left < 0 {
			_, err := fmt.Fprintf(w, "… and %d more\n", len(all)-i)
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

type patcher struct {
	run     *Run
	lines   *lines
	options DiffOptions
	real    *trees
	blobs   int
}

// side is one side of a change: its text, or why there is none.
type side struct {
	text   []byte
	exists bool
	why    string
}

func (p *patcher) one(e *Entry) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintln(&out, p.lines.line(e))
	if e.Kind == ModeOnly || e.Type != File && e.Was != File {
		return out.Bytes(), nil
	}
	old, err := p.old(e)
	if err != nil {
		return nil, failed("read", p.run.m.Trees[e.Tree].Path+"/"+e.Path, err)
	}
	new := side{}
	if e.now() == File {
		if new, err = p.blob(e); err != nil {
			return nil, failed("read", p.run.path+"/"+blobsName+"/"+e.Blob, err)
		}
	}
	from, to := "/dev/null", "/dev/null"
	if old.exists {
		from = Quote(join2("a", e.Path))
	}
	if new.exists {
		to = Quote(join2("b", e.Path))
	}
	switch why := cmp.Or(old.why, new.why); {
	case why != "":
		fmt.Fprintf(&out, "%s: %s\n", Quote(p.lines.title(e)), why)
	case isBinary(old.text) || isBinary(new.text):
		if !bytes.Equal(old.text, new.text) {
			fmt.Fprintf(&out, "Binary files %s and %s differ\n", from, to)
		}
	default:
		writePatch(&out, from, to, diff.Diff("", old.text, "", new.text))
	}
	return out.Bytes(), nil
}

// writePatch writes what diff.Diff has made, with a head of its own.
func writePatch(out *bytes.Buffer, from, to string, text []byte) {
	at := bytes.Index(text, []byte("\n@@ "))
	if at < 0 {
		return // the two are the same
	}
	hunks, escaped := printable(text[at+1:])
	fmt.Fprintf(out, "diff %s %s\n", from, to)
	if escaped {
		out.WriteString(escapes)
	}
	fmt.Fprintf(out, "--- %s\n+++ %s\n%s", ended(from), ended(to), hunks)
}

// ended is a name of a patch's head: without a tab it would end at its first blank.
func ended(name string) string {
	if strings.Contains(name, " ") {
		name += "\t"
	}
	return name
}

// old is what the tree has. What isn't a regular file is nothing.
func (p *patcher) old(e *Entry) (side, error) {
	dir, name, err := p.real.parent(e.Tree, e.Path)
	if gone(err) || err == unix.ELOOP {
		return side{}, nil
	}
	if err != nil {
		return side{}, err
	}
	n, err := statAt(dir, name)
	if err != nil || n.typ != File {
		return side{}, err
	}
	fd, err := openFile(dir, name)
	switch err {
	case nil:
		return p.read(fd)
	case unix.EACCES:
		return side{exists: true, why: "the real file can't be read"}, nil
	case unix.ENOENT, unix.ESTALE:
		err = nil
	}
	return side{}, err
}

func (p *patcher) blob(e *Entry) (side, error) {
	if e.Unkept != "" {
		return side{exists: true, why: e.Unkept}, nil
	}
	fd, err := openFile(p.blobs, e.Blob)
	if err != nil {
		return side{}, err
	}
	return p.read(fd)
}

func (p *patcher) read(fd int) (side, error) {
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	n, err := statFD(fd)
	if err != nil {
		return side{}, err
	}
	if n.size > p.options.Largest {
		return side{exists: true, why: fmt.Sprintf("%d bytes, more than a patch shows", n.size)}, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, n.size))
	return side{text: text, exists: true}, err
}

// isBinary: as git tells it.
func isBinary(text []byte) bool { return bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 }
