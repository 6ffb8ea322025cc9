package proxied

import (
	"strings"
	"testing"
)

func FuzzProxyHead(f *testing.F) {
	f.Add("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test")
	f.Add("CONNECT [::1]:443 HTTP/1.1")
	f.Fuzz(func(t *testing.T, head string) {
		q, ok := parse([]byte(head), []byte("BODY"))
		if !ok {
			return
		}
		if q.Host == "" || q.Port == 0 || !strings.HasSuffix(string(q.Rest), "BODY") {
			t.Errorf("%+v", q)
		}
		if text := string(q.Rest); !q.Connect && (strings.Count(text, "\r\n\r\n") != 1+strings.Count(head, "\r\n\r\n") || strings.Contains(strings.ToLower(text), "\nproxy-authorization:")) {
			t.Errorf("%q becomes %q", head, q.Rest)
		}
	})
}
