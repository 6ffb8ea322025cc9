// Package jobstest has servers for tests, inside the test and as processes that can be killed, and connections that can be cut.
package jobstest
