package host

import (
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/hint"
)

// Answer is what became of one attempt.
type Answer string

const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // the attempt broke: nothing is known
)

// Result is the answer of one probe.
type Result struct {
	Name   string `json:"name"`
	Means  string `json:"means"` // what a yes gives
	Answer Answer `json:"answer"`
	Needed bool   `json:"needed"` // by the profile "default", in full

	Version int           `json:"version,omitempty"` // of what has one: the Landlock ABI
	Detail  string        `json:"detail,omitempty"`  // what was tried and what the kernel said
	Errno   syscall.Errno `json:"errno,omitempty"`
	Remedy  string        `json:"remedy,omitempty"` // how to turn the no into a yes; may span lines

	minKernel Kernel
	lacks     string // another probe, whose no this one is
}

// Err is nil for a yes.
func (r Result) Err() error {
	if r.Answer == Yes {
		return nil
	}
	s := r.Name + ": could not be found out"
	if r.Answer == No {
		s = r.Name + ": not supported by this host"
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	if !r.minKernel.IsZero() {
		s += " (needs Linux " + r.minKernel.String() + ")"
	}
	return hint.New(s, r.Remedy)
}

// Results are the answers of all probes.
type Results []Result

// RunDoctor tries everything anew. It takes a few milliseconds.
func RunDoctor() Results { return advised(Current(), tryAll(Current())) }

// advised adds the remedies.
func advised(f *Facts, rs Results) Results {
	for i, r := range rs {
		rs[i] = r.advise(f)
	}
	return rs
}

// Result is the one with that name; ok is false where there is none.
func (rs Results) Result(name string) (r Result, ok bool) {
	for _, r := range rs {
		if r.Name == name {
			return r, true
		}
	}
	return Result{}, false
}

var lately recent[Results]

// examined is tried once a minute, for conditions: hundreds of tests ask.
func examined() Results { return lately.get(time.Minute, RunDoctor) }
