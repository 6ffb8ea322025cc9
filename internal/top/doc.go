// Package top is "confine top": what all sessions of this user use, and the sandboxes of a server, drawn anew every second.
//
// gather_linux.go asks everybody at once and makes a [Picture] of the answers; draw_linux.go makes lines of that, which hold nothing that a terminal
// obeys; screen_linux.go has the terminal, and gives it back however the program ends; main_linux.go is the loop.
package top
