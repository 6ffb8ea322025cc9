//go:build !linux

package snapshot

import (
	"context"
	"errors"
	"io"
)

// Store keeps snapshots. There is none here.
type Store struct{}

func Open(string) (*Store, error)                              { return nil, errors.ErrUnsupported }
func (*Store) Close() error                                    { return nil }
func (*Store) Find(string) (*Info, error)                      { return nil, errors.ErrUnsupported }
func (*Store) List() ([]Info, error)                           { return nil, errors.ErrUnsupported }
func (*Store) Name(string, string) error                       { return errors.ErrUnsupported }
func (*Store) Remove(string) error                             { return errors.ErrUnsupported }
func (*Store) Bytes() (int64, error)                           { return 0, errors.ErrUnsupported }
func (*Store) Export(context.Context, string, io.Writer) error { return errors.ErrUnsupported }
func (*Store) Import(context.Context, io.Reader, Limits) (string, error) {
	return "", errors.ErrUnsupported
}
