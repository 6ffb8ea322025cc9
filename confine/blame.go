package confine

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/rootfs"
)

// Blame says of an error about a path who named it, where that was a file or a profile in
// one: a flag that nobody gave is no help.
func (r *Resolved) Blame(err error) error {
	var e *rootfs.Error
	if !errors.As(err, &e) {
		return err
	}
	o := LookupOption(strings.TrimPrefix(e.Option, "--"))
	if o == nil || o.Key == "" || e.Path == "" {
		return err
	}
	source := r.From(o.Name, e.Path)
	if source == "" || strings.HasPrefix(source, "flag ") || strings.HasPrefix(source, "environment ") {
		return err
	}
	key := o.Key[strings.LastIndexByte(o.Key, '.')+1:]
	hint := e.Hint
	if errors.Is(e.Err, fs.ErrNotExist) {
		hint += "; make it first, or take it out of the file; a profile that \"confine learn\" wrote: learn it where it isn't there yet"
	}
	return &UsageError{Msg: source + ": " + key + " " + strconv.Quote(e.Path) + ": " + e.Err.Error(), Hint: strings.TrimPrefix(hint, "; "), Err: err}
}
