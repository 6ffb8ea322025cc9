package rootfs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// key has the first line of a private key.
const key = "=-----BEGIN OPENSSH PRIVATE KEY-----"

func TestSecrets(t *testing.T) {
	h := host(t, "/home/u/p/.env=A=1", "/home/u/p/deep/er/.env.local=A=1", "/home/u/p/.env.example=A=", "/home/u/p/.env.prod.example=A=",
		"/home/u/p/server.pem"+key, "/home/u/p/cacert.pem=-----BEGIN CERTIFICATE-----", "/home/u/p/site.key"+key, "/home/u/p/slides.key=PK",
		"/home/u/p/testdata/server.pem"+key, "/home/u/p/node_modules/x/.env=A=1", "/home/u/p/.npmrc=registry=https://r", "/home/u/p/sub/.npmrc=//r/:_authToken=1",
		"/home/u/p/venv/.env/bin/python*", "/home/u/p/id_ed25519"+key, "/home/u/p/id_ed25519.pub=ssh", "/home/u/p/link/.env -> ../shared/prod",
		"/home/u/p/shared/prod=A=1", "/home/u/p/.git/modules/.env=1", "/home/u/p/test/.env=A=1", "/home/u/p/master.key=0123", "/home/u/p/f%", "/home/u/p/shut/!",
		"/home/u/p/fifo.pem%", "/home/u/.aws/config=1")
	h.other = true
	r := compile(t, h, func(in *Input) { in.Workdir, in.Deny = "rw", []string{SetSecrets} })
	for _, p := range []string{".env", "deep/er/.env.local", "server.pem", "site.key", "sub/.npmrc", "id_ed25519", "shared/prod", "test/.env", "master.key", "shut"} {
		if r.sees("/home/u/p/"+p) || r.at("/home/u/p/"+p) != "mask" {
			t.Errorf("%s is readable: %q", p, r.at("/home/u/p/"+p))
		}
	}
	for _, p := range []string{".env.example", ".env.prod.example", "cacert.pem", "slides.key", "testdata/server.pem", "node_modules/x/.env", ".npmrc",
		"venv/.env/bin/python", "id_ed25519.pub", ".git/modules/.env", "fifo.pem"} {
		if !r.sees("/home/u/p/" + p) {
			t.Errorf("%s is hidden", p)
		}
	}
	if !r.DenyAtStart {
		t.Error("nobody is told that what is made later isn't hidden")
	}
	if !slices.Contains(r.Rules, Rule{"/home/u/p/.env", AccessHidden, "secrets: " + whySettings}) {
		t.Errorf("no reason is given: %v", r.Rules)
	}
	r = compile(t, h, func(in *Input) { in.Workdir = "rw" }) // the control
	if !r.sees("/home/u/p/.env") || r.DenyAtStart {
		t.Error("hidden without the set")
	}
	r = compile(t, h, func(in *Input) { in.Deny = []string{SetSecrets} })
	if r.DenyAtStart {
		t.Error("nothing is writable")
	}
}

func TestSecretsThatAreNamedStay(t *testing.T) {
	h := host(t, "/home/u/p/.env=A=1", "/home/u/p/a/.env=A=1", "/home/u/.ssh/id_rsa"+key, "/home/u/.aws/config=1", "/home/v/.aws/config=1", "/root/.netrc=1")
	r := compile(t, h, func(in *Input) {
		in.Deny = []string{SetSecrets}
		in.AllowRead = []string{".env", "/home/u/.ssh"}
		in.Mounts = []Mount{{Src: "/home/u/.aws/config", Dst: "/c", Mode: "ro"}}
	})
	for _, p := range []string{"/home/u/p/.env", "/home/u/.ssh/id_rsa", "/home/u/.aws/config"} {
		if !r.sees(p) {
			t.Errorf("%s was named, and is hidden", p)
		}
	}
	if r.sees("/home/u/p/a/.env") {
		t.Error("what was not named is shown")
	}
	// Wherever a tree is shown, and whosever home it is.
	r = compile(t, h, func(in *Input) {
		in.Deny = []string{SetSecrets}
		in.Mounts = []Mount{{Src: "/home", Dst: "/people", Mode: "ro"}, {Src: "/root", Dst: "/r", Mode: "ro"}}
	})
	r.want("/people/u/.ssh", "mask", "/people/u/.aws", "mask", "/people/v/.aws", "mask", "/people/u/p/.env", "mask", "/r/.netrc", "mask")
	// A directory called so is a path.
	r = compile(t, host(t, "/home/u/p/secrets/x=1", "/home/u/p/.env=1"), func(in *Input) { in.Deny = []string{"/home/u/p/secrets"} })
	r.want("/home/u/p/secrets", "mask", "/home/u/p/.env", "")
}

func TestSecretsInAHomeThatAProfileShows(t *testing.T) {
	h := host(t, "/home/u/other/.env=1", "/home/u/a/b/c/.env=1", "/home/u/a/b/c/d/.env=1", "/home/u/.cache/x/.env=1", "/home/u/.ssh/id=1", "/home/u/p/a/b/c/d/e/.env=1")
	r := compile(t, h, func(in *Input) { in.Home, in.Workdir, in.Deny = true, "rw", []string{SetSecrets} })
	r.want("/home/u/other/.env", "mask", "/home/u/a/b/c/.env", "mask", "/home/u/a/b/c/d/.env", "", "/home/u/.cache/x/.env", "",
		"/home/u/p/a/b/c/d/e/.env", "mask", "/home/u/.ssh", "mask")
	// Without the set the home keeps its own secrets.
	r = compile(t, h, func(in *Input) { in.Home = true })
	r.want("/home/u/.ssh", "mask", "/home/u/other/.env", "")
}

func TestSearchesEnd(t *testing.T) {
	for _, deny := range []string{SetSecrets, "**/*.x"} {
		h := host(t)
		for i := range maxSearch/2 + 1 {
			h.nodes[fmt.Sprint("/home/u/p/src/", i)] = &fakeNode{ino: 1e6, mode: 0o644}
		}
		in := plain(h, func(in *Input) { in.Deny = []string{deny} })
		if _, err := Compile(in); err != nil { // the control: half as many are searched
			t.Fatal(err)
		}
		for i := range maxSearch/2 + 1 {
			h.nodes[fmt.Sprint("/home/u/p/src/y", i)] = &fakeNode{ino: 1e6, mode: 0o644}
		}
		_, err := Compile(in)
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), `"`+deny+`"`) {
			t.Errorf("error %v", err)
		}
	}
}

// slow is a clock that a second passes on whenever it is looked at.
type slow struct{ at time.Time }

func (s *slow) now() time.Time { s.at = s.at.Add(time.Second); return s.at }

func TestSearchesDoNotTakeForEver(t *testing.T) {
	for _, c := range []struct {
		deny string
		dirs int
		want error
	}{{SetSecrets, 5, nil}, {SetSecrets, 100, ErrSlow}, {"**/*.x", 5, nil}, {"**/*.x", 100, ErrSlow}} {
		h := host(t)
		for i := range c.dirs {
			h.put(fmt.Sprint("/home/u/p/src/d", i, "/f"), 0o644, "")
		}
		in := plain(h, func(in *Input) { in.Deny = []string{c.deny} })
		if _, err := compileAt(in, (&slow{time.Unix(1, 0)}).now); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s in %d directories: %v", c.deny, c.dirs, err)
		}
	}
}

func TestSecretsAreData(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Secrets() {
		name, byName := strings.CutPrefix(s.Pattern, "**/")
		if seen[s.Pattern] || s.Reason == "" || byName == strings.HasPrefix(s.Pattern, "~/") || byName && strings.Contains(name, "/") {
			t.Errorf("entry %+v", s)
		}
		if _, err := path.Match(name, "x"); err != nil {
			t.Errorf("entry %+v: %v", s, err)
		}
		seen[s.Pattern] = true
	}
	for _, must := range []string{"~/.ssh", "~/.gnupg", "~/.aws", "~/.netrc", "~/.config/gcloud", "~/.docker", "~/.kube", "~/.npmrc", "~/.pypirc",
		"~/.git-credentials", "~/.mozilla", "~/.bash_history", "**/.env", "**/id_rsa"} {
		if !seen[must] {
			t.Errorf("%s is not hidden", must)
		}
	}
}
