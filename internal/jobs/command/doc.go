// Package command is "confine submit", "confine jobs" and "confine worker".
package command
