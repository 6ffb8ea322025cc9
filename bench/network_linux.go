package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// serverName is what the server is called inside.
const serverName = "server.bench.test"

// wide are options for a client that may stay for long and have many connections.
const wide = "--workdir ro --time-limit 1h --file-descriptors 4096"

// flow is a measurement by a client that prints its figure, on each way to the server.
func flow(word string, n int) func(*bench) ([]peer, error) {
	return func(b *bench) ([]peer, error) {
		return b.ways(func(name string, c command) peer { return b.asked(name, c) }, word, n)
	}
}

const (
	atRest   = ", at rest"
	heldOpen = ", 1000 connections"
)

func (b *bench) flowMemory() (peers []peer, err error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, state := range []string{atRest, heldOpen} {
		n := 0
		if state == heldOpen {
			n = 1000
		}
		some, err := b.ways(func(name string, c command) peer { return b.resident(name+state, c) }, "hold", n)
		if err != nil {
			return nil, err
		}
		peers = append(peers, some[1:]...) // nobody carries what goes over the bare loopback
	}
	return peers, nil
}

// ways is a client on each way to a server on the caller's loopback, until closeAll.
func (b *bench) ways(of func(name string, c command) peer, word string, n int) ([]peer, error) {
	port, err := b.serve()
	if err != nil {
		return nil, err
	}
	at := func(host string) []string {
		return []string{b.self, insideWord, "flow", word, strconv.Itoa(n), net.JoinHostPort(host, port)}
	}
	local := at("127.0.0.1")
	// It has to ask for the server's name, which is in a hosts file of our own.
	name := command{argv: append([]string{b.self, insideWord, "named"},
		confineWords(b.confine, wide+" --block-internal=false --allow-network "+serverName+":"+port, at(serverName))...)}
	if os.Geteuid() != 0 {
		name.attr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		}
	}
	peers := []peer{of(bare, command{argv: local}), of(byName, name), of(localhost, b.confined(wide+" --allow-network localhost:"+port, local...))}
	if path, err := exec.LookPath("pasta"); err == nil {
		words := []string{path, "--config-net", "--quiet", "-t", "none", "-u", "none", "-U", "none", "-T", port}
		if os.Geteuid() == 0 {
			words = append(words, "--runas", "0") // it would become nobody, who may not see the scratch directory
		}
		peers = append(peers, of(pasta, command{argv: append(append(words, "--"), local...)}))
	}
	return peers, nil
}

// serve starts the server, and gives its port.
func (b *bench) serve() (port string, err error) {
	server := &exec.Cmd{Path: b.self, Args: []string{b.self, insideWord, "serve"}, Env: b.env, Dir: b.work, Stderr: os.Stderr}
	stop, err1 := server.StdinPipe()
	out, err2 := server.StdoutPipe()
	if err := errors.Join(err1, err2, server.Start()); err != nil {
		return "", err
	}
	b.undo = append(b.undo, func() { _ = stop.Close(); _ = server.Wait() })
	port, err = bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(port), err
}

// named runs words where serverName is in /etc/hosts.
func named(words []string) error {
	hosts, err := os.CreateTemp("", "hosts-")
	if err != nil {
		return err
	}
	defer os.Remove(hosts.Name())
	if _, err := hosts.WriteString("127.0.0.1 localhost " + serverName + "\n"); err != nil {
		return err
	}
	if err := errors.Join(hosts.Chmod(0o644), hosts.Close()); err != nil {
		return err
	}
	runtime.LockOSThread() // the namespace is this thread's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(hosts.Name(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	_ = os.Remove(hosts.Name())
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(words[0], words, os.Environ())
}
