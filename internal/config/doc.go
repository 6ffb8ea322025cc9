// Package config is what is wanted: a [Policy], made of profiles, files, variables and flags, each with who said it.
//
// [Resolve] reads all of them. An option is a line of one table (option_table.go), which flags, variables, keys of
// files, help pages and reports have their names from; how its words are checked is in validate.go. It knows nothing of
// the host: what of a policy can be enforced, and how, is a backend's to say.
package config
