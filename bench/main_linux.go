package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		os.Exit(inside(os.Args[2:]))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the words of the command line.
type options struct {
	rounds           int
	only             string
	write            bool
	confine, against string
}

func parse() *options {
	o := &options{}
	flag.IntVar(&o.rounds, "n", 0, "rounds of each measurement (0: as many as suit it)")
	flag.StringVar(&o.only, "only", "", "measure only these `names`, separated by commas")
	flag.BoolVar(&o.write, "write", false, "write docs/BENCHMARKS.md")
	flag.StringVar(&o.confine, "confine", "", "measure this `binary` instead of building one")
	flag.StringVar(&o.against, "against", "", "measure this `binary` of confine beside it")
	flag.Parse()
	return o
}

func run() error {
	o := parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected word %q\nhint: go run ./bench -h", flag.Arg(0))
	}
	var names []string
	if o.only != "" {
		names = strings.Split(o.only, ",")
	}
	list, err := chosen(names)
	if err != nil {
		return err
	}
	if o.write && len(names) > 0 {
		return errors.New("-write writes all measurements, and -only makes some\nhint: leave one of them away")
	}
	b, err := open(o)
	if err != nil {
		return err
	}
	defer b.close()
	doc := page{host: describeHost()}
	before := loadNow()
	peak := before
	var failed []error
	for _, m := range list {
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		peak = max(peak, loadNow()) // before those that are a crowd by themselves, which are last
		r, err := m.run(b)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
			continue
		}
		fmt.Print(section(&m, r))
		doc.done = append(doc.done, entry{m, r})
	}
	doc.host = append(doc.host, describeLoad(before, peak))
	fmt.Println(strings.Join(doc.host, "\n") + "\n\n" + doc.summary())
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if o.write {
		return os.WriteFile(filepath.Join(b.root, "docs", "BENCHMARKS.md"), []byte(doc.text()), 0o644)
	}
	return nil
}
