// Package wine runs the tests of the built program on Windows, and those of its backend, under Wine: what Wine does honestly. What it fakes
// (limits of jobs, accounting, restricted tokens, ACLs) says so itself there, and no test has it for held.
package wine
