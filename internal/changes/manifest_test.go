package changes

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func sample() *manifest {
	return &manifest{Version: manifestVersion, ID: "20261122T011500-0a1b2c", Time: time.Unix(1e9, 0).UTC(), Command: []string{"a\xff", "b\n"},
		Trees: []keptTree{{Path: "/tree \xfe", Ino: 7}},
		Changes: []Entry{
			{Change: Change{Path: "a\xff\n", Kind: Added, Type: File, Mode: 0o644}, Digest: strings.Repeat("a", 64), Blob: "0", Xattrs: map[string][]byte{"user.\xff": {0, 1}}},
			{Change: Change{Path: "b", Kind: Relinked, Type: Symlink, Was: Symlink, Target: "\xff"}, Base: Base{Type: Symlink, Target: "x\\"}},
			{Change: Change{Path: "c", Kind: Deleted, Type: Dir, Was: Dir}, Base: Base{Type: Dir, Mode: 0o755, Raced: true}},
		}}
}

func (m *manifest) marshal() ([]byte, error) {
	var out bytes.Buffer
	err := m.write(&out)
	return out.Bytes(), err
}

func TestManifestRoundTrip(t *testing.T) {
	data, err := sample().marshal()
	must(t, err)
	m, err := parseManifest(bytes.NewReader(data))
	must(t, err)
	again, err := m.marshal()
	must(t, err)
	if !bytes.Equal(data, again) || m.Changes[0].Path != "a\xff\n" || m.Command[0] != "a\xff" || m.Trees[0].Path != "/tree \xfe" {
		t.Errorf("%s\n%s", data, again)
	}
	for _, c := range data {
		if c >= 0x80 {
			t.Fatal("a name isn't encoded")
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	good, err := sample().marshal()
	must(t, err)
	for name, change := range map[string][2]string{
		"a field it doesn't know":  {`"version":2`, `"version":2,"extra":1`},
		"a field in an entry":      {`"kind":"added"`, `"kind":"added","extra":1`},
		"another version":          {`"version":2`, `"version":1`},
		"a kind":                   {`"kind":"added"`, `"kind":"other"`},
		"a path upwards":           {`"path":"b"`, `"path":"../b"`},
		"a path through the root":  {`"path":"b"`, `"path":"/b"`},
		"a path to itself":         {`"path":"b"`, `"path":"b/."`},
		"a path twice":             {`"path":"c"`, `"path":"b"`},
		"an order":                 {`"path":"c"`, `"path":"aa"`},
		"a blob elsewhere":         {`"blob":"0"`, `"blob":"../0"`},
		"a file without content":   {`"blob":"0",`, ``},
		"a tree that isn't":        {`"tree":0,"path":"b"`, `"tree":1,"path":"b"`},
		"a name that isn't coded":  {`"path":"b"`, `"path":"\\x62"`},
		"a relative tree":          {`"path":"/tree`, `"path":"tree`},
		"the overlay's attributes": {`user.\\xff`, `user.overlay.opaque`},
		"other attributes":         {`user.\\xff`, `security.capability`},
		"a mode":                   {`"mode":420`, `"mode":65535`},
		"a summary":                {`"deleted":1`, `"deleted":2`},
		"an id":                    {`20261122T011500`, `20261122-01150`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Errorf("%s: nothing to replace in %s", name, good)
		}
		if _, err := parseManifest(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	last := bytes.LastIndexByte(good[:len(good)-1], '\n')
	if _, err := parseManifest(bytes.NewReader(good[:last+1])); err == nil {
		t.Error("a record without its last change was taken")
	}
	if _, err := parseManifest(bytes.NewReader(append(good, '{'))); err == nil {
		t.Error("something behind it was taken")
	}
}

func FuzzManifest(f *testing.F) {
	good, err := sample().marshal()
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, e := range m.Changes {
			if strings.HasPrefix(e.Path, "/") || strings.Contains("/"+e.Path+"/", "/../") || strings.Contains(e.Blob, "/") {
				t.Fatalf("%q %q", e.Path, e.Blob)
			}
		}
		again, err := m.marshal()
		must(t, err)
		n, err := parseManifest(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		third, err := n.marshal()
		must(t, err)
		if !bytes.Equal(again, third) {
			t.Fatalf("%s\n%s", again, third)
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("a\x1b\xff\n\"\\é\u202e\u0085")
	f.Fuzz(func(t *testing.T, s string) {
		patch, _ := printable([]byte(s))
		for _, out := range []string{Quote(s), string(patch)} {
			before := rune(-1)
			for i, r := range out {
				if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0) || bad(out, i, r) && out == Quote(s) || hidden(before, r, []byte(out[i+utf8.RuneLen(r):])) {
					t.Fatalf("%q: %q", s, out)
				}
				before = r
			}
		}
		if got, err := decode(encode(s)); err != nil || got != s {
			t.Fatalf("%q: %q %v", s, got, err)
		}
	})
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "plain name": "plain name", "é": "é", "a\tb": `"a\tb"`, "\x1b[m": `"\033[m"`, "\xff": `"\377"`,
		`q"`: `"q\""`, "\u202e": `"\342\200\256"`, "\u0085": `"\302\205"`, "\ufffd": "\ufffd",
		"a\u034f": `"a\315\217"`, "\u2800": `"\342\240\200"`, "\u3164": `"\343\205\244"`, "❤\ufe0f": `"❤\357\270\217"`, "\U000e0101": `"\363\240\204\201"`, "e\u0301": "e\u0301",
		"a → b": `"a → b"`, "a (hard link of b)": `"a (hard link of b)"`, "a 0777": `"a 0777"`, " a": `" a"`, "a ": `"a "`, "a  b": `"a  b"`, "d /a": `"d /a"`, "d/ a": `"d/ a"`, "a b/c d": "a b/c d", "a 0788": "a 0788", "a(b) → c"[:4]: "a(b)", "a→b": "a→b"} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"a\tb\n": "a\tb\n", "\x1b\xff\u0085": `\x1b\xff\xc2\x85`, "é→": "é→",
		"\u202e\u2066\u200b\u200f\ufeff\u202a\u2069\u2060":                   `\u202e\u2066\u200b\u200f\ufeff\u202a\u2069\u2060`,
		"\u00ad\u034f\u115f\u17b4\u180e\u206f\u2800\u3164\ufe00\uffa0\ufff9": `\u00ad\u034f\u115f\u17b4\u180e\u206f\u2800\u3164\ufe00\uffa0\ufff9`,
		"\U0001bca0\U0001d173\U000e0041\U000e0fff":                           `\U0001bca0\U0001d173\U000e0041\U000e0fff`, "1\ufe0f": `1\ufe0f`, "a\ufe0f": `a\ufe0f`, "\u2800\ufe0f": `\u2800\ufe0f`,
		"❤\ufe0f 1\ufe0f\u20e3\n": "❤\ufe0f 1\ufe0f\u20e3\n", "e\u0301\u05b0": "e\u0301\u05b0", "a\u00a0\u3000b": "a\u00a0\u3000b"} {
		if got, _ := printable([]byte(in)); string(got) != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestComparePaths(t *testing.T) {
	order := []string{"a", "a/b", "a/b/c", "a/c", "a-b", "a.c", "b"}
	for i := range order {
		for j := range order {
			if got := comparePaths(order[i], order[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q %q: %d", order[i], order[j], got)
			}
		}
	}
}
