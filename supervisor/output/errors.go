package output

import "errors"

// ErrUndelivered: the run is over, and a destination didn't take all of it in time.
var ErrUndelivered = errors.New("a destination did not take all output in time")
