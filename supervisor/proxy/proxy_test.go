package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// server answers "hello" to whoever connects.
func server(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func rules(t *testing.T, allow ...string) plan.Network {
	t.Helper()
	r, err := network.Compile(network.Policy{Allow: allow, BlockInternal: true})
	must.Do(t, err)
	return plan.Network{Rules: *r}
}

func ask(t *testing.T, p *Proxy, to string) string {
	t.Helper()
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", p.Port))
	must.Do(t, err)
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", to)
	text, _ := io.ReadAll(c)
	return string(text)
}

func TestWhatTheRulesAllow(t *testing.T) {
	at := fmt.Sprintf("localhost:%d", server(t))
	n := rules(t, at)
	told := make(chan status.Attempt, 8)
	p, err := Open(&n, func(a status.Attempt) { told <- a })
	must.Do(t, err)
	defer p.Close()
	if got := ask(t, p, at); !strings.HasSuffix(got, "\r\n\r\nhello") {
		t.Errorf("%q", got)
	}
	if a := <-told; a.Verdict != status.AttemptAllowed || a.What != at {
		t.Errorf("%+v", a)
	}
	if got := ask(t, p, "evil.test:443"); !strings.Contains(got, " 403 ") || !strings.Contains(got, "--allow-network") {
		t.Errorf("%q", got)
	}
	if a := <-told; a.Verdict != status.AttemptBlocked || a.What != "evil.test:443" {
		t.Errorf("%+v", a)
	}
	list, times := p.Refused()
	if len(list) != 1 || times != 1 || len(p.Traffic().Attempts) != 2 {
		t.Errorf("%+v, %d, %+v", list, times, p.Traffic())
	}
}

func TestALimitOfBytesIsTold(t *testing.T) {
	at := fmt.Sprintf("localhost:%d", server(t))
	n := rules(t, at)
	n.MaxBytes = 1
	told := make(chan status.Attempt, 8)
	p, err := Open(&n, func(a status.Attempt) { told <- a })
	must.Do(t, err)
	defer p.Close()
	if got := ask(t, p, at); strings.Contains(got, "hello") {
		t.Errorf("%q", got)
	}
	if a := <-told; !Exhausted(&a) {
		t.Errorf("%+v", a)
	}
}

// TestEnvironment: both spellings, since curl takes http_proxy in small letters alone, and no exceptions that the caller has.
func TestEnvironment(t *testing.T) {
	env := Environ(1234)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if env[name] != "http://127.0.0.1:1234" {
			t.Errorf("%s is %q", name, env[name])
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if value, ok := env[name]; !ok || value != "" {
			t.Errorf("%s is %q", name, value)
		}
	}
}
