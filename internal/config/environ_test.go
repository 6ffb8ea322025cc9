package config

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	caller := []string{"PATH=/a", "SECRET=x", "LC_ALL=de", "LC_TIME=de", "CONFINE_TIME_LIMIT=1s", "bad", "=x", "PATH=/b"}
	sandbox := map[string]string{"HOME": "/h", "PATH": "/usr/bin"}
	for _, c := range []struct {
		name string
		env  Env
		want []string
	}{
		{"nothing passed", Env{}, []string{"HOME=/h", "PATH=/usr/bin"}},
		{"passed by name and by pattern", Env{Pass: []string{"SECRET", "LC_*"}},
			[]string{"HOME=/h", "LC_ALL=de", "LC_TIME=de", "PATH=/usr/bin", "SECRET=x"}},
		{"set beats everything", Env{Pass: []string{"SECRET"}, Set: map[string]string{"SECRET": "y", "HOME": "/z"}},
			[]string{"HOME=/z", "PATH=/usr/bin", "SECRET=y"}},
		{"all but our own", Env{KeepAll: true}, []string{"HOME=/h", "LC_ALL=de", "LC_TIME=de", "PATH=/usr/bin", "SECRET=x"}},
	} {
		if got := Environment(&c.env, caller, sandbox); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := LookupEnv(caller, "PATH"); got != "/b" {
		t.Errorf("the last one counts: %q", got)
	}
	if LookupEnv(caller, "PAT") != "" || LookupEnv(nil, "PATH") != "" {
		t.Error("found what isn't there")
	}
}
