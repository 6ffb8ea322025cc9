// Package integration drives the built binary as its users do: one script for
// each behaviour in testdata, and real programs among them.
//
// A script is a txtar file for testscript, AREA_CASE.txtar. Beside testscript's
// own commands there are those of commands in command_linux_test.go. Conditions
// such as [userns] or [program:node] are answered by the probes that "confine
// doctor" prints, and CONFINE_MUST_RUN turns the skips that they cause into
// failures. Every report that a script leaves behind is held against the schema, and
// nothing of its runs may be left. Programs that several scripts share are in
// testdata/bin, and in the PATH of each.
//
// What a hostile program would try is in the program "attempt", beside this
// file. It is a program of its own so that each attempt is made outside first:
// there it has to succeed, or its failure inside would prove nothing. Attempts that users can
// make, too, are rows of the table in internal/selftest, which TestSelftest makes under several
// policies: no script states them again, unless it runs on other hosts (machines), or
// is about the report, the words on stderr or the exit code.
//
// Networks are tried in a world of their own, where every address answers and says who
// was reached: "netpeer", the other program beside this file. No packet leaves the machine.
//
// As root everything runs twice, the second time as an ordinary user.
package integration
