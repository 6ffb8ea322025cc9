package peek

import (
	"bytes"
	"strings"
)

// fields are what of a head's fields matters here.
type fields struct {
	hosts     int
	host      string
	lengths   int
	length    string
	encodings int
	encoding  string
	expects   int
	expect    string
	upgrades  []string // protocols
}

// parseFields reads field lines up to the empty one.
func parseFields(b []byte) (*fields, error) {
	f := &fields{}
	for {
		l, rest, found := bytes.Cut(b, []byte("\r\n"))
		if len(l) == 0 {
			if !found || len(rest) != 0 {
				return nil, refuse(BadField, "a head is over before it ends")
			}
			return f, nil
		}
		name, value, err := parseField(l)
		if err != nil {
			return nil, err
		}
		if err = f.note(name, value); err != nil {
			return nil, err
		}
		b = rest
	}
}

// parseField takes a line apart. The name is lower case, the value untrimmed.
func parseField(l []byte) (name, value string, err error) {
	n, v, found := bytes.Cut(l, []byte(":"))
	switch {
	case l[0] == ' ' || l[0] == '\t':
		return "", "", refuse(BadField, "a field of a request is folded")
	case !found || len(n) == 0 || !all(n, token):
		return "", "", refuse(BadField, "a field of a request has no name, or one with a blank or the like in it")
	}
	return strings.ToLower(string(n)), string(v), nil
}

// note keeps a field that matters.
func (f *fields) note(name, value string) error {
	switch name {
	case "host":
		f.hosts++
		f.host = exact(value)
	case "content-length":
		f.lengths++
		f.length = exact(value)
	case "transfer-encoding":
		f.encodings++
		f.encoding = exact(value)
	case "expect":
		f.expects++
		f.expect = exact(value)
	case "upgrade":
		f.upgrades = append(f.upgrades, members(value)...)
	case "connection", "proxy-connection":
		// What it names, a proxy takes out before it passes the request on.
		for _, m := range members(value) {
			if framing(m) {
				return refuse(BadField, "the Connection of a request names a field that has to arrive")
			}
		}
	default:
		// Behind CGI and its like Content_Length is the same variable as Content-Length.
		if framing(strings.ReplaceAll(name, "_", "-")) {
			return refuse(BadField, "a field of a request may be taken for Host, or for one of the length")
		}
	}
	return nil
}

// framing says whether a field decides whom a request is for, or where it ends.
func framing(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "expect":
		return true
	}
	return false
}

// exact is a value without the space in front. Servers differ in what else they trim,
// so that anything else stays, and makes the value wrong.
func exact(value string) string { return strings.TrimPrefix(value, " ") }

// members are the words of a list, lower case.
func members(value string) (all []string) {
	for m := range strings.SplitSeq(value, ",") {
		if m = strings.ToLower(strings.Trim(m, " \t")); m != "" {
			all = append(all, m)
		}
	}
	return all
}
