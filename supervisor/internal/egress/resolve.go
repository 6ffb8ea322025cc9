package egress

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

const (
	// maxQuestions is how many are answered at one time; more are dropped, and asked again.
	maxQuestions = 256
	maxQuestion  = 4096 // bytes; none that anybody asks is nearly as long
	// questionsIdle is how long a connection with questions may be silent.
	questionsIdle = 30 * time.Second
)

// question answers one, unless too many are being answered.
func (g *Gateway) question(f *flow, query []byte, answer func([]byte)) {
	if len(query) > maxQuestion {
		return
	}
	select {
	case g.questionSlots <- struct{}{}:
	default:
		return
	}
	g.all.Go(func() {
		defer func() { <-g.questionSlots }()
		if a := g.resolve(f, query, false); a != nil {
			answer(a)
		}
	})
}

// questionsOf answers what is asked over one connection, in order.
func (g *Gateway) questionsOf(f *flow, c *conn) {
	defer c.Close()
	if !g.begin(f) {
		g.note(f, status.AttemptBlocked, whyConnections)
		return
	}
	defer g.end(f)
	f.onAbort(c.reset)
	var size [2]byte
	for {
		_ = c.SetReadDeadline(time.Now().Add(g.patience.idle))
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(size[:])
		if n > maxQuestion {
			return
		}
		query := make([]byte, n)
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		answer := g.resolve(f, query, true)
		if answer == nil || len(answer) > 0xffff {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(g.patience.idle))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// resolve answers one question. Nothing leaves the host but the names that may be reached.
func (g *Gateway) resolve(f *flow, query []byte, tcp bool) []byte {
	var verdict network.Verdict
	s := names.Server{
		Pool: &g.pool,
		Exists: func(ctx context.Context, name string) error {
			_, err := g.resolver.Addresses(ctx, name)
			return err
		},
		Allowed: func(name string) bool {
			verdict = g.rules().Name(name)
			return verdict.Allowed
		},
		Refused: func(name string, why names.Why) {
			g.noteQuestion(f, name, string(why), verdict)
		},
	}
	return s.Answer(g.inside, query, tcp)
}
