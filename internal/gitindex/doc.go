// Package gitindex reads which gitlinks git's index names: the entries of mode 160000, below
// which git status and git diff run what the repository there says.
//
// It reads what git reads, in versions 2 to 4, with SHA-1 and SHA-256, split and sparse. What
// git could read otherwise than from front to end (the offset tables for its threads) has to
// agree with that. Everything else is ErrBroken: whoever wrote the index may have meant a
// reader to see less than git does. Checksums are not looked at; neither does git.
//
// The format: Documentation/gitformat-index.txt of git.
package gitindex
