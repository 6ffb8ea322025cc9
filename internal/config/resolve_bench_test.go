package config

import (
	"os"
	"testing"
)

// Every start pays this.
func BenchmarkResolve(b *testing.B) {
	src := Here(os.Environ(), "")
	src.Flags = []Setting{{Option: "profile", Values: []string{"testing"}}, {Option: "time-limit", Values: []string{"5s"}}}
	for b.Loop() {
		if _, err := Resolve(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	p := Default()
	for b.Loop() {
		p.Digest()
	}
}
