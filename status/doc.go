// Package status says how a run ended: the closed set of statuses, the exit
// codes of each dialect, and the report with its ledger of what was enforced.
//
// It is a leaf. Everything in it is plain data, the same on every operating
// system, and safe to keep: fields are only ever added.
package status
