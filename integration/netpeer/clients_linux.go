package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

var clientWords = []attempts.Try{
	{Name: "say", Args: 1, Do: talk(say)}, // ADDRESS TEXT…: as quoted in Go, one write each; prints the answer until its end
	{Name: "udp", Args: 2, Do: udp},       // ADDRESS TEXT: and waits for an answer from there
	{Name: "fire", Args: 2, Do: fire},     // ADDRESS TEXT…: datagrams, and is gone
	{Name: "listen", Args: 1, Do: listen}, // PORT: answers one connection with what it says, in capitals
	{Name: "raw", Args: 2, Do: query},     // RESOLVER NAME [TYPE]: what it says to a question, by UDP and TCP
}

// patience is for what never answers; nothing that works waits for it.
const patience = 20 * time.Second

func dial(address string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: patience, FallbackDelay: -1} // one socket at a time: they are counted
	c, err := d.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn), nil
}

// talk dials the first of a word's arguments for it.
func talk(do func(c *net.TCPConn, args []string) error) func([]string) error {
	return func(args []string) error {
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		return do(c, args)
	}
}

// write sends texts as quoted in Go, one write each.
func write(c net.Conn, texts ...string) error {
	for _, text := range texts {
		b, err := unquote(text)
		if err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func unquote(text string) ([]byte, error) {
	s, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", attempts.ErrBroken, text, err)
	}
	return []byte(s), nil
}

// say ends its half of the connection after the last text, unless that is "-".
func say(c *net.TCPConn, args []string) error {
	texts := args[1:]
	open := len(texts) > 0 && texts[len(texts)-1] == "-"
	if open {
		texts = texts[:len(texts)-1]
	}
	if err := write(c, texts...); err != nil {
		return err
	}
	if !open {
		_ = c.CloseWrite()
	}
	n, err := io.Copy(os.Stdout, c)
	if err == nil && n == 0 {
		return errors.New("nothing was answered")
	}
	return err
}

func udp(args []string) error {
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := write(c, args[1]); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	n, err := c.Read(buf)
	if err != nil {
		return err
	}
	fmt.Printf("%s from %s\n", buf[:n], c.RemoteAddr())
	return nil
}

func fire(args []string) error {
	c, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	return write(c, args[1:]...)
}

func listen(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "inside heard %s", text)
	return err
}

// query asks one resolver, whatever resolv.conf says.
func query(args []string) error {
	network := "udp"
	if len(args) > 2 {
		network = args[2]
	}
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, args[0])
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := r.LookupHost(ctx, args[1])
	fmt.Println(list)
	return err
}

func isReset(err error) bool { return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) }
