// Package seatbelttest reads profiles of the sandbox of macOS, and decides by them as its kernel does: of all rules that match an operation the
// last one counts. It knows what profiles of ours are made of, and nothing else: a word that it doesn't know is an error, since sandbox-exec would
// refuse all of the profile for one.
package seatbelttest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Profile is one that was read.
type Profile struct {
	rules  []rule
	params map[string]string
	// Strict: a path is no subpath of itself.
	Strict bool
}

type rule struct {
	allow   bool
	ops     []string
	filters []node // one of them has to match; none: everything does
}

// node is an expression: a list, or an atom.
type node struct {
	list []node
	atom string
	kind byte // 'a' a word, 's' a string, 'r' a regular expression, 'l' a list
}

// Query is an operation, and on what.
type Query struct {
	Op   string
	Path string // canonical
	Name string // of a service, or of a setting
	Host string // "localhost" or another
	Port int
}

// operations are those that the kernel has, by the words of profiles. What ends in a star stands for all that begin so.
var operations = []string{
	"default", "file-clone", "file-ioctl", "file-link", "file-map-executable", "file-read*", "file-read-data", "file-read-metadata", "file-read-xattr",
	"file-test-existence", "file-write*", "file-write-acl", "file-write-create", "file-write-data", "file-write-flags", "file-write-mode",
	"file-write-owner", "file-write-setugid", "file-write-times", "file-write-unlink", "file-write-xattr", "iokit-open", "ipc-posix-sem", "ipc-posix-shm*",
	"mach-lookup", "network-bind",
	"network-inbound", "network-outbound", "process-exec*", "process-fork", "process-info*", "pseudo-tty", "signal", "sysctl-read", "sysctl-write",
	"system-mac-syscall", "system-socket",
}

// Parse reads a profile with the values of its parameters.
func Parse(text string, params map[string]string) (*Profile, error) {
	p := &Profile{params: params}
	r := reader{text: text}
	for i := 0; ; i++ {
		n, err := r.next()
		if err != nil {
			return nil, err
		}
		if n == nil {
			return p, nil
		}
		if i == 0 {
			if n.String() != "(version 1)" {
				return nil, fmt.Errorf("it begins with %s", n)
			}
			continue
		}
		if err := p.rule(n); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
	}
}

func (p *Profile) rule(n *node) error {
	if n.kind != 'l' || len(n.list) < 2 || n.list[0].atom != "allow" && n.list[0].atom != "deny" {
		return fmt.Errorf("it is no rule")
	}
	r := rule{allow: n.list[0].atom == "allow"}
	for _, x := range n.list[1:] {
		switch {
		case x.kind == 'a' && len(r.filters) == 0:
			if !slices.Contains(operations, x.atom) {
				return fmt.Errorf("no such operation: %s", x.atom)
			}
			r.ops = append(r.ops, x.atom)
		case x.kind == 'l':
			if err := p.check(&x); err != nil {
				return err
			}
			r.filters = append(r.filters, x)
		default:
			return fmt.Errorf("%s stands where a filter has to", &x)
		}
	}
	if len(r.ops) == 0 {
		return fmt.Errorf("it is about no operation")
	}
	p.rules = append(p.rules, r)
	return nil
}

// check refuses filters that aren't known, and parameters that have no value.
func (p *Profile) check(n *node) error {
	if len(n.list) < 2 || n.list[0].kind != 'a' {
		return fmt.Errorf("%s is no filter", n)
	}
	args := n.list[1:]
	switch word := n.list[0].atom; word {
	case "require-all", "require-any", "require-not":
		if word == "require-not" && len(args) != 1 {
			return fmt.Errorf("require-not takes one filter")
		}
		for i := range args {
			if err := p.check(&args[i]); err != nil {
				return err
			}
		}
		return nil
	case "regex":
		if len(args) != 1 || args[0].kind != 'r' {
			return fmt.Errorf("%s: it takes #\"…\"", word)
		}
		_, err := regexp.Compile(args[0].atom)
		return err
	case "remote", "local":
		if args[0].atom == "unix-socket" && len(args) == 1 {
			return nil
		}
		if args[0].atom == "unix-socket" && len(args) == 2 {
			return p.check(&args[1])
		}
		if len(args) != 2 || args[0].atom != "ip" || args[1].kind != 's' {
			return fmt.Errorf("%s takes ip and HOST:PORT, or unix-socket", word)
		}
		host, port, ok := strings.Cut(args[1].atom, ":")
		if !ok || host != "localhost" && host != "*" {
			return fmt.Errorf("a host is localhost or *: %q", args[1].atom)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "*" {
			return err
		}
		return nil
	case "target", "mac-syscall-number", "socket-domain":
		return nil
	case "literal", "path-literal", "subpath", "global-name", "sysctl-name", "sysctl-name-prefix", "ipc-posix-name", "iokit-registry-entry-class", "extension", "mac-policy-name":
		if len(args) != 1 {
			return fmt.Errorf("%s takes one word", word)
		}
		_, err := p.value(&args[0])
		return err
	default:
		return fmt.Errorf("no such filter: %s", word)
	}
}

// value is a string, or that of a parameter.
func (p *Profile) value(n *node) (string, error) {
	if n.kind == 's' {
		return n.atom, nil
	}
	if n.kind == 'l' && len(n.list) == 2 && n.list[0].atom == "param" && n.list[1].kind == 's' {
		if v, ok := p.params[n.list[1].atom]; ok {
			return v, nil
		}
		return "", fmt.Errorf("the parameter %s has no value", n.list[1].atom)
	}
	return "", fmt.Errorf("%s is no text", n)
}

// Allows decides.
func (p *Profile) Allows(q Query) bool {
	for i := len(p.rules) - 1; i >= 0; i-- {
		r := &p.rules[i]
		if slices.ContainsFunc(r.ops, func(op string) bool { return covers(op, q.Op) }) &&
			(len(r.filters) == 0 || slices.ContainsFunc(r.filters, func(f node) bool { return p.matches(&f, q) })) {
			return r.allow
		}
	}
	return false
}

func covers(op, asked string) bool {
	prefix, all := strings.CutSuffix(op, "*")
	return op == "default" || op == asked || all && strings.HasPrefix(asked, prefix)
}

func (p *Profile) matches(f *node, q Query) bool {
	args := f.list[1:]
	text, _ := p.value(&args[0])
	switch f.list[0].atom {
	case "require-all":
		return !slices.ContainsFunc(args, func(a node) bool { return !p.matches(&a, q) })
	case "require-any":
		return slices.ContainsFunc(args, func(a node) bool { return p.matches(&a, q) })
	case "require-not":
		return !p.matches(&args[0], q)
	case "literal", "path-literal":
		return q.Path != "" && q.Path == text
	case "subpath":
		dir := strings.TrimSuffix(text, "/")
		return q.Path != "" && (q.Path == text && !p.Strict || strings.HasPrefix(q.Path, dir+"/") && q.Path != text)
	case "regex":
		return q.Path != "" && regexp.MustCompile(args[0].atom).MatchString(q.Path)
	case "global-name", "sysctl-name", "ipc-posix-name":
		return q.Name == text
	case "sysctl-name-prefix":
		return strings.HasPrefix(q.Name, text)
	case "remote", "local":
		if args[0].atom == "unix-socket" {
			return q.Path != "" && (len(args) == 1 || p.matches(&args[1], q))
		}
		host, port, _ := strings.Cut(args[1].atom, ":")
		return q.Port != 0 && (host == "*" || host == q.Host) && (port == "*" || port == strconv.Itoa(q.Port))
	}
	return false // what depends on more than a question says
}

func (n *node) String() string {
	switch n.kind {
	case 's':
		return strconv.Quote(n.atom)
	case 'r':
		return "#\"" + n.atom + "\""
	case 'a':
		return n.atom
	}
	words := make([]string, len(n.list))
	for i := range n.list {
		words[i] = n.list[i].String()
	}
	return "(" + strings.Join(words, " ") + ")"
}

// reader reads expressions.
type reader struct {
	text string
	at   int
}

// next is the next expression; nil is the end.
func (r *reader) next() (*node, error) {
	r.skip()
	if r.at == len(r.text) {
		return nil, nil
	}
	switch c := r.text[r.at]; c {
	case '(':
		r.at++
		n := &node{kind: 'l'}
		for {
			if r.skip(); r.at < len(r.text) && r.text[r.at] == ')' {
				r.at++
				return n, nil
			}
			x, err := r.next()
			if err != nil {
				return nil, err
			}
			if x == nil {
				return nil, fmt.Errorf("a list has no end")
			}
			n.list = append(n.list, *x)
		}
	case ')':
		return nil, fmt.Errorf("a list ends that never began, at byte %d", r.at)
	case '"':
		return r.quoted('s')
	case '#':
		r.at++
		if r.at == len(r.text) || r.text[r.at] != '"' {
			return nil, fmt.Errorf("what is # at byte %d", r.at)
		}
		return r.quoted('r')
	}
	end := strings.IndexAny(r.text[r.at:], " \t\n();\"")
	if end < 0 {
		end = len(r.text) - r.at
	}
	word := r.text[r.at : r.at+end]
	r.at += end
	return &node{kind: 'a', atom: word}, nil
}

// quoted reads a string. None of ours has a character that would have to be escaped.
func (r *reader) quoted(kind byte) (*node, error) {
	body, _, ok := strings.Cut(r.text[r.at+1:], `"`)
	if !ok || strings.ContainsAny(body, "\n") || kind == 's' && strings.Contains(body, `\`) {
		return nil, fmt.Errorf("a string has no end, or something escaped, at byte %d", r.at)
	}
	r.at += len(body) + 2
	return &node{kind: kind, atom: body}, nil
}

// skip passes white space and comments.
func (r *reader) skip() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == ';':
			end := strings.IndexByte(r.text[r.at:], '\n')
			if end < 0 {
				end = len(r.text) - r.at
			}
			r.at += end
		case strings.IndexByte(" \t\n", c) >= 0:
			r.at++
		default:
			return
		}
	}
}
