//go:build !linux && !darwin

package hostfs

import "errors"

// This answers every question with an error: mount tables are for Linux.
func This() Host { return noHost{} }

// ThisInspector is This.
func ThisInspector() Inspector { return noHost{} }

type noHost struct{}

func (noHost) As(uint32, uint32) (func(), bool, error) { return nil, false, errors.ErrUnsupported }
func (noHost) Resolve(string) (File, error)            { return File{}, errors.ErrUnsupported }
func (noHost) Lstat(string) (File, error)              { return File{}, errors.ErrUnsupported }
func (noHost) Inspect(string) (Inode, error)           { return Inode{}, errors.ErrUnsupported }
func (noHost) Readlink(string) (string, error)         { return "", errors.ErrUnsupported }
func (noHost) ReadDir(string) ([]Entry, error)         { return nil, errors.ErrUnsupported }
func (noHost) ReadFile(string, int) (string, error)    { return "", errors.ErrUnsupported }
func (noHost) Held(string) bool                        { return false }
func (noHost) Sockets() ([]Socket, error)              { return nil, errors.ErrUnsupported }
