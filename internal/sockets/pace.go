package sockets

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Patient reads the body of a request, which may take as long as it likes, as long as something comes. What is waited for behind its end
// has no deadline: one that passed would cancel the request.
type Patient struct {
	io.ReadCloser
	Control *http.ResponseController
	Wait    time.Duration
	Late    error // where nothing came for that long
}

func (p *Patient) Read(b []byte) (int, error) {
	_ = p.Control.SetReadDeadline(time.Now().Add(p.Wait))
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF {
		_ = p.Control.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = p.Late
	}
	return n, err
}

// Prompt is a response of which the client takes something in time.
type Prompt struct {
	http.ResponseWriter
	Control *http.ResponseController
	Wait    time.Duration
}

func (p *Prompt) Write(b []byte) (int, error) {
	_ = p.Control.SetWriteDeadline(time.Now().Add(p.Wait))
	return p.ResponseWriter.Write(b)
}
