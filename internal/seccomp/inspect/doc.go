// Package inspect says what is to be said about policies over system calls: what
// each call gets (List), what a policy lacks that ordinary programs need and lets
// through that is dangerous (Check), and how two policies differ (Compare). It
// enforces nothing and changes nothing.
//
// # Current limitations
//
// Check tries single calls, which are data. That it finds nothing doesn't mean that
// every program runs, or that there is no way out. Compare looks for a call that two
// policies decide differently among the arguments that either of them compares with;
// conditions that it can't tell apart so are said to be written differently.
package inspect
