package windows

import (
	"errors"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"

	"github.com/confine-run/confine/backend"
)

// Doctor tries what a run needs, each by itself, and leaves nothing behind.
func Doctor() []host.Result {
	policy := config.Default()
	p, _ := newPlan(&backend.Spec{Policy: &policy, Dir: `C:\`}, facts{CPUs: 1})
	results := []host.Result{tryJob(p), tryToken(), tryDesktop(), {
		Name: "create_process_with_token", Means: "a process is created by a service, which needs the privilege", Answer: host.No,
		Detail: ladder[0].lacks(&spawn{}), Remedy: "it is of use to services and administrators; without it the next way is taken",
	}}
	if with := &results[3]; with.Detail == "" {
		with.Answer, with.Remedy = host.Yes, ""
	}
	for _, c := range []struct{ name, means string }{
		{"reads", "what the user may read can be hidden"},
		{"network", "the network can be taken away, or held to hosts"},
		{"syscalls", "system calls can be filtered"},
	} {
		results = append(results, host.Result{Name: c.name, Means: c.means, Answer: host.No, Needed: true, Detail: "nothing of this backend holds it",
			Remedy: "--allow-partial goes on without, and the report says so"})
	}
	return append(results, leftBehind())
}

func answered(r host.Result, problems ...string) host.Result {
	r.Answer = host.Yes
	if len(problems) > 0 {
		r.Answer, r.Detail = host.No, strings.Join(problems, "\n")
	}
	return r
}

func tryJob(p *Plan) host.Result {
	r := host.Result{Name: "job_object", Means: "limits on memory, processes and CPU, and an end of everybody together", Needed: true}
	p.Job.Rate, p.Job.Affinity = 5000, 1
	for _, c := range []status.Capability{status.CPURate, status.CPUs} {
		p.Lines.Ask(c, "1")
		p.Lines.Enforced(c, "job_object", "")
	}
	j, err := openJob(p)
	if err != nil {
		return answered(r, err.Error())
	}
	j.close()
	var problems []string
	for _, c := range []status.Capability{status.Containment, status.Memory, status.Tasks, status.CPUTime, status.CPURate, status.CPUs} {
		if e := p.Lines[c]; e.FallbackReason == status.NotApplied {
			problems = append(problems, string(c)+": "+e.Details)
		}
	}
	return answered(r, problems...)
}

func tryToken() host.Result {
	r := host.Result{Name: "restricted_token", Means: "no privileges, and writes held to what is granted to a SID of the run", Needed: true}
	sid, err := parseSID(newSID())
	if err != nil {
		return answered(r, err.Error())
	}
	t, err := newToken(sid)
	if err != nil {
		return answered(r, err.Error())
	}
	defer t.Close()
	return answered(r, t.said...)
}

func tryDesktop() host.Result {
	r := host.Result{Name: "desktop", Means: "a window station and a desktop of the run's own", Needed: true}
	sid := newSID()
	s := &sandbox{}
	t, err := ownToken(nil, errors.ErrUnsupported)
	if err == nil {
		defer t.Close()
		s.token = t
		if err = s.privateDesktop(sid); err == nil {
			s.desktop.close()
		}
	}
	if err != nil {
		return answered(r, err.Error())
	}
	return answered(r)
}
