package peek

import "bytes"

// Request is the head of one.
type Request struct {
	Method string
	Target string // as it is written
	// Path is that of the target, as it is written: nothing in it is decoded or
	// cleaned, and the query is cut off. Empty for CONNECT, and "*" for the whole server.
	Path string
	// Authority is that of the target, if it has one: of a proxy's request, and of CONNECT.
	Authority string
	// Host is the field's, canonical as ServerName's, but for one dot that is cut off
	// at the end; or an address as netip writes it. Of CONNECT, which names two, it is
	// the field's too, if there is one.
	Host string
	Port uint16 // behind it; 0: none
}

// head is what a head says to the server beside what it asks for.
type head struct {
	Request
	one     bool  // HTTP/1.0
	length  int64 // of the body
	chunked bool
	upgrade bool // to what isn't HTTP any more
}

// parseHead reads a head, with the empty line at its end. Each line ends in CR LF
// and has no other control characters than tabs.
func parseHead(b []byte) (h head, err error) {
	first, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if err = h.parseLine(first); err != nil {
		return h, err
	}
	f, err := parseFields(rest)
	if err != nil {
		return h, err
	}
	if err = h.frame(f); err != nil {
		return h, err
	}
	return h, h.address(f)
}

// parseLine reads the request line.
func (h *head) parseLine(l []byte) error {
	if len(l) == 0 {
		return refuse(BadRequestLine, "an empty line comes before a request")
	}
	parts := bytes.Split(l, []byte(" "))
	if len(parts) != 3 {
		return refuse(BadRequestLine, "a request line isn't a method, a target and a version, one space apart")
	}
	switch string(parts[2]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.one = true
	default:
		return refuse(BadVersion, "a request is of another version than HTTP/1.1 and HTTP/1.0")
	}
	if len(parts[0]) == 0 || !all(parts[0], token) || string(parts[0]) == "PRI" {
		return refuse(BadRequestLine, "a request has no method")
	}
	h.Method, h.Target = string(parts[0]), string(parts[1])
	return h.parseTarget()
}

// address settles whom the request is for.
func (h *head) address(f *fields) error {
	if h.Method == methodConnect {
		if f.hosts == 1 {
			h.Host, h.Port, _ = parseHost(f.host)
		}
		return nil // refused anyhow
	}
	switch {
	case f.hosts == 0:
		return refuse(NoHost, "a request has no Host")
	case f.hosts > 1:
		return refuse(TwoHosts, "a request has two Hosts")
	}
	var err error
	if h.Host, h.Port, err = parseHost(f.host); err != nil {
		return err
	}
	if h.Authority == "" {
		return nil
	}
	host, port, err := parseHost(h.Authority)
	if err != nil {
		return err
	}
	if host != h.Host || plain(port) != plain(h.Port) {
		return refuse(HostMismatch, "the target of a request has another host than its Host")
	}
	return nil
}

// plain is the port of a URL.
func plain(port uint16) uint16 {
	if port == 0 {
		return 80
	}
	return port
}

func all(b []byte, is func(byte) bool) bool {
	for _, c := range b {
		if !is(c) {
			return false
		}
	}
	return true
}
