package windows

import (
	"os"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// specIn is a Spec that takes whatever there is.
func specIn(dir string) *backend.Spec {
	p := config.Default()
	p.TimeLimit, p.Grace = time.Minute, 100*time.Millisecond
	p.AllowPartial = []string{config.WordAll}
	return &backend.Spec{Policy: &p, Dir: dir, Environ: os.Environ()}
}
