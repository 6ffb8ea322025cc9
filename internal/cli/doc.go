// Package cli is the command line: it parses arguments, drives the engine, and
// words how a run ended.
//
// There is one table of options, config.Options, and one of subcommands,
// [Commands]. Flags, help, completion, the man page and the table in docs/OPTIONS.md
// follow from these two: the last two are made by the program in gen, the others
// when they are asked for. Nothing of it is initialised at start-up.
//
// Messages go to stderr, each line behind "[confine] ": a run that ends by itself
// within its limits prints none.
// Stdout belongs to the command, or to --json.
//
// Three kinds of failure are kept apart. A mistake in what was asked for is a
// config.UsageError: nothing was started, and the exit code is 125. A sandbox
// that could not be built is a report with the status INTERNAL_ERROR. Everything
// else is how the command ended.
package cli

//go:generate go run ./gen
