package rootfs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/hide"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

// key has the first line of a private key.
const key = "=-----BEGIN OPENSSH PRIVATE KEY-----"

func TestSecrets(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.env=A=1", "/home/u/p/deep/er/.env.local=A=1", "/home/u/p/.env.example=A=", "/home/u/p/.env.prod.example=A=",
		"/home/u/p/server.pem"+key, "/home/u/p/cacert.pem=-----BEGIN CERTIFICATE-----", "/home/u/p/site.key"+key, "/home/u/p/slides.key=PK",
		"/home/u/p/testdata/server.pem"+key, "/home/u/p/node_modules/x/.env=A=1", "/home/u/p/.npmrc=registry=https://r", "/home/u/p/sub/.npmrc=//r/:_authToken=1",
		"/home/u/p/venv/.env/bin/python*", "/home/u/p/id_ed25519"+key, "/home/u/p/id_ed25519.pub=ssh", "/home/u/p/link/.env -> ../shared/prod",
		"/home/u/p/shared/prod=A=1", "/home/u/p/.git/modules/.env=1", "/home/u/p/test/.env=A=1", "/home/u/p/master.key=0123", "/home/u/p/f%", "/home/u/p/shut/!",
		"/home/u/p/fifo.pem%", "/home/u/.aws/config=1")
	h.Other = true
	r := compile(t, h, func(in *view.Input) { in.Workdir, in.Deny = "rw", []string{secrets.Set} })
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
	if !slices.Contains(r.Rules, view.Rule{Path: "/home/u/p/.env", Access: view.RuleHidden, Why: "secrets: " + "settings of a service, its passwords among them", Origin: view.FromSecrets}) {
		t.Errorf("no reason is given: %v", r.Rules)
	}
	r = compile(t, h, func(in *view.Input) { in.Workdir = "rw" }) // the control
	if !r.sees("/home/u/p/.env") || r.DenyAtStart {
		t.Error("hidden without the set")
	}
	r = compile(t, h, func(in *view.Input) { in.Deny = []string{secrets.Set} })
	if r.DenyAtStart {
		t.Error("nothing is writable")
	}
}

func TestSecretsThatAreNamedStay(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.env=A=1", "/home/u/p/a/.env=A=1", "/home/u/.ssh/id_rsa"+key, "/home/u/.aws/config=1", "/home/v/.aws/config=1", "/root/.netrc=1")
	r := compile(t, h, func(in *view.Input) {
		in.Deny = []string{secrets.Set}
		in.AllowRead = []string{".env", "/home/u/.ssh"}
		in.Mounts = []view.Mount{{Src: "/home/u/.aws/config", Dst: "/c", Mode: "ro"}}
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
	r = compile(t, h, func(in *view.Input) {
		in.Deny = []string{secrets.Set}
		in.Mounts = []view.Mount{{Src: "/home", Dst: "/people", Mode: "ro"}, {Src: "/root", Dst: "/r", Mode: "ro"}}
	})
	r.want("/people/u/.ssh", "mask", "/people/u/.aws", "mask", "/people/v/.aws", "mask", "/people/u/p/.env", "mask", "/r/.netrc", "mask")
	// A directory called so is a path.
	r = compile(t, hosttest.Debian(t, "/home/u/p/secrets/x=1", "/home/u/p/.env=1"), func(in *view.Input) { in.Deny = []string{"/home/u/p/secrets"} })
	r.want("/home/u/p/secrets", "mask", "/home/u/p/.env", "")
}

func TestSecretsInAHomeThatAProfileShows(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/other/.env=1", "/home/u/a/b/c/.env=1", "/home/u/a/b/c/d/.env=1", "/home/u/.cache/x/.env=1", "/home/u/.ssh/id=1", "/home/u/p/a/b/c/d/e/.env=1")
	r := compile(t, h, func(in *view.Input) { in.Home, in.Workdir, in.Deny = true, "rw", []string{secrets.Set} })
	r.want("/home/u/other/.env", "mask", "/home/u/a/b/c/.env", "mask", "/home/u/a/b/c/d/.env", "", "/home/u/.cache/x/.env", "",
		"/home/u/p/a/b/c/d/e/.env", "mask")
	// Without the set the home keeps its own secrets.
	r = compile(t, h, func(in *view.Input) { in.Home = true })
	r.want("/home/u/other/.env", "")
	for _, secret := range []string{".ssh/id", ".cache/x/.env"} {
		if r.sees("/home/u/" + secret) {
			t.Errorf("%s is visible", secret)
		}
	}
	// By name, also right in it.
	h = hosttest.Debian(t, "/home/u/id_rsa=1", "/home/u/server.pem=-----BEGIN PRIVATE KEY-----", "/home/u/ca.pem=-----BEGIN CERTIFICATE-----")
	r = compile(t, h, func(in *view.Input) { in.Home, in.Deny = true, []string{secrets.Set} })
	if r.sees("/home/u/id_rsa") || r.sees("/home/u/server.pem") || !r.sees("/home/u/ca.pem") {
		t.Error("a key in the home directory itself is visible, or what is none isn't")
	}
}

// What logs in from the configuration of other checkouts is hidden; git needs that of its own.
func TestSecretsInGitConfigurations(t *testing.T) {
	t.Parallel()
	const url, plain = "[remote \"o\"]\n\turl = https://u:tok@h/x\n", "[remote \"o\"]\n\turl = https://h/x\n"
	repository := func(dir, config string) []string {
		return []string{dir + "/HEAD=1", dir + "/objects/", dir + "/refs/", dir + "/config=" + config}
	}
	files := slices.Concat(
		repository("/home/u/a/.git", url), repository("/home/u/a/.git/modules/deep/sub", url), []string{"/home/u/a/.git/worktrees/w/config.worktree=" + url,
			"/home/u/a/.git/credentials=1", "/home/u/a/sub/.git=gitdir: ../.git/modules/deep/sub\n"},
		repository("/home/u/src/host/who/b/.git", "[http]\n\textraHeader = AUTHORIZATION: basic x\n"),
		repository("/home/u/bare.git", url), repository("/home/u/plain/.git", plain),
		repository("/home/u/ssh/.git", "[remote \"o\"]\n\turl = ssh://me@h/x\n"), repository("/home/u/sshpass/.git", "[remote \"o\"]\n\turl = ssh://me:tok@h/x\n"),
		repository("/home/u/p/.git", url), repository("/home/u/p/.git/modules/s", url), repository("/home/u/p/vendor/x/.git", url),
		repository("/home/u/p/sub/mod/.git", url), []string{"/home/u/p/.gitmodules=[submodule \"m\"]\n\tpath = sub/mod\n", "/home/u/p/.git/credentials=1"},
	)
	hidden := []string{"a/.git/config", "a/.git/modules/deep/sub/config", "a/.git/worktrees/w/config.worktree", "a/.git/credentials",
		"src/host/who/b/.git/config", "bare.git/config", "sshpass/.git/config", "p/vendor/x/.git/config", "p/.git/credentials"}
	shown := []string{"plain/.git/config", "ssh/.git/config", "a/.git/HEAD", "p/.git/config", "p/.git/modules/s/config", "p/sub/mod/.git/config"}
	for _, dir := range []string{"/home/u/p", "/home/u/p/vendor"} {
		r := compile(t, hosttest.Debian(t, files...), func(in *view.Input) { in.Home, in.Deny, in.Dir = true, []string{secrets.Set}, dir })
		for _, p := range hidden {
			if r.sees("/home/u/" + p) {
				t.Errorf("in %s: %s is visible", dir, p)
			}
		}
		for _, p := range shown {
			if !r.sees("/home/u/" + p) {
				t.Errorf("in %s: %s is hidden", dir, p)
			}
		}
	}
	r := compile(t, hosttest.Debian(t, files...), func(in *view.Input) { in.Home = true }) // the control
	for _, p := range slices.Concat(hidden, shown) {
		if !r.sees("/home/u/" + p) {
			t.Errorf("%s is hidden without the set", p)
		}
	}
	// A worktree and a submodule have their configuration elsewhere, if that says so, too.
	files = append(files, "/home/u/wt/.git=gitdir: /home/u/a/.git/worktrees/w\n", "/home/u/a/.git/worktrees/w/commondir=../..\n", "/home/u/a/.git/worktrees/w/HEAD=1",
		"/home/u/thief/.git=gitdir: /home/u/a/.git\n")
	for gitdir, want := range map[string]bool{"/home/u/wt/.git": true, "/home/u/other/.git": false} {
		h := hosttest.Debian(t, append(files, "/home/u/a/.git/worktrees/w/gitdir="+gitdir+"\n")...)
		r = compile(t, h, func(in *view.Input) { in.Home, in.Deny, in.Dir = true, []string{secrets.Set}, "/home/u/wt" })
		if r.sees("/home/u/a/.git/config") != want {
			t.Errorf("the repository of a worktree of %s is visible: %v", gitdir, !want)
		}
	}
	r = compile(t, hosttest.Debian(t, files...), func(in *view.Input) { in.Home, in.Deny, in.Dir = true, []string{secrets.Set}, "/home/u/thief" })
	if r.sees("/home/u/a/.git/config") {
		t.Error("a repository that another directory takes for its own is visible")
	}
}

func TestSearchesEnd(t *testing.T) {
	for _, deny := range []string{secrets.Set, "**/*.x"} {
		h := hosttest.Debian(t)
		for i := range hide.MaxSearch/2 + 1 {
			h.Nodes[fmt.Sprint("/home/u/p/src/", i)] = &hosttest.Node{Ino: 1e6, Mode: 0o644}
		}
		in := hosttest.Input(h, func(in *view.Input) { in.Deny = []string{deny} })
		if _, err := Compile(in); err != nil { // the control: half as many are searched
			t.Fatal(err)
		}
		for i := range hide.MaxSearch/2 + 1 {
			h.Nodes[fmt.Sprint("/home/u/p/src/y", i)] = &hosttest.Node{Ino: 1e6, Mode: 0o644}
		}
		_, err := Compile(in)
		if !errors.Is(err, view.ErrLimit) || !strings.Contains(err.Error(), `"`+deny+`"`) {
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
	}{{secrets.Set, 5, nil}, {secrets.Set, 100, view.ErrSlow}, {"**/*.x", 5, nil}, {"**/*.x", 100, view.ErrSlow}} {
		h := hosttest.Debian(t)
		for i := range c.dirs {
			h.Put(fmt.Sprint("/home/u/p/src/d", i, "/f"), 0o644, "")
		}
		in := hosttest.Input(h, func(in *view.Input) { in.Deny = []string{c.deny} })
		if _, err := compileAt(in, (&slow{time.Unix(1, 0)}).now); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s in %d directories: %v", c.deny, c.dirs, err)
		}
	}
}

func TestSecretsAreData(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range secrets.All() {
		name, byName := strings.CutPrefix(s.Pattern, "**/")
		if seen[s.Pattern] || s.Reason == "" || byName == strings.HasPrefix(s.Pattern, "~/") || byName && strings.Contains(name, "/") && strings.ContainsAny(name, "*?[") || byName && name != strings.ToLower(name) {
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

// What a home directory keeps is a secret in a backup of one, a copy is one like the original, and
// case tells nothing.
func TestSecretsInOtherPlacesAndSpellings(t *testing.T) {
	hidden := []string{"x/.ssh", "backup/.ssh.old", "backup/.aws/credentials", "backup/.gnupg", "u/.local/share/keyrings", "u/.bash_history", "deep/u/.kube/config",
		"id_rsa.old", "id_ed25519.bak", ".env~", "a/.npmrc~", ".netrc.old", "server.PEM", "service.KEY", "ca.pem.orig", "prod.env", "terraform.tfstate",
		"terraform.tfstate.backup", "db.tfvars", "secrets.tfvars", "release.jks", "upload.keystore", "office.ovpn", "credentials.json", "kubeconfig.yaml",
		"kubeconfig-prod.yml", ".dockercfg", ".docker/config.json", "ID_RSA", ".Env"}
	innocent := []string{".docker/Dockerfile", ".aws/task-definition.json", ".aws/config", ".claude/settings.json", ".codex/config.toml", ".kube/deployment.yaml",
		"sizes.tfvars", "debug.keystore", "truststore.jks", "kubeconfig.go", "example.env", ".env.example~", "cacert.PEM", ".npmrc", "testdata/.ssh/id_rsa",
		"app/Mail/Welcome.php", "app/.config/app.toml", "keyrings/x", "share/keyrings/x", "credentials.go", "old/x", ".github/x"}
	text := map[string]string{"a/.npmrc~": "//r/:_authToken=1", "server.PEM": key[1:], "service.KEY": key[1:], "ca.pem.orig": key[1:], "db.tfvars": "db_password = 1",
		".docker/config.json": `{"auths":{"r":{"auth":"x"}}}`, "cacert.PEM": "CERTIFICATE"}
	inside := map[string]string{"x/.ssh": "/id", "backup/.ssh.old": "/id", "backup/.gnupg": "/x", "u/.local/share/keyrings": "/x"}
	var files []string
	for _, p := range slices.Concat(hidden, innocent) {
		what := "1"
		if text[p] != "" {
			what = text[p]
		}
		files = append(files, "/home/u/p/"+p+inside[p]+"="+what)
	}
	h := hosttest.Debian(t, files...)
	r := compile(t, h, func(in *view.Input) { in.Workdir, in.Deny = "ro", []string{secrets.Set} })
	for _, p := range hidden {
		if r.sees("/home/u/p/" + p + inside[p]) {
			t.Errorf("%s is readable", p)
		}
		if secrets.Of(h, "/home/u/p/"+p+inside[p]) == "" {
			t.Errorf("%s is no secret", p)
		}
	}
	for _, p := range innocent {
		if !r.sees("/home/u/p/" + p) {
			t.Errorf("%s is hidden", p)
		}
	}
	// In a home directory that a profile shows, below what has no dot.
	r = compile(t, hosttest.Debian(t, "/home/u/x/.ssh/id=1", "/home/u/a/b/c/.gnupg/x=1"), func(in *view.Input) { in.Home, in.Deny = true, []string{secrets.Set} })
	r.want("/home/u/x/.ssh", "mask", "/home/u/a/b/c/.gnupg", "mask")
	// What is named stays.
	r = compile(t, hosttest.Debian(t, "/home/u/p/x/.ssh/config=1"), func(in *view.Input) { in.Deny, in.AllowRead = []string{secrets.Set}, []string{"x/.ssh"} })
	if !r.sees("/home/u/p/x/.ssh/config") {
		t.Error("a directory that was named is hidden")
	}
}
