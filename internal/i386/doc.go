// Package i386 makes system calls by int 0x80, as 32-bit programs do, from a
// 64-bit one. It is for tests, and for the self-test: such calls must be refused.
package i386
