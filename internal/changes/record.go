package changes

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A record is written and read change by change: encoded, the names of a hostile run
// are five times as long, and never all in memory.

// summary counts the changes.
func (m *manifest) summary() (s Summary) {
	for i := range m.Changes {
		s.add(&m.Changes[i].Change)
	}
	return s
}

// head is m with f done to its names, and without the changes.
func (m *manifest) head(f func(string) (string, error)) (*manifest, error) {
	n := *m
	n.Command = make([]string, len(m.Command))
	n.Protect = make([]string, len(m.Protect))
	n.Trees = make([]keptTree, len(m.Trees))
	n.Changes = []Entry{}
	var err error
	for i, s := range m.Command {
		if n.Command[i], err = f(s); err != nil {
			return nil, err
		}
	}
	for i, s := range m.Protect {
		if n.Protect[i], err = f(s); err != nil {
			return nil, err
		}
	}
	for i, t := range m.Trees {
		n.Trees[i] = t
		if n.Trees[i].Path, err = f(t.Path); err != nil {
			return nil, err
		}
		if n.Trees[i].DeepIn, err = f(t.DeepIn); err != nil {
			return nil, err
		}
	}
	return &n, nil
}

func (m *manifest) write(w io.Writer) error {
	f := func(s string) (string, error) { return encode(s), nil }
	head, err := m.head(f)
	if err != nil {
		return err
	}
	sum := m.summary()
	head.Summary = &sum
	return writeList(w, head, len(m.Changes), func(i int) (any, error) { return m.Changes[i].mapped(f) })
}

// writeList writes a document whose last field is an empty list, with the n values
// in that list.
func writeList(w io.Writer, document any, n int, value func(i int) (any, error)) error {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return err
	}
	const end = "]}\n"
	head, ok := bytes.CutSuffix(one.Bytes(), []byte(end))
	if !ok {
		return fmt.Errorf("the list isn't the last field")
	}
	out := bufio.NewWriterSize(w, 64<<10)
	_, _ = out.Write(head) // Flush has its error
	for i := range n {
		v, err := value(i)
		if err != nil {
			return err
		}
		one.Reset()
		if i > 0 {
			one.WriteByte(',')
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		if _, err := out.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, _ = out.WriteString(end)
	return out.Flush()
}

// parseManifest reads a whole record; parseHead what is before the changes, if the
// summary is there.
func parseManifest(r io.Reader) (*manifest, error) { return parseRecord(r, false) }
func parseHead(r io.Reader) (*manifest, error)     { return parseRecord(r, true) }

func parseRecord(r io.Reader, head bool) (*manifest, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	raw := &manifest{}
	if err := open(d, '{'); err != nil {
		return nil, err
	}
	fields := map[string]any{"version": &raw.Version, "id": &raw.ID, "time": &raw.Time, "command": &raw.Command, "trees": &raw.Trees, "protect": &raw.Protect, "summary": &raw.Summary}
	var all []Entry
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		into, ok := fields[name]
		switch {
		case ok:
			err = d.Decode(into)
		case name != "changes" || all != nil:
			return nil, fmt.Errorf("field %q", name)
		case head && raw.Summary != nil:
			return raw.checked(nil)
		default:
			all, err = parseChanges(d)
		}
		if err != nil {
			return nil, err
		}
		delete(fields, name) // none comes twice
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the value")
	}
	m, err := raw.checked(all)
	if err != nil {
		return nil, err
	}
	return m, m.check()
}

func open(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%v instead of %v", t, want)
	}
	return err
}

func parseChanges(d *json.Decoder) ([]Entry, error) {
	all := []Entry{}
	if err := open(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		var e Entry
		if err := d.Decode(&e); err != nil {
			return nil, err
		}
		e, err := e.mapped(decode)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	_, err := d.Token()
	return all, err
}

// checked is m, its names decoded, with the changes.
func (m *manifest) checked(all []Entry) (*manifest, error) {
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("version %d of the record is not known", m.Version)
	}
	n, err := m.head(decode)
	if err == nil {
		n.Changes = all
	}
	return n, err
}

// digestXattrs is "" of none.
func digestXattrs(all map[string][]byte) string {
	if len(all) == 0 {
		return ""
	}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		for _, b := range [][]byte{[]byte(k), all[k]} {
			_ = binary.Write(h, binary.LittleEndian, uint64(len(b))) // a hash takes all
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
