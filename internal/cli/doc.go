// Package cli is the command line: it takes words apart, asks the engine, and
// words what came of it.
//
// There is one table of options, confine.Options, and one of subcommands,
// [Commands]. Flags, help, the man page, the table in docs/OPTIONS.md and the
// completion scripts are all made from these two: help and completion by the
// program in gen, which hands them to urfave/cli and writes down what comes out.
// The binary holds the finished pages and neither that library nor its templates;
// every run would pay for them at start-up, and only a run in a thousand prints
// help.
//
// What is said goes to stderr, each line behind "[confine] ", and only when there is
// something to say: a run that ends by itself within its limits prints nothing.
// Stdout belongs to the command, or to --json.
//
// Three vocabularies are kept apart. What was asked for wrongly is a
// confine.UsageError: nothing was started, and the exit code is 125. A sandbox
// that could not be built is a report with the status INTERNAL_ERROR. Everything
// else is how the command ended.
package cli

//go:generate go run -tags urfave_cli_no_docs ./gen
