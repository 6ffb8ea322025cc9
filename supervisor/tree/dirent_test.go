package tree

import (
	"encoding/binary"
	"slices"
	"testing"
)

func dirent(name string) []byte {
	size := (direntName + len(name) + 1 + 7) &^ 7
	b := make([]byte, size)
	binary.NativeEndian.PutUint16(b[direntReclen:], uint16(size))
	copy(b[direntName:], name)
	return b
}

func TestAppendPIDsTakesNumbersOnly(t *testing.T) {
	var buf []byte
	for _, name := range []string{".", "..", "self", "1", "22", "1x", "-3", "0", "99999999999999999999", "4194303", "kmsg"} {
		buf = append(buf, dirent(name)...)
	}
	if got := appendPIDs(nil, buf); !slices.Equal(got, []int32{1, 22, 4194303}) {
		t.Errorf("%v", got)
	}
}

func TestAppendChildren(t *testing.T) {
	for text, want := range map[string][]int32{
		"": nil, "12 ": {12}, "12 13 900 ": {12, 13, 900}, "12 13": {12, 13}, " ": nil,
	} {
		if got := appendChildren(nil, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzAppendPIDs(f *testing.F) {
	f.Add(append(dirent("12"), dirent("self")...))
	f.Add([]byte("12 13 "))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for _, pid := range append(appendPIDs(nil, buf), appendChildren(nil, buf)...) {
			if pid <= 0 {
				t.Errorf("%q: %d", buf, pid)
			}
		}
	})
}
