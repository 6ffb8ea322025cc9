//go:build confinecover

package supervisor

import "os"

func childEnv() []string {
	return []string{"GOMAXPROCS=1", "GOGC=off", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
}
