// Package shell writes words so that a shell takes them as they are. Hints are there to be
// pasted, and what stands in them may have been named by a program, or a repository, that
// nobody trusts.
package shell
