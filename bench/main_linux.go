package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/confine-run/confine/confine"
)

func main() {
	confine.Init() // the inside of a sandbox of this program's is this program, started again
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		os.Exit(inside(os.Args[2:]))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{}
	flag.IntVar(&b.n, "n", 0, "rounds of each measurement (0: as many as suit it)")
	only := flag.String("only", "", "measure only these `names`, separated by commas")
	flag.StringVar(&b.confine, "confine", "bin/confine", "the `binary` to measure")
	flag.StringVar(&b.against, "against", "", "measure this `binary` of confine beside it")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected word %q\nhint: go run ./bench -h", flag.Arg(0))
	}
	list, err := chosen(strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.open(); err != nil {
		return err
	}
	doc := page{host: describeHost()}
	for i := range list {
		fmt.Fprintf(os.Stderr, "bench: %s\n", list[i].name)
		r, err := list[i].run(b)
		if err != nil {
			return fmt.Errorf("%s: %w", list[i].name, err)
		}
		doc.done = append(doc.done, r)
	}
	fmt.Print(doc.text())
	return nil
}
