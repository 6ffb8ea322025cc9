//go:build !linux

package changes

import "io"

// Store keeps runs. There is none here.
type Store struct {
	OnRecovered func(Recovered)
	Waiting     func()
}

// Run is a kept run.
type Run struct{ m *manifest }

func Keepable(string) error                                  { return nil }
func FindStore(string) (*Store, error)                       { return nil, ErrNotSupported }
func (*Store) Close() error                                  { return nil }
func (*Store) List() ([]Info, error)                         { return nil, ErrNotSupported }
func (*Store) Latest(func(string) bool) (*Run, error)        { return nil, ErrNotSupported }
func (*Store) Open(string) (*Run, error)                     { return nil, ErrNotSupported }
func (*Store) Discard(string, ...string) (int, error)        { return 0, ErrNotSupported }
func (*Store) Recover() ([]Recovered, error)                 { return nil, ErrNotSupported }
func (*Store) InTheWay(*Run, []Recovered) error              { return ErrNotSupported }
func (*Store) Apply(*Run, []string, Options) (Result, error) { return Result{}, ErrNotSupported }
func (*Run) Content(*Entry) (string, error)                  { return "", ErrNotSupported }
func (*Run) Close() error                                    { return nil }
func Diff(io.Writer, *Run, []string, DiffOptions) error      { return ErrNotSupported }
