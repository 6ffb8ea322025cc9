package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/confine-run/confine/internal/attempts"
)

var streamWords = []attempts.Try{
	{Name: "duplex", Args: 2, Do: talk(duplex)}, // ADDRESS MIB: there and back at the same time, of an echo server
	{Name: "push", Args: 2, Do: talk(push)},     // ADDRESS MIB: there, end, and the digest comes back
	{Name: "shout", Args: 2, Do: talk(shout)},   // ADDRESS MIB: there, and is gone
	{Name: "many", Args: 2, Do: many},           // ADDRESS N: connections at the same time, each with its own word
	{Name: "reset", Args: 2, Do: wasReset},      // ADDRESS TEXT: the other side resets, and that is what is seen
}

const mib = 1 << 20

func duplex(c *net.TCPConn, args []string) error {
	n := attempts.Number(args[1])
	sent, got := sha256.New(), sha256.New()
	failed := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.MultiWriter(c, sent), &pattern{}, n*mib)
		failed <- errors.Join(err, c.CloseWrite())
	}()
	back, err := io.Copy(got, c)
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	if back != n*mib || string(sent.Sum(nil)) != string(got.Sum(nil)) {
		return fmt.Errorf("%d bytes came back, or not the same", back)
	}
	fmt.Println("same", back)
	return nil
}

func push(c *net.TCPConn, args []string) error {
	n := attempts.Number(args[1])
	sent := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(c, sent), &pattern{}, n*mib); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%d %x\n", n*mib, sent.Sum(nil)); string(answer) != want {
		return fmt.Errorf("the other side had %q, want %q", answer, want)
	}
	fmt.Printf("arrived %s", answer)
	return nil
}

func shout(c *net.TCPConn, args []string) error {
	_, err := io.CopyN(c, &pattern{}, attempts.Number(args[1])*mib)
	return err
}

func many(args []string) error {
	n := attempts.Number(args[1])
	all := make([]*net.TCPConn, n)
	errs := make([]error, n)
	var wait sync.WaitGroup
	each := func(do func(i int64) error) error {
		for i := range n {
			wait.Go(func() { errs[i] = do(i) })
		}
		wait.Wait()
		return errors.Join(errs...)
	}
	err := each(func(i int64) (err error) {
		all[i], err = dial(args[0])
		return err
	})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	err = each(func(i int64) error {
		word := fmt.Sprintf("word %d", i)
		if _, err := all[i].Write([]byte(word)); err != nil {
			return err
		}
		back := make([]byte, len(word))
		if _, err := io.ReadFull(all[i], back); err != nil {
			return err
		}
		if string(back) != word {
			return fmt.Errorf("%q came back for %q", back, word)
		}
		return nil
	})
	for _, c := range all {
		_ = c.Close()
	}
	if err == nil {
		fmt.Println("all", n)
	}
	return err
}

func wasReset(args []string) error {
	c, err := dial(args[0])
	if isReset(err) { // before connect(2) has returned
		fmt.Println("reset")
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if args[1] != "" {
		if err := write(c, args[1]); err != nil && !isReset(err) {
			return err
		}
	}
	n, err := io.Copy(io.Discard, c)
	switch {
	case err == nil:
		return fmt.Errorf("an end, after %d bytes", n)
	case !isReset(err):
		return err
	}
	fmt.Println("reset")
	return nil
}
