// Package cgroup is the control group of one run: made, limited, joined, read,
// killed, removed. Nothing of it is seen from inside.
package cgroup
