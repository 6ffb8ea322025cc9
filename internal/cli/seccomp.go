package cli

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/confine/seccomp"
	"github.com/confine-run/confine/internal/host"
)

// rcInvalid: "seccomp check" was given what is no policy.
const rcInvalid = 2

// policies is one call of "confine seccomp".
type policies struct {
	*session
	names  []string // policies that ship, or files
	arch   string   // "" when it wasn't said
	action seccomp.Action
	kernel seccomp.Kernel
	json   bool
	bpf    bool
}

// seccomp shows, checks and compares policies over system calls.
func (s *session) seccomp(args []string) int {
	c := lookup("seccomp")
	line, err := words(c, args, 3)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page(c.Name)
	}
	p := policies{session: s, action: seccomp.ActionErrno}
	if err := p.settings(line.Settings); err != nil {
		return s.usage(err)
	}
	if len(line.Rest) == 0 {
		return s.usage(&confine.UsageError{Msg: "seccomp: not said what to do", Hint: "usage: confine seccomp " + c.Args})
	}
	p.names = line.Rest[1:]
	verb, least, most, rest := p.show, 0, 1, "[POLICY]"
	switch line.Rest[0] {
	case "show":
	case "check":
		verb, least, most, rest = p.check, 1, 1, "FILE"
	case "diff":
		verb, least, most, rest = p.diff, 2, 2, "POLICY POLICY"
	default:
		return s.usage(unknownWord("word after seccomp", line.Rest[0], c.Words))
	}
	if n := len(p.names); n < least || n > most {
		return s.usage(&confine.UsageError{Msg: "seccomp " + line.Rest[0] + ": " + strconv.Itoa(n) + " policies were named",
			Hint: "usage: confine seccomp " + line.Rest[0] + " " + rest})
	}
	if p.bpf && line.Rest[0] != "show" {
		return s.usage(&confine.UsageError{Msg: "--bpf: only \"seccomp show\" prints the program"})
	}
	return verb()
}

// settings reads the options; the last of each holds.
func (p *policies) settings(all []confine.Setting) error {
	for _, set := range all {
		word := set.Values[0]
		switch set.Option {
		case "json", "bpf":
			on, err := strconv.ParseBool(word)
			if err != nil || word != "true" && word != "false" {
				return &confine.UsageError{Msg: "--" + set.Option + ": " + strconv.Quote(word) + ` is neither "true" nor "false"`}
			}
			if set.Option == "json" {
				p.json = on
			} else {
				p.bpf = on
			}
		case "arch":
			if !slices.Contains(policyArches, word) {
				return unknownWord("architecture", word, policyArches)
			}
			p.arch = word
		case "action":
			if !slices.Contains(policyActions, word) {
				return unknownWord("action", word, policyActions)
			}
			p.action = seccomp.Action(word)
		case "kernel":
			v := host.ParseKernel(word)
			if v.IsZero() {
				return &confine.UsageError{Msg: "--kernel: " + strconv.Quote(word) + " is no kernel version", Hint: "--kernel 6.1"}
			}
			p.kernel = seccomp.Kernel(v)
		}
	}
	if p.kernel == (seccomp.Kernel{}) {
		p.kernel = seccomp.Kernel(host.Current().Kernel())
	}
	return nil
}

// ownArch is the architecture that was named, or else this one, or else the most
// frequent one.
func (p *policies) ownArch() string {
	switch {
	case p.arch != "":
		return p.arch
	case slices.Contains(policyArches, runtime.GOARCH):
		return runtime.GOARCH
	}
	return policyArches[0]
}

// load reads a policy by the name it was given: "default", "strict/1" or a file.
func (p *policies) load(name, arch string) (*seccomp.Policy, error) {
	on := seccomp.Target{Arch: arch, Kernel: p.kernel}
	for _, word := range policyWords {
		if name == word || name == word+"/1" {
			return seccomp.LoadFor(word, on)
		}
	}
	file, err := seccomp.LoadFor(name, on)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, `/\.`) {
		return nil, unknownWord("policy", name, policyWords)
	}
	return file, err
}

var (
	policyWords   = []string{"default", "strict"}
	policyArches  = []string{"amd64", "arm64"}
	policyActions = []string{"errno", "kill", "log"}
)
