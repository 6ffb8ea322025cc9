// Package overlaytest has overlays that tests change as a command does: mounted in a user namespace, by the test binary started again.
package overlaytest
