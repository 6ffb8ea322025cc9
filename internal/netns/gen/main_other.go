//go:build !linux

package main

import "log"

func main() { log.Fatal("the messages are made on Linux: their library knows no other system") }
