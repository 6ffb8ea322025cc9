package serve

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/confine-run/confine/internal/sandboxes"
)

// ttyProtocol is what a connection becomes that carries the bytes of a terminal.
const ttyProtocol = "confine-tty"

// terminal makes the connection one of a process's terminal: what the client sends is typed, what the process writes comes back,
// after the frame ?from. It ends with the process, whose report is asked for then.
func (s processRoutes) terminal(c *call) error {
	p, err := s.named(c)
	if err != nil {
		return err
	}
	if !strings.EqualFold(c.Header.Get("Upgrade"), ttyProtocol) {
		c.w.Header().Set("Upgrade", ttyProtocol)
		return fail(http.StatusUpgradeRequired, codeBadRequest, "ask for Upgrade: "+ttyProtocol)
	}
	if !p.TTY {
		return fail(http.StatusConflict, codeBadRequest, "the process has no terminal")
	}
	from, err := number(c, "from")
	if err != nil {
		return err
	}
	reader, err := p.Log.Reader(from)
	if err != nil {
		return err
	}
	defer reader.Close()
	conn, buffered, err := c.control.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+ttyProtocol+"\r\n\r\n"); err != nil {
		return nil
	}
	go func() {
		defer cancel()
		_, _ = p.WriteInput(ctx, buffered)
	}()
	for {
		frames, err := reader.Next(ctx)
		if err != nil {
			return nil
		}
		for i := range frames {
			if t := frames[i].Type; t != sandboxes.FrameStdout && t != sandboxes.FrameStderr {
				continue
			}
			if _, err := conn.Write(frames[i].Bytes()); err != nil {
				return nil
			}
		}
	}
}
