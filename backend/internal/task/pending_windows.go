package task

import "os"

// pending can't be told: to look into a pipe waits for whoever reads from it. Who waits in a read has found nothing.
func pending(*os.File) int { return 0 }
