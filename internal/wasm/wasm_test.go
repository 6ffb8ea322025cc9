package wasm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestWordsOfTheEngine(t *testing.T) {
	for _, o := range []Options{{}, {Dirs: []string{"/a b", "/c=d"}, Pages: 7, Deterministic: true, Cache: "/x"}} {
		words := o.Args("/bin/engine", []string{"m.wasm", "--dir=/etc", "--"})
		got, argv, err := Parse(words[1:])
		if err != nil || !reflect.DeepEqual(got, o) || !reflect.DeepEqual(argv, []string{"m.wasm", "--dir=/etc", "--"}) {
			t.Errorf("%+v, %q, %v", got, argv, err)
		}
	}
	for _, words := range [][]string{{"run"}, {"run", "--"}, {"run", "m.wasm"}, {"run", "--pages=x", "--", "m"}, {"run", "--pages=-1", "--", "m"}} {
		if _, _, err := Parse(words); err == nil {
			t.Errorf("%q", words)
		}
	}
}

func TestToldIsBounded(t *testing.T) {
	long := strings.Repeat("\x01\"ü", 10000)
	told := Told{Status: status.KilledSignal, Reason: long, Memory: 1, Denied: []string{long, long, long, long, long, long, long, long, long, long}}
	text := told.Encode()
	if len(text) > MaxTold {
		t.Errorf("%d bytes", len(text))
	}
	if got, err := Decode(text); err != nil || got.Status != told.Status || got.Memory != 1 || len(got.Denied) != MaxDenied || !strings.HasPrefix(got.Reason, "\x01\"ü\x01") {
		t.Errorf("%+v, %v", got, err)
	}
	told = Told{Signal: "SIGILL", Reason: "a", Hint: "b\x00c", Code: 126, Denied: []string{"", "/x"}}
	got, err := Decode(told.Encode())
	if told.Hint = "b?c"; err != nil || !reflect.DeepEqual(got, told) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Decode(nil); err != nil || !reflect.DeepEqual(got, Told{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The engine may be the module's by now.
func FuzzTold(f *testing.F) {
	f.Add((&Told{Status: status.MemLimit, Denied: []string{"/x"}}).Encode())
	f.Add([]byte("\x00\x00\x00\x00x\x000\x00"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Decode(text)
		if err != nil || len(text) == 0 {
			return
		}
		for _, word := range append([]string{string(got.Status), got.Signal, got.Reason, got.Hint}, got.Denied...) {
			if !utf8.ValidString(word) || strings.Contains(word, "\x00") {
				t.Errorf("%q", word)
			}
		}
	})
}

func TestPages(t *testing.T) {
	for limit, want := range map[int64]uint32{0: 0, 10 << 20: 80, 96 << 20: 768, 512 << 20: 464 * 16, 1 << 40: 65536} {
		if got := Pages(limit); got != want {
			t.Errorf("%d: %d", limit, got)
		}
	}
}

const kept = "wazero-v1-amd64-linux/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// compilerOf gives a compiler that says this, and how often it was asked.
func compilerOf(says string, err error) (func(context.Context, io.Reader, io.Writer) error, *int) {
	n := new(int)
	var mu sync.Mutex
	return func(_ context.Context, module io.Reader, to io.Writer) error {
		mu.Lock()
		*n++
		mu.Unlock()
		_, _ = io.Copy(io.Discard, module)
		_, _ = io.WriteString(to, says)
		return err
	}, n
}

func TestModulesAreCompiledOnce(t *testing.T) {
	compile, n := compilerOf(kept+"\ncode", nil)
	c := Cache{Dir: filepath.Join(t.TempDir(), "c"), Compile: compile}
	one, other := strings.NewReader("one"), strings.NewReader("other")
	dir, err := c.Entry(t.Context(), one, 3, "id")
	must.Do(t, err)
	if text, err := os.ReadFile(filepath.Join(dir, kept)); err != nil || string(text) != "code" {
		t.Fatalf("%q, %v", text, err)
	}
	for _, id := range []string{"id", "", "another"} {
		if again, err := c.Entry(t.Context(), one, 3, id); again != dir || err != nil {
			t.Errorf("%q: %s, %v", id, again, err)
		}
	}
	if *n != 1 {
		t.Errorf("compiled %d times", *n)
	}
	if another, err := c.Entry(t.Context(), other, 5, "its"); another == dir || err != nil {
		t.Errorf("%s, %v", another, err)
	}
	// The same text by many at once.
	var group sync.WaitGroup
	third := strings.NewReader("third")
	for range 10 {
		group.Go(func() {
			dir, err := c.Entry(t.Context(), third, 5, "")
			if errors.Is(err, errBusy) {
				return
			}
			if text, rerr := os.ReadFile(filepath.Join(dir, kept)); err != nil || rerr != nil || string(text) != "code" {
				t.Errorf("%q, %v, %v", text, err, rerr)
			}
		})
	}
	group.Wait()
	if left, err := filepath.Glob(filepath.Join(c.Dir, "new-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// Compilers aren't counted for the sandbox whose module they compile. However many modules somebody wants to run at once, few are compiled,
// and nobody waits for those of others.
func TestFewModulesAreCompiledAtOnce(t *testing.T) {
	began, end := make(chan bool, 100), make(chan error)
	c := Cache{Dir: filepath.Join(t.TempDir(), "c"), Compile: func(_ context.Context, _ io.Reader, to io.Writer) error {
		began <- true
		_, _ = io.WriteString(to, kept+"\ncode")
		return <-end
	}}
	var group sync.WaitGroup
	entry := func(text string) error {
		_, err := c.Entry(t.Context(), strings.NewReader(text), int64(len(text)), "")
		return err
	}
	for i := range maxCompiling {
		group.Go(func() { _ = entry(strings.Repeat("x", i+1)) })
		<-began
	}
	third := make(chan error, 1)
	go func() { third <- entry("third") }()
	select {
	case err := <-third:
		if !errors.Is(err, errBusy) {
			t.Error(err)
		}
	case <-began:
		t.Error("one more is compiled")
		end <- nil
	}
	end <- errors.New("failed")
	for range maxCompiling - 1 {
		end <- nil
	}
	group.Wait()
	go func() { end <- nil }()
	if err := entry("fourth"); err != nil {
		t.Error("those that ended have left no room:", err)
	}
}

// The compiler has read hostile text: what it gives is put under the digest that we have computed, or nowhere.
func TestAHostileCompilerPoisonsNothing(t *testing.T) {
	parent := t.TempDir()
	for name, says := range map[string]string{
		"nothing": "", "no name": strings.Repeat("x", 1<<20), "up": "../../" + kept + "\nx", "elsewhere": "/etc/x\nx", "deep": "wazero-v1/a/" + kept[len(kept)-64:] + "\nx",
		"dots": "wazero-v1/..\nx", "another name": "evil-v1/" + kept[len(kept)-64:] + "\nx", "nul": "wazero-\x00/" + kept[len(kept)-64:] + "\nx", "upper case": strings.ToUpper(kept) + "\nx",
	} {
		compile, _ := compilerOf(says, nil)
		c := Cache{Dir: filepath.Join(parent, "c"), Compile: compile}
		if dir, err := c.Entry(t.Context(), strings.NewReader(name), int64(len(name)), ""); err == nil {
			t.Errorf("%s: %s", name, dir)
		}
	}
	compile, _ := compilerOf(kept+"\nhalf", errors.New("killed"))
	c := Cache{Dir: filepath.Join(parent, "c"), Compile: compile}
	if _, err := c.Entry(t.Context(), strings.NewReader("m"), 1, "id"); err == nil {
		t.Error("half of it is taken")
	}
	all, err := os.ReadDir(filepath.Join(parent, "c"))
	if err != nil || len(all) > 0 {
		t.Errorf("left: %v, %v", all, err)
	}
	if all, err := os.ReadDir(parent); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestACacheThatOthersWriteToIsNone(t *testing.T) {
	compile, n := compilerOf(kept+"\ncode", nil)
	for name, make := range map[string]func(dir string) error{
		"open to all": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a link":      func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":      func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		c := Cache{Dir: filepath.Join(t.TempDir(), "c"), Compile: compile}
		must.Do(t, make(c.Dir))
		if dir, err := c.Entry(t.Context(), strings.NewReader("m"), 1, ""); err == nil || *n > 0 {
			t.Errorf("%s: %s", name, dir)
		}
	}
}

func TestTheOldestGo(t *testing.T) {
	compile, _ := compilerOf(kept+"\ncode", nil)
	c := Cache{Dir: t.TempDir(), Compile: compile}
	must.Do(t, os.Chmod(c.Dir, 0o700))
	var first string
	for i := range maxCached + 5 {
		text := bytes.Repeat([]byte{'x'}, i+1)
		dir, err := c.Entry(t.Context(), bytes.NewReader(text), int64(len(text)), "")
		must.Do(t, err)
		at := time.Now().Add(time.Duration(i-1000) * time.Second)
		must.Do(t, os.Chtimes(dir, at, at))
		if i == 0 {
			first = dir
		}
	}
	all, err := os.ReadDir(c.Dir)
	if err != nil || len(all) > maxCached {
		t.Errorf("%d entries, %v", len(all), err)
	}
	if there(first) {
		t.Error("the oldest is there")
	}
}
