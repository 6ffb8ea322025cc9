// Package confine says what a run may do, and runs it.
package confine
