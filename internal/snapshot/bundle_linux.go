package snapshot

import (
	"context"
	"errors"
	"io"
)

func (s *Store) Export(ctx context.Context, id string, w io.Writer) error {
	return errors.ErrUnsupported
}
func (s *Store) Import(ctx context.Context, r io.Reader, l Limits) (id string, err error) {
	return "", errors.ErrUnsupported
}
