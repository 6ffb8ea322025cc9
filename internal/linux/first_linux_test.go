package linux

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// stays is what numbers below lead to.
var stays []string

// stack is what the kernel leaves for a process, with room below.
func stack(env ...string) []uintptr {
	at := func(s string) uintptr {
		stays = append(stays, strings.Clone(s+"\x00"))
		return uintptr(unsafe.Pointer(unsafe.StringData(stays[len(stays)-1])))
	}
	words := slices.Concat(make([]uintptr, roomBelow/8), []uintptr{2, at("confine"), at("true"), 0})
	for _, e := range env {
		words = append(words, at(e))
	}
	return append(words, 0, 6, 4096, 25, 1<<40, 0, 0)
}

func TestTheRuntimeOfARunBeginsWithOneProcessor(t *testing.T) {
	const below = roomBelow / 8
	for _, env := range [][]string{nil, {"A=b"}, {"A=b", "C=d"}, slices.Repeat([]string{"A=b"}, 900)} {
		var f First
		words := stack(env...)
		was := slices.Clone(words[below:])
		to := f.oneProcessor(unsafe.Pointer(&words[below]))
		if !slices.Equal(words[below:], was) {
			t.Error("what the kernel left was changed")
		}
		n := 4 + len(env)
		got := unsafe.Slice((*uintptr)(to), len(was)+1)
		if !f.one || uintptr(to)%16 != uintptr(unsafe.Pointer(&words[below]))%16 || uintptr(to) < uintptr(unsafe.Pointer(&words[0])) {
			t.Errorf("%d variables: %v, %x", len(env), f.one, to)
			continue
		}
		if !slices.Equal(got[:n], was[:n]) || !slices.Equal(got[n+1:], was[n:]) || !beginsWith(*(*unsafe.Pointer)(unsafe.Pointer(&got[n])), "GOMAXPROCS=1\x00") {
			t.Errorf("%d variables: %x, and was %x", len(env), got, was)
		}
	}
	for why, env := range map[string][]string{"the caller says how many": {"A=b", "GOMAXPROCS=7"}, "too many": slices.Repeat([]string{"A=b"}, 1100)} {
		var f First
		words := stack(env...)
		if sp := unsafe.Pointer(&words[below]); f.oneProcessor(sp) != sp || f.one {
			t.Error(why)
		}
	}
}

func TestAProcessThatGoesOnHasItsProcessors(t *testing.T) {
	t.Cleanup(func() { runtime.SetDefaultGOMAXPROCS() })
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(1)
	t.Setenv("GOMAXPROCS", "1")
	f := First{one: true}
	f.Settle()
	for end := time.Now().Add(time.Minute); runtime.GOMAXPROCS(0) != all; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("one still")
		}
	}
}
