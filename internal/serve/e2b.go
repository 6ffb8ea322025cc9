package serve

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/e2b"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// The names of what --api takes.
const (
	apiConfine = "confine"
	apiE2B     = "e2b"
)

// homeSize is how much there is room for in the home directory of a sandbox of E2B's, where its policy doesn't allow less.
const homeSize = 1 << 30

// apis reads a list of APIs.
func apis(word string) (confine, forE2B bool, err error) {
	for _, name := range strings.Split(word, ",") {
		switch name {
		case apiConfine:
			confine = true
		case apiE2B:
			forE2B = true
		default:
			return false, false, &config.UsageError{Msg: "--api: " + name + " is no API", Hint: "there are confine and e2b, and both: confine,e2b"}
		}
	}
	return confine, forE2B, nil
}

// e2bSide is a server as E2B's API has it: with its owners, its policies and its ceiling.
type e2bSide struct {
	*Server
	api *e2b.Server
}

func newE2B(s *Server) *e2bSide {
	side := &e2bSide{Server: s}
	side.api = e2b.New(e2b.Options{
		Manager: s.Manager,
		Admit: func(r *http.Request) error {
			_, err := s.admit(r)
			return err
		},
		Owner: side.owner,
		Request: func(owner sandboxes.Owner, r *http.Request) (done func(), ok bool) {
			if done, ok = s.requests.take(owner, 1, int64(conns()*3/4)); ok {
				sockets.PeerOf(r).Serve()
			}
			return done, ok
		},
		Large: func(owner sandboxes.Owner, _ *http.Request) (func(), bool) {
			return s.bodies.share.take(owner, maxBody, maxBodies)
		},
		Template: template, Spec: side.spec,
		Explain: func(err error) (int, string) {
			p := problemOf(err)
			if p.Hint != "" {
				return p.Status, p.Detail + "; hint: " + p.Hint
			}
			return p.Status, p.Detail
		},
		BodyTime: bodyTime, WriteTime: writeTime,
	})
	return side
}

// owner is authenticate, and the token may come as X-API-Key.
func (s *e2bSide) owner(r *http.Request) (sandboxes.Owner, error) {
	if key := r.Header.Get("X-API-Key"); key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return s.authenticate(r)
}

// answer answers a request, and one that makes a sandbox and has an Idempotency-Key once.
func (s *e2bSide) answer(w http.ResponseWriter, r *http.Request) {
	owner, err := s.owner(r)
	s.stats.count(owner, counts{requests: 1})
	if r.Method != http.MethodPost || r.Header.Get("Idempotency-Key") == "" || !strings.HasSuffix(r.URL.Path, "/sandboxes") {
		s.api.ServeHTTP(w, r)
		return
	}
	c := &call{w: w, Request: r, owner: owner, bodies: &s.bodies, control: http.NewResponseController(w)}
	defer c.over()
	if err == nil {
		err = s.once(func(c *call) error {
			s.api.ServeHTTP(c.w, c.Request)
			return nil
		})(c)
	}
	if err != nil {
		s.api.Refuse(w, err)
	}
}

// template says whether there is one: "base" is what requests get that name no profile, any other name is that of a profile.
func template(name string) bool {
	return name == "" || name == e2b.Base || slices.Contains(config.Profiles(), name)
}

// spec is what a template is, with a network by the rules. Its home is a private place.
func (s *e2bSide) spec(name string, rules *e2b.Rules) (*backend.Spec, error) {
	doc := policyDoc{}
	if !template(name) {
		return nil, fail(http.StatusNotFound, codeNotFound, "template '"+name+"' not found").hint(`it is "base", a profile, or a snapshot: ` + strings.Join(config.Profiles(), ", "))
	}
	if name != "" && name != e2b.Base {
		doc["profile"] = []byte(`"` + name + `"`)
	}
	allow, deny, err := rules.Words()
	if err != nil {
		return nil, err
	}
	for option, words := range map[string][]string{"allow_network": allow, "deny_network": deny} {
		if words != nil {
			doc[option], _ = json.Marshal(words) // plain data
		}
	}
	spec, err := s.Server.spec(doc, "")
	if err != nil {
		return nil, err
	}
	s.lift(spec)
	p := spec.Policy
	if i := rules.Internet; i != nil && *i && !p.Network.All && !slices.Contains(p.Network.Allow, "*") {
		return nil, fail(http.StatusBadRequest, codePolicy, "allow_internet_access: the policy of this template does not allow all of the network").hint("leave it away: the network is as the template's policy says")
	}
	p.Network.Log = !p.Network.All // a gateway hears what is tried, so that the rules can be others later
	size := int64(homeSize)
	if p.DiskLimit > 0 {
		size = min(size, p.DiskLimit)
	}
	p.Filesystem.Mounts = append(slices.Clone(p.Filesystem.Mounts), config.Mount{Dst: e2b.Home, Size: size})
	p.Filesystem.Chdir = e2b.Home
	p.Env.Set = maps.Clone(p.Env.Set)
	if p.Env.Set == nil {
		p.Env.Set = map[string]string{}
	}
	maps.Copy(p.Env.Set, map[string]string{"HOME": e2b.Home, "USER": "user", "LOGNAME": "user", "E2B_SANDBOX": "true"})
	return spec, p.Validate()
}
