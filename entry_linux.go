package main

import "github.com/confine-run/confine/internal/cli"

// begin is what entry calls.
//
//lint:ignore U1000 entry_linux_*.s do
var begin = cli.Begin
