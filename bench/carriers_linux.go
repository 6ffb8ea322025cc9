package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// carriers are the processes that carry what the client sends: all below the one
// that was started but the client itself.
func (one *way) carriers() (list []int, err error) {
	if one.helper != nil {
		return []int{one.helper.Process.Pid}, nil
	}
	return parents(one.client.Process.Pid)
}

// parents are pid and its descendants, but those without children.
func parents(pid int) (list []int, err error) {
	below, err := childrenOf(pid)
	if err != nil || len(below) == 0 {
		return nil, err
	}
	list = []int{pid}
	for _, child := range below {
		more, failed := parents(child)
		list, err = append(list, more...), errors.Join(err, failed)
	}
	return list, err
}

// used is the CPU time of the carriers so far, in milliseconds.
func (one *way) used() (ms float64, err error) {
	pids, err := one.carriers()
	for _, pid := range pids {
		n, failed := ticks(pid)
		ms, err = ms+float64(n)*1000/clockTicks, errors.Join(err, failed)
	}
	return ms, err
}

// measure is ask, with the CPU time that it cost the carriers.
func (one *way) measure(word string, n int) (reading, error) {
	before, err := one.used()
	if err != nil {
		return reading{}, err
	}
	got, err := one.ask(word, n)
	if err != nil {
		return reading{}, err
	}
	after, err := one.used()
	got.cpu = after - before
	return got, err
}

// clockTicks is USER_HZ, in which /proc counts.
const clockTicks = 100

// ticks is the CPU time of a process, without its children's.
func ticks(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of %d: %q", pid, text)
	}
	user, err := strconv.ParseUint(fields[11], 10, 64)
	system, failed := strconv.ParseUint(fields[12], 10, 64)
	return user + system, errors.Join(err, failed)
}
