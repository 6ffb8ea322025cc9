package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/confine-run/confine/integration/machines/orders"
)

func main() {
	if filepath.Base(os.Args[0]) == "init" {
		die(boot())
	}
	o, err := read(orders.File)
	switch {
	case err != nil:
	case len(os.Args) == 2 && os.Args[1] == "host":
		die(prepareHost(o))
	case len(os.Args) == 2 && os.Args[1] == "trial":
		err = trial(o)
	default:
		err = fmt.Errorf("what is %q", os.Args)
	}
	if err != nil {
		say(os.Stdout, orders.Said{Failed: err.Error()})
		os.Exit(1)
	}
}

// die is the end of PID 1, which must not exit: the machine waits to be ended.
func die(err error) {
	if err != nil {
		fmt.Println("guest:", err)
		if port, openErr := os.OpenFile(orders.Port, os.O_WRONLY, 0); openErr == nil {
			say(port, orders.Said{Failed: err.Error()})
		}
	}
	for {
		time.Sleep(time.Hour)
	}
}

func read(file string) (*orders.Orders, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	o := &orders.Orders{}
	return o, json.Unmarshal(text, o)
}

// say writes a line by one write, so that lines of two processes don't mix.
func say(to *os.File, s orders.Said) {
	text, err := json.Marshal(s)
	if err != nil {
		text = []byte(`{"Failed":"an answer that is no JSON"}`)
	}
	_, _ = to.Write(append(text, '\n'))
}
