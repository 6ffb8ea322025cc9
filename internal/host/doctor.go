package host

import "sync"

// Doctor is all answers for this host.
type Doctor struct {
	Results []Result `json:"results"`
	// DefaultProfileEnforceable: everything that the profile "default" needs
	// to be enforced in full has the answer yes.
	DefaultProfileEnforceable bool `json:"default_profile_enforceable"`
}

// RunDoctor tries everything anew. It takes a few milliseconds.
func RunDoctor() Doctor { return examine(Current(), tryAll) }

func examine(f *Facts, try func(*Facts) []Result) Doctor {
	d := Doctor{Results: try(f), DefaultProfileEnforceable: true}
	for i, r := range d.Results {
		d.Results[i] = r.advise(f)
		if r.Needed && r.Answer != Yes {
			d.DefaultProfileEnforceable = false
		}
	}
	return d
}

// Missing are the results that keep the profile "default" from being
// enforced in full.
func (d Doctor) Missing() (rs []Result) {
	for _, r := range d.Results {
		if r.Needed && r.Answer != Yes {
			rs = append(rs, r)
		}
	}
	return rs
}

// Result is the one with that name; ok is false where there is none.
func (d Doctor) Result(name string) (r Result, ok bool) {
	for _, r := range d.Results {
		if r.Name == name {
			return r, true
		}
	}
	return Result{}, false
}

// examined is tried once per process, for conditions: a host does not change
// while a test runs, and hundreds of them ask.
var examined = sync.OnceValue(RunDoctor)
