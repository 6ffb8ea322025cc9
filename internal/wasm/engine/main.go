package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
)

// MaxModule is how large a module may be.
const MaxModule = 256 << 20

// Main is the program confine-wasm. It gives the exit code.
func Main(args []string) int {
	tell := teller()
	switch {
	case len(args) > 1 && args[1] == "run":
		o, argv, err := wasm.Parse(args[1:])
		if err != nil {
			break
		}
		// What is too large for a file is an error of the write, and not the engine's end.
		signal.Ignore(signalsOfLimits...)
		told, code := run(&o, argv, unsetFD(os.Environ()))
		tell(told)
		return code
	case len(args) == 2 && args[1] == "compile":
		if err := compile(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "confine-wasm: "+err.Error())
			return 1
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "confine-wasm: started by \"confine --isolation wasm\", and by nobody else")
	return status.UsageRC
}

// teller gives what tells the supervisor, by a descriptor that is hidden from the module.
func teller() func(*wasm.Told) {
	fd, err := strconv.Atoi(os.Getenv(handoff.TellsVar))
	if err != nil || fd < 3 {
		return func(*wasm.Told) {}
	}
	f := os.NewFile(uintptr(fd), handoff.TellsVar)
	return func(t *wasm.Told) { _, _ = f.Write(t.Encode()) }
}

func unsetFD(environ []string) (rest []string) {
	for _, e := range environ {
		if !strings.HasPrefix(e, handoff.TellsVar+"=") {
			rest = append(rest, e)
		}
	}
	return rest
}

// run runs a module, which is the first word.
func run(o *wasm.Options, argv, environ []string) (*wasm.Told, int) {
	text, err := load(argv[0])
	if err != nil {
		return notStarted(argv[0], err)
	}
	if !bytes.HasPrefix(text, []byte(magic)) {
		return notStarted(argv[0], errNoModule)
	}
	mem := &memory{limit: uint64(o.Pages) * wasm.PageSize}
	ctx := experimental.WithMemoryAllocator(context.Background(), mem)
	runtime, module, err := compiled(ctx, text, o.Cache)
	if err != nil && o.Cache != "" { // what is kept is another module's by now, or another CPU's
		runtime, module, err = compiled(ctx, text, "")
	}
	if err != nil {
		return notStarted(argv[0], err)
	}
	defer runtime.Close(ctx)
	if err := suits(module); err != nil {
		return notStarted(argv[0], err)
	}
	if err := serve(ctx, runtime, module); err != nil {
		return notStarted(argv[0], err)
	}
	seen := &seen{}
	config := wazero.NewModuleConfig().WithArgs(argv...).WithStdin(os.Stdin).WithStdout(os.Stdout).WithStderr(os.Stderr).WithName("")
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		config = config.WithEnv(name, value)
	}
	files := wazero.NewFSConfig()
	for i, dir := range o.Dirs {
		t, err := openTree(dir, seen, o.Deterministic)
		if err != nil {
			continue // it isn't there, and the module finds that out
		}
		if i == 0 {
			files = files.(sysfs.FSConfig).WithSysFSMount(t, ".")
		}
		files = files.(sysfs.FSConfig).WithSysFSMount(t, dir)
	}
	config = withClock(config.WithFSConfig(files), o.Deterministic)
	err = start(ctx, runtime, module, config)
	if large := (*tooLarge)(nil); errors.As(err, &large) {
		return notStarted(argv[0], err)
	}
	return ending(err, mem, seen)
}

// magic is how every module begins.
const magic = "\x00asm"

var errNoModule = errors.New("no module of WebAssembly")

// start runs a module to its end.
func start(ctx context.Context, runtime wazero.Runtime, module wazero.CompiledModule, config wazero.ModuleConfig) (err error) {
	defer func() {
		switch of := recover().(type) {
		case nil:
		case *tooLarge:
			err = of
		default:
			panic(of)
		}
	}()
	_, err = runtime.InstantiateModule(ctx, module, config)
	return err
}

// load reads a module. What isn't a regular file isn't opened.
func load(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readModule(f, info.Size())
}

// readModule reads a module, which may well be of so many bytes.
func readModule(r io.Reader, size int64) ([]byte, error) {
	text := bytes.NewBuffer(make([]byte, 0, min(size, MaxModule)+bytes.MinRead))
	_, err := text.ReadFrom(io.LimitReader(r, MaxModule+1))
	if text.Len() > MaxModule {
		return nil, fmt.Errorf("a module of more than %d bytes", MaxModule)
	}
	return text.Bytes(), err
}

// compiled is a module as it runs, with what a directory has of it, if that is not "".
func compiled(ctx context.Context, text []byte, cache string) (wazero.Runtime, wazero.CompiledModule, error) {
	config := wazero.NewRuntimeConfig().WithDebugInfoEnabled(false)
	if cache != "" {
		c, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return nil, nil, err
		}
		config = config.WithCompilationCache(c)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	module, err := runtime.CompileModule(ctx, text)
	if err != nil {
		_ = runtime.Close(ctx)
		return nil, nil, err
	}
	return runtime, module, nil
}

// compile writes to w what a module is compiled to: the name of a file below a cache's directory, a line, and what it holds.
func compile(r io.Reader, w io.Writer) error {
	text, err := readModule(r, 0)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cache")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	runtime, _, err := compiled(ctx, text, dir)
	if err != nil {
		return err
	}
	defer runtime.Close(ctx)
	all, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(all) != 1 {
		return fmt.Errorf("it was compiled to %d files, %w", len(all), errors.Join(err))
	}
	f, err := os.Open(all[0])
	if err != nil {
		return err
	}
	defer f.Close()
	name, err := filepath.Rel(dir, all[0])
	if err == nil {
		_, err = io.WriteString(w, name+"\n")
	}
	if err == nil {
		_, err = io.Copy(w, f)
	}
	return err
}

// withClock gives the module time and random numbers.
func withClock(config wazero.ModuleConfig, deterministic bool) wazero.ModuleConfig {
	if !deterministic {
		return config.WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	}
	c := &clock{}
	return config.WithRandSource(newNumbers()).WithWalltime(c.wall, resolution).WithNanotime(c.nano, resolution).WithNanosleep(c.sleep).WithOsyield(func() {})
}
