// Package picture is "confine report": it draws what --record wrote down.
//
// read.go makes a [Run] of a record, and says in which line one is none; processes.go puts its processes in order, and has rows of
// them that stay few however many they are; layout.go computes a [drawing], where everything stands; svg.go and the templates
// write that down, text.go draws in a terminal, and trace.go writes Chrome's trace format. main.go is the command.
//
// Names of processes, files and hosts are the run's, and say what it likes: text.go's cut and [terminal.Visible] make each of them short and plain,
// and html/template escapes it where it stands. The page forbids itself scripts and anything from elsewhere.
package picture
