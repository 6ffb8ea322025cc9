// Package watch holds a run to the limits that no kernel mechanism holds it to, and measures what it uses: by samples of its
// processes (package tree), by the counters of its cgroup (meter_linux.go), by what its private places hold
// (places_linux.go) and its trees grow by (package disk). What ends the run is told as a [Hit]; what doesn't is noted.
package watch
