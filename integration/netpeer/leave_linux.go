package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/confine-run/confine/internal/attempts"
)

var leaveWords = []attempts.Try{
	{Name: "leave", Args: 1, Do: leave}, // NAME: with something open in every state, and is gone
}

// leave begins flows of every kind to a name, and ends in the middle of all of them.
func leave(args []string) error {
	name := args[0]
	address := func(port int) string { return net.JoinHostPort(name, strconv.Itoa(port)) }
	begin := func(port int, text string) (net.Conn, error) {
		c, err := net.DialTimeout("tcp", address(port), patience)
		if err == nil && text != "" {
			_, err = io.WriteString(c, text)
		}
		return c, err
	}
	for _, f := range []struct {
		port int
		text string
	}{
		{portMute, ""},             // nothing was said
		{portMute, "GET"},          // it isn't known yet what is spoken
		{portMute, "\x16\x03\x01"}, // a hello that isn't over
		{80, "GET / HTTP/1.1\r\nHost: " + name + "\r\n"},                                                  // a head that isn't
		{80, "POST /sum HTTP/1.1\r\nHost: " + name + "\r\nContent-Length: 1000000\r\n\r\nx"},              // a body
		{portMute, "GET /ws HTTP/1.1\r\nHost: " + name + "\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"}, // an answer is waited for
		{portFlood, "\n"}, // what comes is not read
		{portEcho, "\n"},  // what was said is answered, and not read
	} {
		if _, err := begin(f.port, f.text); err != nil {
			return err
		}
	}
	// As much as goes into all buffers, and nobody reads it.
	full, err := begin(portMute, "\n")
	if err != nil {
		return err
	}
	_ = full.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = io.Copy(full, &pattern{})
	for _, port := range []int{portEcho, 9999} {
		c, err := net.Dial("udp", address(port))
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "x")
	}
	// A question that nobody answers, and one over TCP that isn't over.
	if c, err := net.Dial("udp", "198.18.0.1:53"); err == nil {
		_, _ = io.WriteString(c, "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06silent\x04test\x00\x00\x01\x00\x01")
	}
	if c, err := net.Dial("tcp", "198.18.0.1:53"); err == nil {
		_, _ = io.WriteString(c, "\x00")
	}
	fmt.Println("left")
	return nil
}
