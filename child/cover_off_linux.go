//go:build !confinecover

package child

// early: an init needs nothing of main's.
const early = true

func openCoverage() {}

func flushCoverage() {}
