package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/host"
)

// options are the words of the command line.
type options struct {
	only    []string
	scripts []string
	few     bool
	write   bool
	verbose bool
	jobs    int
}

func main() {
	host.ProbeMain() // a throw-away process of a condition never gets any further
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse()
	if err == nil {
		err = run(ctx, o)
	}
	if err == nil {
		return
	}
	if must := skippable(err); must != nil {
		fmt.Fprintln(os.Stderr, "machines:", must)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "machines: skipped:", err)
}

func parse() (*options, error) {
	o := &options{}
	var only, scripts string
	flag.StringVar(&only, "only", "", "boot only these `names`, separated by commas")
	flag.StringVar(&scripts, "scripts", "", "run these `names` of scripts, separated by commas, and not those of the proofs")
	flag.BoolVar(&o.few, "few", false, "only the machines and scripts that are enough for every change")
	flag.BoolVar(&o.write, "write", false, "write docs/ENFORCEMENT.md")
	flag.BoolVar(&o.verbose, "v", false, "show what the machines say")
	flag.IntVar(&o.jobs, "jobs", 2, "how many at once")
	flag.Parse()
	if flag.NArg() > 0 {
		return nil, fmt.Errorf("unexpected word %q\nhint: go run ./integration/machines -h", flag.Arg(0))
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if scripts != "" {
		o.scripts = strings.Split(scripts, ",")
	}
	if o.write && (o.scripts != nil || o.few) {
		return nil, fmt.Errorf("-write writes what all scripts of a machine say, and -scripts and -few leave something out\nhint: use one or the other")
	}
	return o, nil
}

// chosen are the machines that were asked for.
func (o *options) chosen() (list []*machine, err error) {
	for i := range machines {
		if o.only == nil && (machines[i].few != nil || !o.few) {
			list = append(list, &machines[i])
		}
	}
	for _, name := range o.only {
		found := false
		for i := range machines {
			if machines[i].name == name {
				list, found = append(list, &machines[i]), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no machine %q", name)
		}
	}
	return list, nil
}
