// Package backends is the list of backends that there are, by the isolation that a policy asks for.
package backends
