package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
	"github.com/confine-run/confine/status"
)

// Client speaks to a server.
type Client struct {
	http.Client
	dial  func(context.Context) (net.Conn, error)
	base  string // "http://HOST:PORT"
	token string
}

// NewClient makes one of a server on a unix socket. Nothing is connected yet.
func NewClient(socket string) *Client {
	return NewClientBy(func(ctx context.Context) (net.Conn, error) { return sockets.Dial(ctx, socket) })
}

// NewClientBy makes one of a server that is reached by connections of another kind.
func NewClientBy(dial func(context.Context) (net.Conn, error)) *Client {
	c := &Client{dial: dial, base: "http://confine"}
	c.Transport = &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return c
}

// NewClientOf makes a client of a server by its address: unix:PATH, or http://HOST:PORT with a token.
func NewClientOf(address, token string) (*Client, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return NewClient(strings.TrimPrefix(path, "//")), nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, &config.UsageError{Msg: fmt.Sprintf("%q is no address of a server", address), Hint: "it is unix:PATH, http://HOST:PORT or https://HOST:PORT"}
	}
	c := &Client{base: u.Scheme + "://" + u.Host, token: token, dial: func(context.Context) (net.Conn, error) { return nil, errors.ErrUnsupported }}
	c.Transport = &http.Transport{DisableCompression: true, DialContext: (&net.Dialer{}).DialContext}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Error is what a server refused.
type Error struct {
	Status             int
	Code, Detail, Hint string
	Report             *status.Report
	Paths              []PathProblem
	More               int // paths that are not listed
}

func (e *Error) Error() string { return hint.Text(e.Detail, e.Hint) }

// Remedy is Hint.
func (e *Error) Remedy() string { return e.Hint }

// ErrCut is the answer to a stream that ended without its last frame.
var ErrCut = errors.New("the stream was cut before its end")

// send gives an answer that is no problem. Its body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path, accept string, body io.Reader, more ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	answer, err := c.Client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	var p problem
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBody)).Decode(&p); err != nil {
		return nil, fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil, &Error{p.Status, p.Code, p.Detail, p.Hint, p.Report, p.Paths, p.More}
}

// Do sends a document and reads one; either may be nil.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	var from io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		from = bytes.NewReader(text)
	}
	answer, err := c.send(ctx, method, path, "", from)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// Once sends a document that creates something, once for a key, and reads the answer.
func (c *Client) Once(ctx context.Context, path, key string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, http.MethodPost, path, "", bytes.NewReader(text), "Idempotency-Key", key)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

// Get copies what a path gives, octets, to a writer.
func (c *Client) Get(ctx context.Context, path string, to io.Writer) error {
	answer, err := c.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(to, answer.Body)
	return err
}

// Put sends octets to a path.
func (c *Client) Put(ctx context.Context, method, path string, from io.Reader) error {
	answer, err := c.send(ctx, method, path, "", from)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Frames gives the frames of a log after one, up to the last of all, which is of type last.
func (c *Client) Frames(ctx context.Context, path string, after uint64, last string, each func(*sandboxes.Frame) error) error {
	answer, err := c.send(ctx, http.MethodGet, path+"?follow=1&from="+strconv.FormatUint(after, 10), ndjson, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return ErrCut
		}
		if err != nil {
			return err
		}
		var f sandboxes.Frame
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		if err := each(&f); err != nil {
			return err
		}
		if f.Type == last {
			return nil
		}
	}
}

// Terminal connects to the terminal of a process.
func (c *Client) Terminal(ctx context.Context, path string) (net.Conn, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: confine\r\nConnection: Upgrade\r\nUpgrade: "+ttyProtocol+"\r\n\r\n"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	lines := bufio.NewReader(conn)
	answer, err := http.ReadResponse(lines, nil)
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(path + ": " + answer.Status)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &upgraded{conn, lines}, nil
}

// upgraded is a connection of which some may have been read already.
type upgraded struct {
	net.Conn
	read *bufio.Reader
}

func (u *upgraded) Read(b []byte) (int, error) { return u.read.Read(b) }
