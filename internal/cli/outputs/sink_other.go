//go:build unix && !linux

package outputs

import "os"

// pathOnly: there are no descriptors here that only name a file.
const pathOnly = 0

// nameless: nor are there files without a name.
const nameless = 0

// openDir follows links: there are no runs here that could have left one.
func openDir(dir string) (*os.Root, error) { return os.OpenRoot(dir) }

func widen(int, int) {}
