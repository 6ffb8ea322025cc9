package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// Token is the digest of a secret that gives access on TCP. Each is an owner of its own.
type Token [sha256.Size]byte

// minToken is the least length of a token: 128 bits, written in hexadecimal digits.
const minToken = 32

// ParseTokens reads a file of tokens: one a line, each of at least 32 characters; lines that begin with # are comments.
func ParseTokens(text string) ([]Token, error) {
	var all []Token
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) < minToken {
			return nil, fmt.Errorf("line %d has fewer than %d characters", n+1, minToken)
		}
		all = append(all, sha256.Sum256([]byte(line)))
	}
	return all, nil
}

// admit refuses requests from where none may come, whatever they have with them. It says who is at the other end.
func (s *Server) admit(r *http.Request) (*sockets.Peer, error) {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return nil, fail(http.StatusForbidden, codeForbidden, "requests from pages in a browser are refused")
	}
	p := sockets.PeerOf(r)
	switch {
	case p == nil:
		return nil, fail(http.StatusForbidden, codeForbidden, "nobody knows who asks")
	case p.TCP && !s.named(r.Host):
		return nil, fail(http.StatusForbidden, codeForbidden, "the server does not go by the name in Host").hint("ask for its address")
	case p.TCP, p.Account != "", p.UID >= 0 && (p.UID == os.Geteuid() || slices.Contains(s.AllowUIDs, p.UID)):
		return p, nil
	}
	return nil, fail(http.StatusForbidden, codeForbidden, "this user may not use the server").hint("the server's owner allows it by --allow-uid")
}

// authenticate says whose request it is.
func (s *Server) authenticate(r *http.Request) (sandboxes.Owner, error) {
	p, err := s.admit(r)
	switch {
	case err != nil:
		return "", err
	case p.TCP:
		return s.byToken(r)
	case p.Account != "":
		return OwnerOfAccount(p.Account), nil
	}
	return OwnerOf(p.UID), nil
}

// OwnerOf is a user of this system.
func OwnerOf(uid int) sandboxes.Owner { return sandboxes.Owner("uid:" + strconv.Itoa(uid)) }

// OwnerOfAccount is somebody whom whoever listens vouches for.
func OwnerOfAccount(name string) sandboxes.Owner { return sandboxes.Owner("account:" + name) }

// named says whether a Host is that of the server: an address or localhost, and a port that it listens on. Other names may be
// those of a page that had them lead here.
func (s *Server) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	return err == nil && s.ports[port] && (name == "localhost" || net.ParseIP(name) != nil)
}

func (s *Server) byToken(r *http.Request) (sandboxes.Owner, error) {
	scheme, word, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(strings.TrimSpace(word)))
	found := 0
	for _, t := range s.Tokens { // all of them: time says nothing
		found |= subtle.ConstantTimeCompare(t[:], digest[:])
	}
	if found == 0 || !strings.EqualFold(scheme, "Bearer") {
		return "", fail(http.StatusUnauthorized, codeUnauthorized, "a token is needed").hint("send Authorization: Bearer TOKEN, with one of the server's --token-file")
	}
	return sandboxes.Owner("token:" + hex.EncodeToString(digest[:8])), nil
}
