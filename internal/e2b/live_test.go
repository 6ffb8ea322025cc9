package e2b

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"
)

func TestRulesAreWordsOfTheTemplateUnlessTheySayOthers(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name        string
		rules       Rules
		allow, deny []string // nil: as the template says
		refused     bool
	}{
		{name: "nothing said"},
		{name: "internet", rules: Rules{Internet: &yes}},
		{name: "no internet", rules: Rules{Internet: &no}, allow: []string{}},
		{name: "some", rules: Rules{Allow: []string{"example.com", "10.0.0.0/8"}}, allow: []string{"example.com", "10.0.0.0/8"}},
		{name: "some and no others", rules: Rules{Allow: []string{"example.com"}, Deny: []string{"0.0.0.0/0"}}, allow: []string{"example.com"}},
		{name: "all", rules: Rules{Allow: []string{"0.0.0.0/0"}}, allow: []string{"*"}},
		{name: "none", rules: Rules{Deny: []string{"0.0.0.0/0"}}, allow: []string{}},
		{name: "none of IPv6 either", rules: Rules{Deny: []string{"1.2.3.4", "::/0"}}, allow: []string{}},
		{name: "but one", rules: Rules{Deny: []string{"1.2.3.4"}}, deny: []string{"1.2.3.4"}},
		{name: "the stronger of two", rules: Rules{Allow: []string{"example.com"}, Deny: []string{"1.2.3.4"}}, refused: true},
		{name: "DNS", rules: Rules{DNS: []string{"1.1.1.1"}}, refused: true},
		{name: "proxy", rules: Rules{Proxy: map[string]any{"address": "x"}}, refused: true},
		{name: "rewritten", rules: Rules{Rewrite: map[string]any{"x": 1}}, refused: true},
		{name: "from outside", rules: Rules{Public: &yes}, refused: true},
		{name: "not from outside", rules: Rules{Public: &no}},
	} {
		allow, deny, err := test.rules.Words()
		if (err != nil) != test.refused || !slices.Equal(allow, test.allow) || (allow == nil) != (test.allow == nil) || !slices.Equal(deny, test.deny) {
			t.Errorf("%s: %#v, %#v, %v", test.name, allow, deny, err)
		}
	}
}

// signature is what an SDK signs.
func signature(token, path, operation, user, until string) url.Values {
	text := path + ":" + operation + ":" + user + ":" + token
	q := url.Values{"path": {path}}
	if user != "" {
		q.Set("username", user)
	}
	if until != "" {
		text += ":" + until
		q.Set("signature_expiration", until)
	}
	sum := sha256.Sum256([]byte(text))
	q.Set("signature", "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	return q
}

func TestASignatureIsForOneFileAndOneOperation(t *testing.T) {
	c := newServer(t)
	c.open()
	token := c.values["{token}"]
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	if status, text := c.text(&request{Do: "POST /files?" + signature(token, "a", "write", "", "").Encode(), Head: octets, Body: "x"}); status != http.StatusOK {
		t.Fatal(status, text)
	}
	later, before := fmt.Sprint(time.Now().Unix()+60), fmt.Sprint(time.Now().Unix()-1)
	changed := func(q url.Values, name, value string) url.Values {
		q.Set(name, value)
		return q
	}
	without := func(q url.Values, name string) url.Values {
		q.Del(name)
		return q
	}
	for _, test := range []struct {
		name, method, path string
		query              url.Values
		status             int
	}{
		{"as it was signed", "GET", "/files", signature(token, "a", "read", "", ""), 200},
		{"as the user", "GET", "/files", signature(token, "a", "read", "user", ""), 200},
		{"in time", "GET", "/files", signature(token, "a", "read", "", later), 200},
		{"too late", "GET", "/files", signature(token, "a", "read", "", before), 401},
		{"for longer than was signed", "GET", "/files", changed(signature(token, "a", "read", "", before), "signature_expiration", later), 401},
		{"for ever", "GET", "/files", without(signature(token, "a", "read", "", later), "signature_expiration"), 401},
		{"until no time", "GET", "/files", signature(token, "a", "read", "", "soon"), 401},
		{"another file", "GET", "/files", changed(signature(token, "a", "read", "", ""), "path", "b"), 401},
		{"as another", "GET", "/files", changed(signature(token, "a", "read", "", ""), "username", "root"), 401},
		{"read to write", "POST", "/files", signature(token, "a", "read", "", ""), 401},
		{"write to read", "GET", "/files", signature(token, "a", "write", "", ""), 401},
		{"with no token", "GET", "/files", signature("", "a", "read", "", ""), 401},
		{"with another sandbox's token", "GET", "/files", signature(c.server.token("another"), "a", "read", "", ""), 401},
		{"elsewhere", "POST", "/process.Process/List", signature(token, "a", "write", "", ""), 401},
		{"of health", "GET", "/health", signature(token, "a", "read", "", ""), 401},
	} {
		status, text := c.text(&request{Do: test.method + " " + test.path + "?" + test.query.Encode(), Head: octets, Body: "y"})
		if status != test.status {
			t.Errorf("%s: %d, not %d: %s", test.name, status, test.status, text)
		}
	}
	// Neither one is needed beside a token, nor does it stand in for a wrong one.
	wrong := map[string]string{"X-Access-Token": "no", "E2b-Sandbox-Id": "{id}"}
	if status, _ := c.text(&request{Do: "GET /files?" + signature(token, "a", "read", "", "").Encode(), Head: wrong}); status != 401 {
		t.Error("a signature beside a wrong token:", status)
	}
	c.text(&request{Do: "DELETE /sandboxes/{id}", Head: map[string]string{"X-API-Key": "{key}"}})
	if status, _ := c.text(&request{Do: "GET /files?" + signature(token, "a", "read", "", "").Encode()}); status == 200 {
		t.Error("the files of a sandbox that is gone are read")
	}
}
