package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/confine-run/confine/backend"
)

// The ops of a stream that are no events of files.
const (
	watchKeepalive backend.FileOp = "keepalive"
	watchEnd       backend.FileOp = "end" // the last: the directory is gone, or the sandbox has ended
)

// watchFiles sends what happens in a directory, one event a line, until that is gone or the client is.
func watchFiles(c *call, files backend.Files, name string, deep bool) error {
	w, err := files.Watch(name, deep)
	if err != nil {
		return err
	}
	defer w.Close()
	c.begin()
	_ = c.control.Flush()
	for {
		ctx, cancel := context.WithTimeout(c.Context(), keepalive)
		events, err := w.Next(ctx)
		cancel()
		switch {
		case c.Context().Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			events = []backend.FileEvent{{Op: watchKeepalive}}
		case err == io.EOF, errors.Is(err, backend.ErrClosed):
			return c.tell([]backend.FileEvent{{Op: watchEnd}})
		case err != nil:
			return nil // the cut tells
		}
		if err := c.tell(events); err != nil {
			return nil
		}
	}
}

// tell sends events. A client that takes nothing for a minute is gone.
func (c *call) tell(events []backend.FileEvent) error {
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_ = c.control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := c.w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return c.control.Flush()
}
