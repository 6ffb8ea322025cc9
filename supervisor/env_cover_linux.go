//go:build confinecover

package supervisor

import "os"

func init() { childEnv = append(childEnv, "GOCOVERDIR="+os.Getenv("GOCOVERDIR")) }
