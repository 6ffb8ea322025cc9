package main

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// serveWeb serves HTTP/1 and HTTP/2, both in the clear and over TLS.
func serveWeb(ca *authority, dir string) error {
	files := http.FileServer(http.Dir(filepath.Join(dir, "served")))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.add("http %s %s %s", r.Method, r.Host, r.RequestURI)
		switch {
		case r.Method == http.MethodConnect:
			tunnel(w, r)
		case r.URL.Path == "/ws":
			upgrade(w)
		case r.URL.Path == "/big":
			much(w, r)
		case r.URL.Path == "/sum":
			sum(w, r)
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/files/"):
			http.StripPrefix("/files", files).ServeHTTP(w, r)
		default:
			to := r.Context().Value(http.LocalAddrContextKey)
			fmt.Fprintf(w, "reached %s %s at %s by %s\n", r.Host, r.URL.Path, to, r.Proto)
		}
	})
	silent := log.New(io.Discard, "", 0)
	plain := &http.Server{Handler: handler, ErrorLog: silent, Protocols: new(http.Protocols)}
	plain.Protocols.SetHTTP1(true)
	plain.Protocols.SetUnencryptedHTTP2(true)
	for _, port := range []string{"80", "8080", "3128", "443", "8443"} {
		l, err := net.Listen("tcp", "[::]:"+port)
		if err != nil {
			return err
		}
		told := toldOf(l)
		if strings.HasSuffix(port, "443") {
			secure := &http.Server{Handler: handler, ErrorLog: silent, TLSConfig: &tls.Config{GetCertificate: ca.certificate}}
			go func() { _ = secure.ServeTLS(told, "", "") }()
		} else {
			go func() { _ = plain.Serve(told) }()
		}
	}
	return nil
}

// tunnel is what an open proxy does.
func tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, rest := taken(w)
	if here == nil {
		return
	}
	defer here.Close()
	_, _ = here.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	go func() {
		_, _ = io.Copy(there, rest)
		_ = there.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(here, there)
}

// upgrade agrees to whatever protocol, and echoes.
func upgrade(w http.ResponseWriter) {
	c, rest := taken(w)
	if c == nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"))
	_, _ = io.Copy(c, rest)
}

func taken(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		return nil, nil
	}
	c, rest, err := h.Hijack()
	if err != nil {
		return nil, nil
	}
	return c, rest
}

// pattern is bytes that any program can tell from others.
type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte((p.at + int64(i)) % 251)
	}
	p.at += int64(len(b))
	return len(b), nil
}

func much(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.URL.RawQuery, 10, 64)
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, &pattern{}, n)
}

// sum says how long a body was, and what it held.
func sum(w http.ResponseWriter, r *http.Request) {
	h := sha1.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		seen.add("body %v", err)
		return
	}
	fmt.Fprintf(w, "%d %s\n", n, base64.StdEncoding.EncodeToString(h.Sum(nil)))
}
