package gitindex

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

type item struct {
	mode  uint32
	name  string
	flags uint16 // beside the length
}

// maker writes an index as git does, or as an attacker would.
type maker struct {
	version, hash int
	offsets       []int // of the entries
	blocks        []int // entries that begin a block of their own
	text          []byte
}

func newMaker(version, hash int) *maker { return &maker{version: version, hash: hash} }

func (m *maker) entries(items ...item) *maker {
	m.text = append(m.text, "DIRC"...)
	m.text = binary.BigEndian.AppendUint32(m.text, uint32(m.version))
	m.text = binary.BigEndian.AppendUint32(m.text, uint32(len(items)))
	last := ""
	for n, it := range items {
		start := len(m.text)
		m.offsets = append(m.offsets, start)
		m.text = append(m.text, make([]byte, statSize+m.hash)...)
		binary.BigEndian.PutUint32(m.text[start+modeAt:], it.mode)
		m.text = binary.BigEndian.AppendUint16(m.text, it.flags|uint16(min(len(it.name), nameMask)))
		if it.flags&flagExtended != 0 {
			m.text = append(m.text, 0x40, 0)
		}
		name := it.name
		if m.version == 4 {
			common := 0
			for !slices.Contains(m.blocks, n) && common < min(len(last), len(name)) && last[common] == name[common] {
				common++
			}
			m.text = append(m.text, encode(len(last)-common)...)
			last, name = name, name[common:]
		}
		m.text = append(m.text, name...)
		m.text = append(m.text, 0)
		for m.version < 4 && (len(m.text)-start)%8 != 0 {
			m.text = append(m.text, 0)
		}
	}
	return m
}

func encode(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n != 0; n >>= 7 {
		n--
		out = append([]byte{0x80 | byte(n&0x7f)}, out...)
	}
	return out
}

func (m *maker) ext(name, text string) *maker {
	m.text = append(m.text, name...)
	m.text = binary.BigEndian.AppendUint32(m.text, uint32(len(text)))
	m.text = append(m.text, text...)
	return m
}

// table is an IEOT of blocks of that many entries.
func (m *maker) table(counts ...int) string {
	text := binary.BigEndian.AppendUint32(nil, 1)
	at := 0
	for _, n := range counts {
		text = binary.BigEndian.AppendUint32(text, uint32(m.offsets[at]))
		text = binary.BigEndian.AppendUint32(text, uint32(n))
		at += n
	}
	return string(text)
}

func (m *maker) end(at int) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(at))) + strings.Repeat("h", m.hash)
}

func (m *maker) String() string { return string(m.text) + strings.Repeat("\x00", m.hash) }

func read(hash int, files map[string]string) (Index, error) {
	return Read(hash, func(name string) (string, error) {
		if text, ok := files[name]; ok {
			return text, nil
		}
		return "", fs.ErrNotExist
	})
}

func file(name string) item { return item{0o100644, name, 0} }
func link(name string) item { return item{0o160000, name, 0} }

func TestGitlinksOfEachForm(t *testing.T) {
	long := strings.Repeat("d/", 3000) + "sub"
	items := []item{
		file("a"), link("dir/one"), file("dir/two"), {0o160000, "skipped", flagExtended}, {0o160000, "staged", 0x2000},
		{0o160000, "valid", 0x8000}, link(long), file(long + "x"), {0o160755, "with permissions", 0}, link("ünï"),
	}
	want := []string{"dir/one", "skipped", "staged", "valid", long, "with permissions", "ünï"}
	for _, hash := range []int{SHA1, SHA256} {
		for version := 2; version <= 4; version++ {
			m := newMaker(version, hash).entries(items...).ext("TREE", "x").ext("UNTR", "")
			found, err := read(hash, map[string]string{"index": m.String()})
			if err != nil || !slices.Equal(found.Gitlinks, want) || found.Sparse != nil {
				t.Errorf("version %d, hash of %d: %v %q", version, hash, err, found)
			}
		}
	}
}

func TestSparseDirectories(t *testing.T) {
	m := newMaker(3, SHA1).entries(file("a"), item{modeDir, "d/e/", flagExtended}, link("s")).ext("sdir", "")
	found, err := read(SHA1, map[string]string{"index": m.String()})
	if err != nil || !slices.Equal(found.Sparse, []string{"d/e"}) || !slices.Equal(found.Gitlinks, []string{"s"}) {
		t.Errorf("%v %q", err, found)
	}
}

func TestSplitIndex(t *testing.T) {
	id := strings.Repeat("\xab", SHA1)
	shared := newMaker(2, SHA1).entries(file("a"), link("base"), file("z")).String()
	for _, c := range []struct {
		name  string
		items []item
		id    string
		want  []string
		fails bool
	}{
		{"its own and the shared one's", []item{link("own")}, id, []string{"own", "base"}, false},
		{"one that is replaced can be any", []item{link("")}, id, []string{"a", "base", "z"}, false},
		{"files are replaced", []item{file("")}, id, []string{"base"}, false},
		{"without a shared one", []item{link("own")}, strings.Repeat("\x00", SHA1), []string{"own"}, false},
		{"without one to have a name from", []item{link("")}, strings.Repeat("\x00", SHA1), nil, true},
		{"that is missing", []item{link("own")}, strings.Repeat("\xac", SHA1), []string{"own"}, true},
	} {
		files := map[string]string{
			"index": newMaker(2, SHA1).entries(c.items...).ext("link", c.id+"bitmaps").String(),
			"sharedindex." + hex.EncodeToString([]byte(id)): shared,
		}
		found, err := read(SHA1, files)
		if c.fails != errors.Is(err, ErrBroken) || !slices.Equal(found.Gitlinks, c.want) {
			t.Errorf("%s: %v %q", c.name, err, found.Gitlinks)
		}
	}
}

func TestNoIndex(t *testing.T) {
	if _, err := read(SHA1, nil); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrBroken) {
		t.Error(err)
	}
}

// Where threads of git's would begin to read, the entries do.
func TestOffsetTables(t *testing.T) {
	items := []item{file("a"), file("b"), link("c"), file("d")}
	for version := 2; version <= 4; version++ {
		for _, c := range []struct {
			name   string
			blocks []int
			table  func(m *maker) string
			ok     bool
		}{
			{"of two blocks", []int{2}, func(m *maker) string { return m.table(2, 2) }, true},
			{"of three, one empty", []int{2}, func(m *maker) string {
				return m.table(2)[:12] + m.table(2, 0)[12:] + m.table(2, 2)[12:]
			}, true},
			{"that leaves entries out", []int{2}, func(m *maker) string { return m.table(2, 1) }, false},
			{"that has more", []int{2}, func(m *maker) string { return m.table(2, 2)[:16] + "\x00\x00\x00\x03" }, false},
			{"that begins elsewhere", []int{2}, func(m *maker) string { return m.table(2, 2)[:15] + "\x09" + m.table(2, 2)[16:] }, false},
			{"of another version", []int{2}, func(m *maker) string { return "\x00\x00\x00\x02" + m.table(2, 2)[4:] }, false},
			{"that is cut", []int{2}, func(m *maker) string { return m.table(2, 2)[:11] }, false},
		} {
			m := newMaker(version, SHA1)
			m.blocks = c.blocks
			m.entries(items...)
			at := len(m.text)
			m.ext("IEOT", c.table(m)).ext("EOIE", m.end(at))
			found, err := read(SHA1, map[string]string{"index": m.String()})
			if (err == nil) != c.ok || !slices.Equal(found.Gitlinks, []string{"c"}) {
				t.Errorf("version %d: a table %s: %v %q", version, c.name, err, found.Gitlinks)
			}
		}
	}
	// A name that takes a part of the one before means another one to a thread.
	m := newMaker(4, SHA1).entries(file("sub/a"), file("sub/b"))
	if _, err := read(SHA1, map[string]string{"index": m.ext("IEOT", m.table(1, 1)).String()}); err == nil {
		t.Error("a block whose first name depends on another block")
	}
	// The end is looked for at a place of its own, which can be inside another extension.
	for _, hash := range []int{SHA1, SHA256} {
		m = newMaker(2, hash).entries(items...)
		hidden := newMaker(2, hash).ext("EOIE", m.end(12))
		if _, err := read(hash, map[string]string{"index": m.ext("ZZZZ", string(hidden.text)).String()}); err == nil {
			t.Error("the end of the entries is hidden in an extension")
		}
	}
}

func TestBrokenIndexes(t *testing.T) {
	good := newMaker(2, SHA1).entries(file("a"), link("sub")).String()
	if _, err := read(SHA1, map[string]string{"index": good}); err != nil {
		t.Fatal(err)
	}
	names := []string{"/x", "x/", "a//b", "..", "../x", "a/../../b", ".", "./a", ".git/x", "a/.git/b", ".GIT/x"}
	all := map[string]string{
		"empty": "", "a header": good[:12], "cut": good[:len(good)-30], "no magic": "X" + good[1:], "version 5": good[:7] + "\x05" + good[8:],
		"version 1": good[:7] + "\x01" + good[8:], "more entries": good[:11] + "\x09" + good[12:],
		"a bit that is not known":       strings.Replace(newMaker(3, SHA1).entries(item{0o160000, "x", flagExtended}).String(), "\x40\x00x", "\x80\x00x", 1),
		"an extension without which no": newMaker(2, SHA1).entries(link("x")).ext("abcd", "").String(),
		"an extension that is cut":      newMaker(2, SHA1).entries(link("x")).String()[:12+72] + "TREE\xff\xff\xff\xff" + strings.Repeat("\x00", SHA1),
		"a length beside the name":      strings.Replace(good, "\x00\x03sub\x00", "\x00\x02sub\x00", 1),
		"a name that ends early":        strings.Replace(good, "\x00\x03sub\x00", "\x00\x03su\x00\x00", 1),
		"version 4 takes away too much": strings.Replace(newMaker(4, SHA1).entries(link("x")).String(), "\x00\x01\x00x", "\x00\x01\x05x", 1),
		"two tables": func() string {
			m := newMaker(2, SHA1).entries(link("x"))
			return m.ext("IEOT", m.table(1)).ext("IEOT", m.table(1)).String()
		}(),
		"two shared ones": newMaker(2, SHA1).entries(link("x")).ext("link", strings.Repeat("\x00", SHA1)).ext("link", strings.Repeat("\x01", SHA1)).String(),
		"another hash":    newMaker(2, SHA256).entries(file("a"), link("sub")).String(),
	}
	for _, name := range names {
		all["the name "+name] = newMaker(2, SHA1).entries(link(name)).String()
	}
	for name, text := range all {
		if _, err := read(SHA1, map[string]string{"index": text}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// gitlinksOf asks git.
func gitlinksOf(t *testing.T, git, dir string) (names []string, ok bool) {
	cmd := exec.Command(git, "-c", "index.threads=4", "ls-files", "--stage", "-z")
	cmd.Dir = dir
	cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if stat, name, _ := strings.Cut(entry, "\t"); strings.HasPrefix(stat, "160000 ") {
			names = append(names, name)
		}
	}
	return names, err == nil
}

func repository(t testing.TB, git, format string) string {
	dir := t.TempDir()
	cmd := exec.Command(git, "init", "-q", "--object-format="+format, dir)
	cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return dir
}

// What git writes is read, in each form that it has.
func TestWhatGitWrites(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		for want := range strings.SplitSeq(os.Getenv("CONFINE_MUST_RUN"), ",") {
			if want == "all" || want == "program:git" || want == "program:*" {
				t.Fatal(err)
			}
		}
		t.Skip(err)
	}
	for _, format := range []string{"sha1", "sha256"} {
		dir := repository(t, git, format)
		run := func(args ...string) {
			t.Helper()
			cmd := exec.Command(git, append([]string{"-c", "index.threads=4", "-c", "user.name=x", "-c", "user.email=x@y"}, args...)...)
			cmd.Dir = dir
			cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v %s", args, err, out)
			}
		}
		hash := map[string]int{"sha1": SHA1, "sha256": SHA256}[format]
		index := func() (Index, error) {
			return Read(hash, func(name string) (string, error) {
				text, err := os.ReadFile(filepath.Join(dir, ".git", name))
				return string(text), err
			})
		}
		check := func(what string, want ...string) {
			t.Helper()
			found, err := index()
			seen, ok := gitlinksOf(t, git, dir)
			if err != nil || !ok || !slices.Equal(slices.Sorted(slices.Values(found.Gitlinks)), want) || !slices.Equal(seen, want) {
				t.Errorf("%s, %s: %v %q; git %q", format, what, err, found.Gitlinks, seen)
			}
		}
		commit := strings.Repeat("12", hash)
		for _, name := range []string{"d/a", "d/b", "e/a"} {
			must.Do(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		}
		run("add", "d", "e")
		run("update-index", "--add", "--cacheinfo", "160000,"+commit+",sub")
		check("version 2", "sub")
		run("update-index", "--skip-worktree", "sub")
		check("version 3", "sub")
		for _, version := range []string{"2", "3", "4"} {
			run("update-index", "--index-version", version)
			check("version "+version, "sub")
		}
		run("update-index", "--split-index")
		run("update-index", "--add", "--cacheinfo", "160000,"+commit+",d/own")
		check("split", "d/own", "sub")
		run("update-index", "--cacheinfo", "160000,"+strings.Repeat("34", hash)+",sub")
		if found, err := index(); err != nil || !slices.Contains(found.Gitlinks, "sub") || !slices.Contains(found.Gitlinks, "d/own") {
			t.Errorf("%s, split, one replaced: %v %q", format, err, found.Gitlinks)
		}
		run("update-index", "--no-split-index")
		run("update-index", "--force-remove", "d/own")
		run("commit", "-qm", "x")
		run("sparse-checkout", "init", "--cone", "--sparse-index")
		found, err := index()
		if err != nil || !slices.Equal(found.Sparse, []string{"d", "e"}) || !slices.Equal(found.Gitlinks, []string{"sub"}) {
			t.Errorf("%s, sparse: %v %q", format, err, found)
		}
	}
}

// What git sees is seen here, or the index is refused.
func FuzzRead(f *testing.F) {
	m := newMaker(4, SHA1).entries(file("a"), link("sub"), link("sub/b"))
	at := len(m.text)
	for _, text := range []string{
		newMaker(2, SHA1).entries(file("a"), link("sub"), file("z")).ext("TREE", "x").String(),
		newMaker(3, SHA1).entries(file("a"), item{0o160000, "sub", flagExtended}).String(),
		newMaker(2, SHA1).entries(link("")).ext("link", strings.Repeat("\xab", SHA1)+strings.Repeat("\x00", 24)).String(),
		m.ext("IEOT", m.table(1)).ext("EOIE", m.end(at)).String(),
	} {
		f.Add([]byte(text))
	}
	git, _ := exec.LookPath("git")
	shared := string(newMaker(2, SHA1).entries(file("a"), link("base"), file("z")).text) + strings.Repeat("\xab", SHA1)
	base := "sharedindex." + strings.Repeat("ab", SHA1)
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := read(SHA1, map[string]string{"index": string(text), base: shared})
		for _, name := range found.Gitlinks {
			if !proper(name) {
				t.Errorf("%q leads out of the tree", name)
			}
		}
		if git == "" || err != nil {
			return
		}
		dir := repository(t, git, "sha1")
		for name, text := range map[string]string{"index": string(text), base: shared} {
			must.Do(t, os.WriteFile(filepath.Join(dir, ".git", name), []byte(text), 0o600))
		}
		names, _ := gitlinksOf(t, git, dir)
		for _, name := range names {
			if !slices.Contains(found.Gitlinks, name) {
				t.Errorf("git sees %q, here is %q", name, found.Gitlinks)
			}
		}
	})
}
