package changes

import "os"

func applyAndDie()   { os.Exit(0) }
func applyTiny() int { return 0 }
