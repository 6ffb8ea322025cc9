//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/must"
)

// project is a home directory with a project file in it that isn't trusted.
func project(t *testing.T) (src Sources, path string) {
	src = home(t)
	path = write(t, filepath.Join(src.Home, "project", fileName), "[sandbox]\ntime_limit = 2\n")
	return src, path
}

func TestDiscoveredFileCountsOnceTrusted(t *testing.T) {
	src, path := project(t)
	r := resolve(t, src)
	if r.Policy.TimeLimit != 30*time.Second || len(r.Files) > 0 || r.Project != path {
		t.Errorf("untrusted: %v, files %q, project %q", r.Policy.TimeLimit, r.Files, r.Project)
	}
	if want := path + " is not trusted and was ignored: read it, then run: confine trust " + path; len(r.Notices) != 1 || r.Notices[0] != want {
		t.Errorf("notices %q, want %q", r.Notices, want)
	}

	got, digest, err := Trust(src, "")
	if err != nil || got != path || !strings.HasPrefix(digest, "sha256:") || len(digest) != 71 {
		t.Fatalf("Trust: %q, %q, %v", got, digest, err)
	}
	r = resolve(t, src)
	if r.Policy.TimeLimit != 2*time.Second || len(r.Notices) > 0 || r.Project != path {
		t.Errorf("trusted: %v, notices %q, project %q", r.Policy.TimeLimit, r.Notices, r.Project)
	}

	write(t, path, "[sandbox]\ntime_limit = 'none'\n")
	r = resolve(t, src)
	if r.Policy.TimeLimit != 30*time.Second || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], "has changed since it was trusted") {
		t.Errorf("changed: %v, notices %q", r.Policy.TimeLimit, r.Notices)
	}
	if _, _, err := Trust(src, path); err != nil {
		t.Fatal(err)
	}
	if r = resolve(t, src); r.Policy.TimeLimit != 0 {
		t.Errorf("trusted again: %v", r.Policy.TimeLimit)
	}
	// The old bytes are no longer trusted.
	write(t, path, "[sandbox]\ntime_limit = 2\n")
	if r = resolve(t, src); r.Policy.TimeLimit != 30*time.Second {
		t.Errorf("the old file: %v", r.Policy.TimeLimit)
	}
}

// Who trusts a project file trusts the policies of system calls that it names, as they are now.
func TestTrustCoversPoliciesThatAFileNames(t *testing.T) {
	for name, text := range map[string]string{
		"[sandbox]":                       "[sandbox]\ntime_limit = 2\nseccomp = './pol.toml'\n",
		"a profile":                       "[sandbox]\ntime_limit = 2\n[sandbox.profiles.x]\nseccomp = 'pol.toml'\n",
		"what another place says instead": "[sandbox]\ntime_limit = 2\nseccomp = './pol.toml'\n",
	} {
		src, path := project(t)
		write(t, path, text)
		if strings.HasPrefix(name, "what") {
			src.Flags = []Setting{{Option: "seccomp", Values: []string{"strict"}}}
		}
		if _, _, err := Trust(src, path); err == nil {
			t.Errorf("%s: a policy that isn't there was trusted", name)
		}
		const tight = "extends = 'strict'\n"
		policy := write(t, filepath.Join(filepath.Dir(path), "pol.toml"), tight)
		if _, _, err := Trust(src, path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := resolve(t, src)
		if r.Policy.TimeLimit != 2*time.Second || len(r.Notices) > 0 || !slices.Contains(r.Protected, policy) {
			t.Errorf("%s: trusted: %v, notices %q, protected %q", name, r.Policy.TimeLimit, r.Notices, r.Protected)
		}
		for why, spoil := range map[string]func() error{
			"has changed since it was trusted": func() error { return os.WriteFile(policy, []byte("default_action = 'allow'\n"), 0o600) },
			"no such file or directory":        func() error { return nil },
			"not a regular file":               func() error { return syscall.Mkfifo(policy, 0o600) },
		} {
			must.Do(t, errors.Join(os.Remove(policy), spoil()))
			r = resolve(t, src)
			if r.Policy.TimeLimit != 30*time.Second || len(r.Notices) != 1 ||
				!strings.Contains(r.Notices[0], "names "+policy) || !strings.Contains(r.Notices[0], why) {
				t.Errorf("%s: %s: %v, notices %q", name, why, r.Policy.TimeLimit, r.Notices)
			}
			_ = os.Remove(policy)
			write(t, policy, tight)
		}
	}
}

// Trusted bytes in another tree are not trusted there.
func TestTrustIsOfOnePlace(t *testing.T) {
	src, path := project(t)
	if _, _, err := Trust(src, path); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	write(t, filepath.Join(src.Dir, fileName), string(data)) // nearer
	if r := resolve(t, src); len(r.Files) > 0 || r.Project != filepath.Join(src.Dir, fileName) || len(r.Notices) != 1 {
		t.Errorf("files %q, project %q, notices %q", r.Files, r.Project, r.Notices)
	}
}

// A broken file that nobody trusts stops nothing.
func TestUntrustedFileIsNotParsed(t *testing.T) {
	src, path := project(t)
	write(t, path, "not toml")
	if r := resolve(t, src); len(r.Notices) != 1 {
		t.Errorf("notices %q", r.Notices)
	}
	if _, _, err := Trust(src, path); err == nil || !strings.HasPrefix(err.Error(), path+":1:") {
		t.Errorf("trusting it: %v", err)
	}
}

func TestUnreadableProjectFileIsIgnored(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"symbolic link": func(path string) error {
			target := filepath.Join(filepath.Dir(path), "real.toml")
			if err := os.WriteFile(target, []byte("[sandbox]\ntime_limit = 2\n"), 0o600); err != nil {
				return err
			}
			return os.Symlink(target, path)
		},
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
		"FIFO":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		src, path := project(t)
		must.Do(t, errors.Join(os.Remove(path), make(path)))
		r := resolve(t, src) // a FIFO would hang here
		if r.Policy.TimeLimit != 30*time.Second || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], "can't be read") {
			t.Errorf("%s: %v, notices %q", name, r.Policy.TimeLimit, r.Notices)
		}
		if _, _, err := Trust(src, path); err == nil {
			t.Errorf("%s can be trusted", name)
		}
	}
}

// The way there can be a link; what counts is where it leads.
func TestDirectoryReachedThroughALink(t *testing.T) {
	src, path := project(t)
	must.Do(t, os.Symlink(filepath.Dir(path), filepath.Join(src.Home, "link")))
	src.Dir = filepath.Join(src.Home, "link", "sub")
	if got, _, err := Trust(src, filepath.Join(src.Home, "link", fileName)); err != nil || got != path {
		t.Fatalf("%q, %v", got, err)
	}
	if r := resolve(t, src); r.Policy.TimeLimit != 2*time.Second || r.Project != path {
		t.Errorf("%v, project %q, notices %q", r.Policy.TimeLimit, r.Project, r.Notices)
	}
}

func TestListOfTrustedFilesIsPrivate(t *testing.T) {
	src, path := project(t)
	if _, _, err := Trust(src, path); err != nil {
		t.Fatal(err)
	}
	store := src.trustStore()
	for p, want := range map[string]os.FileMode{store: 0o600, filepath.Dir(store): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(store)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// A list that somebody else could have written is not believed, nor added to.
func TestListOfTrustedFilesThatOthersCouldHaveWrittenIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(src *Sources) error
		want  string
	}{
		"group can write": {func(s *Sources) error { return os.Chmod(s.trustStore(), 0o620) }, "others can write"},
		"all can write":   {func(s *Sources) error { return os.Chmod(s.trustStore(), 0o602) }, "others can write"},
		"its folder":      {func(s *Sources) error { return os.Chmod(filepath.Dir(s.trustStore()), 0o777) }, "others can write"},
		"another's":       {func(s *Sources) error { s.UID++; return nil }, "another user"},
		"damaged":         {func(s *Sources) error { return os.WriteFile(s.trustStore(), []byte("x\n"), 0o600) }, "line 1 is damaged"},
		"damaged later":   {func(s *Sources) error { return appendTo(s.trustStore(), "sha256:0 /unquoted\n") }, "line 2 is damaged"},
		"too large":       {func(s *Sources) error { return os.Truncate(s.trustStore(), fileMost+1) }, "larger than 1 MiB"},
		"a link":          {func(s *Sources) error { return linkAway(s.trustStore()) }, "symbolic link"},
		"a FIFO": {func(s *Sources) error {
			return errors.Join(os.Remove(s.trustStore()), syscall.Mkfifo(s.trustStore(), 0o600))
		}, "not a regular file"},
	} {
		src, path := project(t)
		if _, _, err := Trust(src, path); err != nil {
			t.Fatal(err)
		}
		if r := resolve(t, src); r.Policy.TimeLimit != 2*time.Second {
			t.Fatalf("%s: not trusted before", name)
		}
		must.Do(t, c.spoil(&src))
		r := resolve(t, src)
		if r.Policy.TimeLimit != 30*time.Second || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], c.want) {
			t.Errorf("%s: %v, notices %q, want %q", name, r.Policy.TimeLimit, r.Notices, c.want)
		}
		if _, _, err := Trust(src, path); err == nil || (!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: adding to it: %v", name, err)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func linkAway(path string) error {
	return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
}

func TestPermissionErrorsKeepTheirErrno(t *testing.T) {
	src, path := project(t)
	if _, _, err := Trust(src, path); err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Chmod(src.trustStore(), 0o666))
	if _, _, err := Trust(src, path); !errors.Is(err, syscall.EPERM) {
		t.Errorf("%v is no EPERM", err)
	}
}

// Two at once lose nothing.
func TestConcurrentTrustLosesNothing(t *testing.T) {
	src, _ := project(t)
	var paths []string
	for _, name := range strings.Fields("a b c d e f g h 'i") {
		paths = append(paths, write(t, filepath.Join(src.Home, name+"\n", fileName), ""))
	}
	var wg sync.WaitGroup
	for _, p := range paths {
		wg.Go(func() {
			if _, _, err := Trust(src, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range paths {
		if known, err := src.trusted(p, nil); known != trustFull || err != nil {
			t.Errorf("%q: %v, %v", p, known, err)
		}
	}
}

func TestErrorsOfTrust(t *testing.T) {
	src := home(t)
	if _, _, err := Trust(src, ""); err == nil || !strings.Contains(err.Error(), "there is no confine.toml") {
		t.Errorf("nothing there: %v", err)
	}
	if _, _, err := Trust(src, "nowhere/confine.toml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	if _, _, err := Trust(src, "~x/confine.toml"); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a bad path: %v", err)
	}
	path := write(t, filepath.Join(src.Dir, fileName), "")
	src.Home = ""
	if _, _, err := Trust(src, path); err == nil || !strings.Contains(err.Error(), "set HOME") {
		t.Errorf("no home: %v", err)
	}
	if r := resolve(t, src); len(r.Notices) != 1 {
		t.Errorf("no home: notices %q", r.Notices)
	}
	src.DataHome = filepath.Join(path, "below a file")
	if _, _, err := Trust(src, path); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("no place: %v", err)
	}
}

func FuzzTrustStore(f *testing.F) {
	f.Add("sha256:00 \"/a\"\nsha256:11 \"/b\\n\"\n")
	f.Add("\n")
	f.Add("sha256:00 \"a\"")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseTrust(text)
		if err != nil {
			return
		}
		again, err := parseTrust(formatTrust(list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q: %v, %v, %v", text, list, again, err)
		}
	})
}

// A file that can't be read says what to do about the reason.
func TestUnreadableFilesAreToldTheRemedy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fs.ErrNotExist, "check the path"},
		{syscall.EMFILE, hint.FewDescriptors},
		{fs.ErrPermission, "make it a TOML file that you can read, or remove it"},
	} {
		_, remedy := hint.Split(unreadable("/x", &fs.PathError{Op: "open", Path: "/x", Err: c.err}))
		if remedy != c.want {
			t.Errorf("%v: %q", c.err, remedy)
		}
	}
}
