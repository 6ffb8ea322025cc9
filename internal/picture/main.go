package picture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

const usage = `usage: confine report RECORD [--text] [--html FILE] [--svg FILE] [--trace FILE]

Draws what a run with --record RECORD was like: how it ended and why, what it used beside its limits, its processes, whom it reached, and what
was refused to it, with the flag that would allow it. RECORD can be "-", and FILE, too: standard input and output.

  --text         in the terminal, which is the default
  --html FILE    one page that needs nothing from elsewhere
  --svg FILE     one picture
  --trace FILE   Chrome's trace format, for ui.perfetto.dev or chrome://tracing

The record of a confine that was killed is drawn as far as it goes, and the picture says so.
`

// options are what "report" was told.
type options struct {
	record string
	text   bool
	files  []output
}

type output struct {
	option, file string
	draw         func(*Run, io.Writer) error
}

var drawers = map[string]func(*Run, io.Writer) error{"--html": (*Run).HTML, "--svg": (*Run).SVG, "--trace": (*Run).Trace}

func parse(args []string) (o options, err error) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		option, value, attached := strings.Cut(word, "=")
		draw := drawers[option]
		switch {
		case word == "--text":
			o.text = true
		case draw != nil:
			if !attached && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if value == "" {
				return o, &config.UsageError{Msg: option + " needs a value", Hint: option + " FILE"}
			}
			o.files = append(o.files, output{option, value, draw})
		case strings.HasPrefix(word, "-") && word != "-":
			return o, &config.UsageError{Msg: fmt.Sprintf("unknown option %q", word), Hint: `"confine report --help" lists them`}
		case o.record != "":
			return o, &config.UsageError{Msg: fmt.Sprintf("unexpected word %q", word), Hint: "one record at a time"}
		default:
			o.record = word
		}
	}
	if o.record == "" {
		return o, &config.UsageError{Msg: "which record?", Hint: "confine --record FILE -- COMMAND writes one; then: confine report FILE"}
	}
	o.text = o.text || len(o.files) == 0
	return o, nil
}

// Main is "confine report" with its arguments. It gives the exit code.
func Main(args []string) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Print(usage)
		return 0
	}
	o, err := parse(args)
	if err == nil {
		err = o.run()
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, terminal.Blame("confine report", err))
	if _, ok := errors.AsType[*config.UsageError](err); ok {
		return status.UsageRC
	}
	return 1
}

func (o *options) run() error {
	record, err := open(o.record)
	if err != nil {
		return err
	}
	defer record.Close()
	run, err := Read(record)
	if err != nil {
		return fmt.Errorf("%s: %w", strconv.Quote(o.record), err)
	}
	for _, f := range o.files {
		var b bytes.Buffer
		if err := f.draw(run, &b); err != nil {
			return fmt.Errorf("%s: %w", f.option, err)
		}
		if err := f.put(b.Bytes()); err != nil {
			return err
		}
	}
	if !o.text {
		return nil
	}
	if err := run.Text(os.Stdout, penOf(os.Stdout, os.Getenv)); !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return nil
}

// open opens a record, which is a file: what else a tree of work has under its name could make one wait for ever.
func open(name string) (*os.File, error) {
	if name == "-" {
		return os.Stdin, nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("is no file")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// put writes a picture, in one piece, as a report is written: no link in a tree of work leads it elsewhere.
func (f *output) put(b []byte) error {
	if f.file == "-" {
		_, err := os.Stdout.Write(b)
		return err
	}
	src := config.Here(os.Environ(), "")
	sink, err := outputs.OpenWhole(f.option, f.file, func(dir string) (string, error) { return new(config.Resolved).RealDir(&src, dir) })
	if err != nil {
		return err
	}
	defer sink.Close()
	return sink.Put(b)
}

// penOf is what a terminal can show. What is none gets plain text, as wide as COLUMNS says or 80.
func penOf(out *os.File, env func(string) string) Pen {
	p := Pen{Width: 80}
	if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		p.Width = n
	}
	if term.IsTerminal(int(out.Fd())) {
		p.Color = env("NO_COLOR") == "" && env("TERM") != "dumb"
		if w, _, err := term.GetSize(int(out.Fd())); err == nil && w > 0 {
			p.Width = w
		}
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(env(name)); locale != "" {
			p.ASCII = !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
			break
		}
	}
	return p
}
