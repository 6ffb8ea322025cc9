package learn

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/status"

	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/hostfs"
)

var usual = []string{
	"/usr/bin/cat", "/usr/lib/libc.so", "/work/p/a.txt", "/work/p/build/o", "/work/p/src/x.c", "/work/other/f", "/work/other/g",
	"/work/lib/1", "/work/lib/2", "/work/lib/3", "/work/lib/sub/4", "/etc/passwd", "/etc/shadow", "/etc/ssl/a", "/etc/ssl/b", "/etc/ssl/c",
	"/home/u/.gitconfig", "/home/u/.bashrc", "/home/u/.ssh/id", "/home/u/.ssh/other", "/home/u/.config/tool/s", "/home/u/.cache/pip/x", "/home/u/doc",
	"/home/u/one", "/home/u/two", "/home/u/three", "/tmp/old", "/tmp/kept/x", "/home/v/a", "/home/v/b", "/home/v/c",
}

var scenarios = []struct {
	name, seen string
	tree       []string
}{
	{"nothing", "exec /usr/bin/cat by cat\nread /usr/lib/libc.so by cat\nread /no/such by cat\nlook /etc by cat", nil},
	{"reading", "read /work/p/a.txt by cat\nread /work/other/f by cat\nlook /etc/passwd by id\nread /home/u/.gitconfig by git\nlook /work/other by cat", nil},
	{"folded", "read /work/lib/1 by cc\nread /work/lib/2 by cc\nread /work/lib/3 by ld\nlist /home/u/.config/tool by tool", nil},
	{"never folded", "read /etc/ssl/a by x\nread /etc/ssl/b by x\nread /etc/ssl/c by x\nread /home/u/one by x\nread /home/u/two by x\nread /home/u/three by x\n" +
		"read /home/v/a by x\nread /home/v/b by x\nread /home/v/c by x\nlist /home by ls\nlist /home/u by ls\nlist / by ls", nil},
	{"writing", "write /work/p/build/o by make\ncreate /work/p/build/new by make\ncreate /work/p/build/.tmpX1y2Z3 by make\nwrite /home/u/doc by sh\nremove /work/other/g by rm", nil},
	{"project itself", "create /work/p/out by sh\nwrite /work/p/out by sh\ncreate /work/p/build/x by sh", nil},
	{"made directory", "create /work/p/new by mkdir\ncreate /work/p/new/sub by mkdir\ncreate /work/p/new/sub/f by sh\nread /work/p/new/sub/f by cat", nil},
	{"made directory elsewhere", "create /work/other/new by mkdir\ncreate /work/other/new/f by sh\nremove /work/other/new/f by rm\nremove /work/other/new by rmdir", nil},
	{"replaced", "create /work/p/build/o.tmp by sed\nremove /work/p/build/o.tmp by sed\ncreate /work/p/build/o rename by sed\ncreate /work/p/a.txt by mkdir", nil},
	{"secrets", "read /home/u/.ssh/id by ssh\nread /work/p/.env by app\nlook /home/u/.ssh/other by ssh\nlist /home/u/.ssh by ssh\ncreate /home/u/.ssh/new by ssh", []string{"/work/p/.env"}},
	{"protected", "write /home/u/.bashrc by sh\ncreate /work/p/.vscode/x by sh\ncreate /work/p/.git/index.lock by git\ncreate /work/p/.git/config rename by git", []string{"/work/p/.vscode/", "/work/p/.git/config", "/work/p/.git/index"}},
	{"home", "create /home/u/.new by sh\ncreate /home/u/.config/x by sh\ncreate /home/u/.cache/pip/y by pip", nil},
	{"temporary", "create /tmp/x by sh\nread /tmp/old by cat\nwrite /tmp/old2 by sh\ncreate /tmp/made by java\ncreate /tmp/made/f by java\ncreate /tmp/kept by java\ncreate /tmp/kept/new by java\nread /tmp/kept/x by java", nil},
	{"links", "read /work/short/f by cat\nread /work/p/in by cat\nread /work/chain/f by cat\nlist /work/short by ls", []string{"/work/short -> /work/other", "/work/chain -> /work/short", "/work/p/in -> /work/other/g"}},
	{"script", "exec /work/other/script by sh", []string{"/work/other/script = #!/work/lib/1 -x"}},
	{"sockets and devices", "connect /run/docker.sock by docker\nconnect /work/p/own by x\ncreate /work/p/own by x\nread /dev/sda by dd\nwrite /proc/12/mem by gdb\nread /proc/self/maps by x", []string{"/run/docker.sock", "/dev/sda", "/proc/12/mem"}},
	{"many", many(), nil},
	{"odd names", "read /work/other/a\"b\\c by x\nread /work/other/e\u00e9 by x\u3164\ncreate /work/p/build/\u202eevil by x", []string{"/work/other/a\"b\\c", "/work/other/e\u00e9"}},
	{"refused meanwhile", "create /work/other/new readonly by sh\nwrite /work/lib/1 readonly by sh\ncreate /work/shut/x by sh\nwrite /work/p/shut by sh\nremove /work/shut/y by sh\ncreate /etc/x readonly by sh", []string{"/work/shut/y", "/work/p/shut"}},
	{"replaced after it was read", "read /home/u/doc by vi\ncreate /home/u/doc.new by vi\ncreate /home/u/doc rename by vi\nread /home/u/one by vi", nil},
	{"of the host", "read /etc/shadow by su\nread /etc/sudoers.d/x by sudo\nread /etc/ssh/ssh_host_rsa_key by sshd\nread /etc/ssh/ssh_host_rsa_key.pub by sshd\nread /etc/ssl/private/k by x\nread /work/shut/y by x",
		[]string{"/etc/sudoers.d/x", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key.pub", "/etc/ssl/private/k", "/work/shut/y"}},
	{"obeyed outside", "create /home/u/.cargo/bin/x by sh\nwrite /home/u/.cargo/bin/cargo by sh\ncreate /opt/tools/bin/x by sh\ncreate /etc/cron.d/x by sh\ncreate /home/u/.cargo/registry/x by cargo\n" +
		"create /home/u/.cargo/a/x by cargo\ncreate /home/u/.cargo/b/x by cargo\ncreate /home/u/.cargo/c/x by cargo\ncreate /home/u/go/x by go\ncreate /opt/tools/x by sh\ncreate /home/u/.local/share/applications/x by sh",
		[]string{"/home/u/.cargo/bin/cargo", "/home/u/.cargo/registry/", "/home/u/.cargo/a/", "/home/u/.cargo/b/", "/home/u/.cargo/c/", "/home/u/go/bin/", "/opt/tools/bin/", "/etc/cron.d/", "/home/u/.local/share/applications/"}},
	{"relative", "read /work/other/f relative by cat", nil},
}

func many() string {
	var b strings.Builder
	for _, d := range strings.Fields("a b c d e f g h i j k l") {
		b.WriteString("read /work/deep/" + d + "/one by x\ncreate /work/p/src/" + d + "/o by x\n")
	}
	return b.String()
}

func treeFor(i int) fakeHost {
	lines := append([]string{}, usual...)
	for _, d := range strings.Fields("a b c d e f g h i j k l") {
		lines = append(lines, "/work/deep/"+d+"/one", "/work/p/src/"+d+"/")
	}
	return tree(append(lines, scenarios[i].tree...)...)
}

func TestFolding(t *testing.T) {
	for i, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			h := treeFor(i)
			s := &Seen{Command: "cmd", Accesses: accesses(t, h, c.seen), Wall: time.Second, Descriptors: 64}
			p := Make(s, world(h), "x", "x.seccomp.toml", Extra{})
			text := p.TOML()
			_, text, _ = strings.Cut(text, "how large files became that were removed again.\n")
			head, files, _ := strings.Cut(text, "\n[sandbox]\n")
			_, files, _ = strings.Cut(files, ".filesystem]\n")
			golden.Check(t, "testdata/fold_"+strings.ReplaceAll(c.name, " ", "_")+".golden", head+files)
		})
	}
}

// grants is what the lines of a profile let, by the same rule as the mount table: the most
// specific path.
type grants struct {
	read, write []string
	workdir     string
}

func granted(w *World, p *Profile) (g grants) {
	full := func(words []string) (all []string) {
		for _, word := range words {
			switch {
			case strings.HasPrefix(word, "~/"):
				word = w.Home + word[1:]
			case word[0] != '/':
				word = path.Join(w.Out, word)
			}
			if real, _, _ := w.resolve(word); real != "" {
				word = real
			}
			all = append(all, word)
		}
		return all
	}
	g.read, g.write = full(wordsOf(p, "filesystem", "allow_read")), full(wordsOf(p, "filesystem", "allow_write"))
	for _, l := range p.Tables[2].Lines {
		if l.Key == "workdir" {
			g.workdir = unquoted(l.Value)
		}
	}
	return g
}

func (g *grants) allows(w *World, name string, op Op) bool {
	real, _, _ := w.resolve(name)
	if op == Create {
		dir, _, _ := w.resolve(path.Dir(name))
		name, real, op = path.Dir(name), dir, Write
	}
	in := func(list []string) bool {
		for _, d := range list {
			if real != "" && hostfs.Under(real, d) {
				return true
			}
		}
		return false
	}
	switch {
	case w.Base(name, op).Yes || in(g.write) || w.inProject(real) && g.workdir == "rw":
		return true
	case op == Write:
		return false
	}
	return in(g.read) || w.inProject(real) && g.workdir == "ro" && w.Secret(real) == ""
}

// Each access is granted, or said not to be; and nothing beside them is.
func TestWhatWasSeenIsGrantedAndItsNeighboursAreNot(t *testing.T) {
	neighbours := strings.Fields("/etc/shadow /home/u/.ssh/other /home/v/d /home/u/four /work/beside/secret /etc/ssl/d /work /home/u/.ssh /home")
	checked := 0
	for i, c := range scenarios {
		h := treeFor(i)
		for _, n := range neighbours {
			if _, found := h[n]; !found {
				h[n] = node{}
			}
		}
		w := world(h)
		s := &Seen{Accesses: accesses(t, h, c.seen)}
		p := Make(s, w, "x", "x.seccomp.toml", Extra{})
		g := granted(w, p)
		for _, a := range Check(s, w, func(name string, op Op) bool { checked++; return g.allows(w, name, op) }) {
			said := false
			for _, n := range p.Notes {
				said = said || strings.Contains(n, path.Base(a.Path)) || strings.Contains(n, a.Path)
			}
			if !said {
				t.Errorf("%s: %s %s isn't granted, and nobody says so:\n%s", c.name, a.Op, a.Path, p.TOML())
			}
		}
		for _, n := range neighbours {
			if !strings.Contains(c.seen, " "+n+" ") && g.allows(w, n, Read) && !w.Base(n, Read).Yes {
				t.Errorf("%s: %s can be read:\n%s", c.name, n, p.TOML())
			}
			if g.allows(w, n, Write) && !w.Base(n, Write).Yes {
				t.Errorf("%s: %s can be written:\n%s", c.name, n, p.TOML())
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d questions", checked)
	}
}

// What is written is TOML, whatever names and programs were called.
func TestNothingSeenBreaksTheFile(t *testing.T) {
	for _, odd := range []string{"a\nallow_read = [\"/\"]", "a\"]\n[x]", "\xff\xfe", "\x1b[31m", "'''", "# x", "a\r\nb", "\u2028", "\\"} {
		h := tree("/work/other/" + odd)
		s := &Seen{Command: odd, Ended: "exited with 1", Accesses: []Access{
			{Path: "/work/other/" + odd, Op: Read, Comm: odd, Exists: true}, {Path: "/home/u/" + odd, Op: Create, Comm: odd},
			{Path: "/dev/" + odd, Op: Read, Comm: odd, Exists: true}},
			Calls:    []Call{{Name: "memfd_create", What: "memfd_create(" + odd + ")", Comm: odd}, {What: odd, Comm: odd, Refused: true}},
			Attempts: []status.Attempt{{What: odd, Protocol: "tcp", Verdict: status.AttemptBlocked, Why: odd, Comm: odd, Hint: odd}}}
		p := Make(s, world(h), "x", "x.seccomp.toml", Extra{})
		for _, text := range []string{p.TOML(), p.Companion} {
			var all map[string]any
			if err := toml.Unmarshal([]byte(text), &all); err != nil {
				t.Fatalf("%q: %v\n%s", odd, err, text)
			}
			for k := range all {
				if k != "sandbox" && k != "extends" && k != "rules" {
					t.Errorf("%q: there is %q\n%s", odd, k, text)
				}
			}
		}
		if words := wordsOf(p, "filesystem", "allow_read"); len(words) > 1 || strings.ContainsRune(strings.Join(words, ""), '\uFFFD') {
			t.Errorf("%q: %s", odd, p.TOML())
		}
	}
}

// wordsOf are the words of a list, or nil.
func wordsOf(p *Profile, table, key string) (words []string) {
	for _, t := range p.Tables {
		for _, l := range t.Lines {
			if t.Name == table && l.Key == key {
				for _, i := range l.Items {
					words = append(words, i.Word)
				}
			}
		}
	}
	return words
}
