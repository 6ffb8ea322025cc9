package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// samples are a value for each option that differs from what every profile says,
// as a flag takes it, as a file does, and as one of its words then is.
var samples = map[string]struct{ flag, toml, want string }{
	"profile":          {"testing", `"testing"`, "testing"},
	"level":            {"strict", "", "strict"},
	"config":           {}, // a file of the test's
	"time-limit":       {"7s", `"7s"`, "7s"},
	"cpu-time":         {"0.5", "0.5", "500ms"},
	"memory-limit":     {"77M", `"77MiB"`, "77M"},
	"cpu-limit":        {"33%", "33", "33%"},
	"cpus":             {"3", "3", "3"},
	"processes":        {"9", "9", "9"},
	"file-descriptors": {"99", `"99"`, "99"},
	"disk-limit":       {"9M", "9437184", "9M"},
	"max-file-size":    {"8M", `"8M"`, "8M"},
	"max-files":        {"88", "88", "88"},
	"output-limit":     {"none", `"none"`, "none"},
	"grace":            {"1", "1", "1s"},
	"allow-network":    {"example.com:443", `["example.com:443"]`, "example.com:443"},
	"deny-network":     {"*.evil", `["*.evil"]`, "*.evil"},
	"allow-port":       {"443", "[443]", "443"},
	"block-internal":   {"false", "false", "false"},
	"log-network":      {"true", "true", "true"},
	"log-files":        {"true", "true", "true"},
	"publish":          {"8080:80", `["8080:80"]`, "8080:80"},
	"allow-read":       {"/in", `["/in"]`, "/in"},
	"allow-write":      {"/out", `["/out"]`, "/out"},
	"deny":             {"/in/*.pem", `["/in/*.pem"]`, "/in/*.pem"},
	"workdir":          {"rw", `"rw"`, "rw"},
	"chdir":            {"/in/x", `"/in/x"`, "/in/x"},
	"mount":            {"/a:/b:rw", `["/a:/b:rw"]`, "/a:/b:rw"},
	"virtual-fs":       {"true", "true", "true"},
	"temp-dir":         {"false", "false", "false"},
	"home":             {"", "true", "true"},
	"landlock":         {"", "true", "true"},
	"etc":              {"", "false", "false"},
	"overlay":          {"/o", `["/o"]`, "/o"},
	"ephemeral-home":   {"true", "true", "true"},
	"keep":             {"false", "false", "false"},
	"rootfs":           {"/r", `"/r"`, "/r"},
	"protect":          {"", `["Makefile"]`, "Makefile"},
	"env":              {"FOO", `["FOO"]`, "FOO"},
	"env-set":          {"", `{ FOO = "1" }`, "FOO=1"},
	"keep-env":         {"true", "true", "true"},
	"seccomp":          {"/s.toml", `"/s.toml"`, "/s.toml"},
	"seccomp-action":   {"log", `"log"`, "log"},
	"isolation":        {"vm", `"vm"`, "vm"},
	"deterministic":    {"true", `true`, "true"},
	"user":             {"7:8", `"7:8"`, "7:8"},
	"vm-kernel":        {"/boot/k", `"/boot/k"`, "/boot/k"},
	"cgroup-parent":    {"/cg", `"/cg"`, "/cg"},
	"allow-partial":    {"memory", `["memory"]`, "memory"},
	"require":          {"network", `["network"]`, "network"},
	"report":           {"fd:3", "", "fd:3"},
	"events":           {"/ev", "", "/ev"},
	"record":           {"/rec", "", "/rec"},
	"json":             {"true", "", "true"},
	"exit-codes":       {"gnu", `"gnu"`, "gnu"},
	"log":              {"quiet", `"quiet"`, "quiet"},
	"log-format":       {"json", `"json"`, "json"},
	"tty":              {"never", `"never"`, "never"},

	"network-bytes":       {"7M", `"7MiB"`, "7M"},
	"network-connections": {"40", "40", "40"},
}

// helped are what an option needs beside it to be valid.
func helped(name string) []Setting {
	if name == "virtual-fs" {
		return []Setting{{Option: "mount", Values: []string{"/a:/b"}}}
	}
	return nil
}

func TestOptionsAreWellFormed(t *testing.T) {
	seen := map[string]string{}
	claim := func(word, by string) {
		if word == "" {
			return
		}
		if other := seen[word]; other != "" {
			t.Errorf("%q belongs to %s and %s", word, other, by)
		}
		seen[word] = by
	}
	for _, o := range Options() {
		claim("--"+o.Name, o.Name)
		if o.Short != "" {
			claim("-"+o.Short, o.Name)
		}
		claim(o.EnvName(), o.Name)
		for _, k := range o.allKeys() {
			claim("["+k+"]", o.Name)
		}
		if o.Name == "" || o.Help == "" || o.Group == "" || o.Kind == 0 || o.field == nil {
			t.Errorf("%s: incomplete: %+v", o.Name, o)
		}
		if o.Kind != KindBool && o.Arg == "" && !o.FileOnly {
			t.Errorf("%s: no word stands for its value in help", o.Name)
		}
		if (o.Kind == KindWord) != (len(o.Words) > 0) {
			t.Errorf("%s: words %v of kind %d", o.Name, o.Words, o.Kind)
		}
		if o.Kind == KindList && o.check == nil {
			t.Errorf("%s: nobody checks its words", o.Name)
		}
		if o.FileOnly && o.Key == "" {
			t.Errorf("%s: can't be said anywhere", o.Name)
		}
		if strings.Contains(o.Help, "\n") || strings.HasSuffix(o.Help, ".") {
			t.Errorf("%s: help is one line without a full stop: %q", o.Name, o.Help)
		}
		if _, ok := samples[o.Name]; !ok {
			t.Errorf("%s: no sample, so nothing tests it", o.Name)
		}
		if got := LookupOption(o.Name); got == nil || got.Name != o.Name {
			t.Errorf("LookupOption(%q) = %v", o.Name, got)
		}
	}
	if LookupOption("nothing") != nil {
		t.Error("an option that isn't there was found")
	}
	if n := LookupOption("time-limit").EnvName(); n != "CONFINE_TIME_LIMIT" {
		t.Errorf("EnvName = %q", n)
	}
}

// Every field of the policy can be said: one that no option reaches could not be
// explained, nor be part of the digest.
func TestEveryFieldOfThePolicyHasAnOption(t *testing.T) {
	var r Resolved
	reached := map[uintptr]bool{}
	for _, o := range Options() {
		reached[reflect.ValueOf(o.field(&r)).Pointer()] = true
	}
	byView := map[string]bool{ // several options share a struct, or none is needed
		"Profile": true, "WorkdirAsked": true, "All": true, "Allow": true, "Pass": true, "Set": true, "trusted": true,
	}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			if f.Kind() == reflect.Struct {
				walk(f, path+name+".")
			} else if !byView[name] && !reached[f.Addr().Pointer()] {
				t.Errorf("%s%s: no option sets it", path, name)
			}
		}
	}
	walk(reflect.ValueOf(&r.Policy).Elem(), "")
}

// An option means the same as a flag, in the environment, in a file, and in a
// profile of a file, and each says where it came from.
func TestEveryOptionFromEveryPlace(t *testing.T) {
	for _, o := range Options() {
		sample := samples[o.Name]
		if o.Name == "config" {
			sample.flag = tempFile(t, "")
			sample.want = sample.flag
		}
		places := map[string]Sources{}
		if !o.FileOnly {
			places["flag --"+o.Name] = Sources{Flags: append(helped(o.Name), Setting{Option: o.Name, Values: []string{sample.flag}})}
			places["environment "+o.EnvName()] = Sources{Flags: helped(o.Name), Environ: []string{o.EnvName() + "=" + sample.flag}}
		}
		if o.Key != "" {
			places["/confine.toml:2"] = Sources{Flags: helped(o.Name), SystemFile: tempFile(t, "[sandbox]\n"+o.Key+" = "+sample.toml+"\n")}
		}
		if o.Key != "" && !o.Run {
			places["profile mine, "] = Sources{
				Flags:      append(helped(o.Name), Setting{Option: "profile", Values: []string{"mine"}}),
				SystemFile: tempFile(t, "[sandbox.profiles.mine]\nextends = 'none'\n"+o.Key+" = "+sample.toml+"\n"),
			}
		}
		for where, src := range places {
			src.Dir, src.Home = t.TempDir(), "/home/u"
			r, err := Resolve(src)
			if err != nil {
				t.Errorf("%s by %s: %v", o.Name, where, err)
				continue
			}
			if got := o.words(r); !slices.Contains(got, sample.want) {
				t.Errorf("%s by %s: %q, want %q", o.Name, where, got, sample.want)
			}
			origins := r.Origins[o.Name]
			if o.Name == "level" {
				origins = r.Origins["profile"]
			}
			if len(origins) == 0 || !strings.Contains(origins[len(origins)-1].Source, where) {
				t.Errorf("%s by %s: its origins are %v", o.Name, where, origins)
			}
		}
	}
}

// The words of a policy can be said again, and give the same policy.
func TestWordsCanBeSaidAgain(t *testing.T) {
	for _, o := range Options() {
		sample := samples[o.Name]
		if o.Run || o.FileOnly {
			continue
		}
		src := Sources{Dir: "/", Flags: append(helped(o.Name), Setting{Option: o.Name, Values: []string{sample.flag}})}
		first, err := Resolve(src)
		must.Do(t, err)
		src.Flags = nil
		for _, o := range Options() {
			if words := o.words(first); !o.Run && !o.FileOnly && len(words) > 0 {
				src.Flags = append(src.Flags, Setting{Option: o.Name, Values: words})
			}
		}
		second, err := Resolve(src)
		must.Do(t, err)
		if first.Policy.Digest() != second.Policy.Digest() {
			t.Errorf("%s: said again, %+v became %+v", o.Name, first.Policy, second.Policy)
		}
		if err := first.Policy.Validate(); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
}

func TestDigestTellsPoliciesApart(t *testing.T) {
	base := Default()
	seen := map[string]string{base.Digest(): "unchanged"}
	for _, o := range Options() {
		if o.Run {
			continue
		}
		r := &Resolved{Policy: Default()}
		canon, err := o.canonical(place{dir: "/"}, samples[o.Name].want)
		must.Do(t, err)
		o.set(r, []string{canon})
		d := r.Policy.Digest()
		if other := seen[d]; other != "" {
			t.Errorf("%s: the digest is that of %s", o.Name, other)
		}
		seen[d] = o.Name
	}
	a, b := Default(), Default()
	a.Network.Allow, b.Network.Allow = []string{"x", "y"}, []string{"y", "x"}
	if a.Digest() != b.Digest() {
		t.Error("the order of hosts changes the digest")
	}
	a.Network.Allow, b.Network.Allow = []string{"x y"}, []string{"x", "y"}
	if a.Digest() == b.Digest() {
		t.Error("one word and two have the same digest")
	}
	if strings.Join(a.Network.Allow, "") != "x y" || strings.Join(b.Network.Allow, "") != "xy" {
		t.Error("the digest changed the policy")
	}
}
