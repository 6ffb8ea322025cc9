package outputs

import (
	"errors"
	"io/fs"
	"os"
)

// What the reasoning at [Sink] rests on is not there on Windows: no place is one.
var errNoSink = errors.New("not supported on Windows yet")

func openDir(string) (*os.Root, error) { return nil, errNoSink }
func (s *Sink) inherit() error         { return s.refuse("", "", errNoSink) }

const nonblock = 0

func owner(fs.FileInfo) int { return -1 }
func links(fs.FileInfo) int { return 1 }

// WriteAll writes all of b to descriptor 1 or 2.
func WriteAll(fd int, b []byte) error {
	f := os.Stdout
	if fd == 2 {
		f = os.Stderr
	}
	_, err := f.Write(b)
	return err
}
