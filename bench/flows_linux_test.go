package main

import (
	"net"
	"testing"
)

// Every question is answered by a server on loopback, with a figure above 0; a server
// that isn't there is an error for all of them.
func TestFlows(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFlow(c)
		}
	}()
	f := &flows{address: l.Addr().String()}
	words := map[string]int{"up": 1 << 20, "down": 1 << 20, "latency": 3, "polled": 3, "connect": 2, "requests": 20}
	for word, n := range words {
		if got, err := f.do(word, n); err != nil || got <= 0 {
			t.Errorf("%s: %v, %v", word, got, err)
		}
	}
	if _, err := f.do("hold", 5); err != nil || len(f.held) != 5 {
		t.Errorf("%d held, %v", len(f.held), err)
	}
	if _, err := f.do("hold", 0); err != nil || len(f.held) != 0 {
		t.Errorf("%d held, %v", len(f.held), err)
	}
	_ = l.Close()
	for word, n := range words {
		if got, err := f.do(word, n); err == nil {
			t.Errorf("%s with no server: %v", word, got)
		}
	}
}

func TestARivalThatFailsIsLeftOut(t *testing.T) {
	fails := func() (reading, error) { return reading{}, net.ErrClosed }
	w := &ways{all: []*way{{name: wayName}, {name: waySlirp}}}
	if _, err := w.all[0].tried(fails); err == nil {
		t.Error("confine may not fail")
	}
	if _, err := w.all[1].tried(fails); err != nil {
		t.Error(err)
	}
	r := &result{all: []series{{name: wayName}, {name: waySlirp}}}
	w.notes(r)
	if len(r.all) != 1 || r.all[0].name != wayName || len(r.notes) != 1 {
		t.Errorf("%v, %q", r.all, r.notes)
	}
}
