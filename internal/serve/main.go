package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

const usage = `usage: confine serve [--listen unix:PATH|HOST:PORT]… [options]

The local API: sandboxes and runs by HTTP. GET /v1/openapi.json describes it; docs/API.md is its manual.

  --listen ADDRESS      unix:PATH or HOST:PORT; repeatable. Without it: the sockets that systemd passes, or $XDG_RUNTIME_DIR/confine/serve.sock
                        (/tmp/confine-UID/serve.sock where there is no such directory)
  --token-file FILE     tokens for TCP, one a line, of 32 characters or more; a TCP address needs it
  --allow-uid UID       a user who may connect to the unix socket, beside its own; repeatable
  --ceiling NAME|FILE   no policy may be wider than this profile, or this file
  --profile NAME        of requests that name none
  --pool PROFILE=MIN:MAX
                        sandboxes of this profile that are built ahead: so many always, and so many when they are asked
                        for; repeatable
  --state DIR           what outlives the server: snapshots. $XDG_STATE_HOME/confine/serve, or that of systemd
  --max-snapshots N     of one user or token (100; 0: any number)
  --max-snapshot-bytes SIZE
                        of all snapshots of one user or token (16G; 0: any number)
  --api NAME[,NAME]     confine, e2b (E2B's wire API, for its SDKs), or both (confine)
  --until-eof           end when standard input does: a program that holds the other end of a pipe has a server of its own, which
                        ends with it, however that ends
  --max-sandboxes N     at one time (256), as far as there are descriptors for them; who finds no room waits for up to 10 seconds
  --max-per-owner N     of one user or token (0: as many)
`

// many is a flag that is repeated.
type many []string

func (m *many) String() string { return strings.Join(*m, ",") }

func (m *many) Set(word string) error {
	*m = append(*m, word)
	return nil
}

// Main is "confine serve" with its arguments. backends builds what a policy asks for. It gives the exit code.
func Main(args []string, backends func(*config.Policy) backend.Backend) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := start(ctx, args, backends, os.Stdin, os.Stderr)
	var usageError *config.UsageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return 0
	case errors.As(err, &usageError):
		fmt.Fprintln(os.Stderr, terminal.Blame("confine serve", usageError))
		return status.UsageRC
	}
	fmt.Fprintln(os.Stderr, terminal.Blame("confine serve", err))
	return 1
}

// start serves until ctx ends, or what it is held by does. A line for each address goes to said when it is listened on.
func start(ctx context.Context, args []string, backends func(*config.Policy) backend.Backend, held io.Reader, said io.Writer) error {
	var listen, uids, pools many
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&listen, "listen", "")
	flags.Var(&uids, "allow-uid", "")
	flags.Var(&pools, "pool", "")
	tokenFile := flags.String("token-file", "", "")
	ceiling := flags.String("ceiling", "", "")
	profile := flags.String("profile", "", "")
	api := flags.String("api", apiConfine, "")
	most := flags.Int("max-sandboxes", 256, "")
	perOwner := flags.Int("max-per-owner", 0, "")
	state := flags.String("state", "", "")
	snapshots := flags.Int("max-snapshots", 100, "")
	untilEOF := flags.Bool("until-eof", false, "")
	snapshotBytes := flags.String("max-snapshot-bytes", "16G", "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &config.UsageError{Msg: err.Error(), Hint: "see: confine serve --help"}
	}
	if flags.NArg() > 0 {
		return &config.UsageError{Msg: fmt.Sprintf("%q is no option", flags.Arg(0)), Hint: "see: confine serve --help"}
	}
	s := &Server{Sources: config.Here(os.Environ(), config.SystemFile), Profile: *profile, Version: version(), Environ: config.Harmless(os.Environ())}
	var err error
	if s.Ceiling, err = s.ceiling(*ceiling); err != nil {
		return err
	}
	own, other, err := apis(*api)
	if err != nil {
		return err
	}
	s.E2B, s.Alone = other, !own
	if err := s.admitThese(uids, *tokenFile); err != nil {
		return err
	}
	room, err := roomFor(*most, pools, said)
	if err != nil {
		return err
	}
	o := sandboxes.Options{Backend: backends, Max: room, Wait: roomTime, MaxRunning: room + places.Descriptors()/64, MaxPerOwner: *perOwner, MaxSnapshots: *snapshots}
	if o.MaxSnapshotBytes, err = config.ParseSize(*snapshotBytes); err != nil {
		return &config.UsageError{Msg: "--max-snapshot-bytes: " + err.Error()}
	}
	if err := s.prepareState(*state, &o, said); err != nil {
		return err
	}
	listeners, err := open(listen, len(uids) > 0)
	if err != nil {
		return err
	}
	if _, err := portsOf(listeners, len(s.Tokens) > 0); err != nil { // before anybody is told that it listens
		for _, l := range listeners {
			_ = l.Close()
		}
		return err
	}
	s.Hidden = append(s.Hidden, sockets.Dir()) // those of sessions are there, too
	s.Hidden = append(s.Hidden, announced(listeners, said)...)
	if *tokenFile != "" {
		if path, err := filepath.Abs(*tokenFile); err == nil {
			s.Hidden = append(s.Hidden, path)
		}
	}
	s.Manager = sandboxes.New(o)
	if err := (poolRoutes{s}).open(pools, *ceiling, backends); err != nil {
		for _, l := range listeners {
			_ = l.Close()
		}
		return err
	}
	if *untilEOF {
		ctx = until(ctx, held)
	}
	return s.Serve(ctx, listeners...)
}

// roomTime is how long a request for a sandbox waits for its turn where there is no room.
const roomTime = 10 * time.Second

// roomFor is how many sandboxes there may be of those that are wanted, by the descriptors of this process. Those that are parked have theirs.
func roomFor(most int, pools []string, said io.Writer) (int, error) {
	parked := 0
	for _, word := range pools {
		if _, _, max, err := poolOf(word); err == nil { // else that is an error later
			parked += 2 * max
		}
	}
	all := places.ByDescriptors()
	if all-parked < 1 {
		return 0, &config.UsageError{Msg: fmt.Sprintf("--pool keeps up to %d sandboxes parked, and there are descriptors for %d in all", parked, all),
			Hint: "a smaller pool, or more descriptors: LimitNOFILE= of the unit, ulimit -n"}
	}
	if most <= 0 || most > all-parked {
		most = all - parked
		fmt.Fprintf(said, "confine serve: %d sandboxes at one time: there are %d descriptors (LimitNOFILE=, ulimit -n)\n", most, places.Descriptors())
	}
	return most, nil
}

// until is a context that ends when a reader does, too.
func until(ctx context.Context, r io.Reader) context.Context {
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		end()
	}()
	return ctx
}

// announced tells where the server listens, and gives the names of sockets.
func announced(listeners []net.Listener, said io.Writer) (paths []string) {
	for _, l := range listeners {
		if addr, ok := l.Addr().(*net.UnixAddr); ok {
			paths = append(paths, addr.Name)
			fmt.Fprintln(said, "confine serve: listening on unix:"+addr.Name)
		} else {
			fmt.Fprintln(said, "confine serve: listening on http://"+l.Addr().String())
		}
	}
	return paths
}

// admitThese reads who may connect.
func (s *Server) admitThese(uids []string, tokenFile string) error {
	for _, word := range uids {
		uid, err := strconv.Atoi(word)
		if err != nil || uid < 0 {
			return &config.UsageError{Msg: fmt.Sprintf("--allow-uid %q is no number of a user", word)}
		}
		s.AllowUIDs = append(s.AllowUIDs, uid)
	}
	if tokenFile == "" {
		return nil
	}
	text, err := config.ReadSecret("--token-file", tokenFile)
	if err != nil {
		return err
	}
	if s.Tokens, err = ParseTokens(string(text)); err != nil {
		return &config.UsageError{Msg: tokenFile + ": " + err.Error()}
	}
	return nil
}

// version is that of the module, where the program was built from one.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// ceiling is the policy of a profile, or of a file.
func (s *Server) ceiling(word string) (*config.Policy, error) {
	if word == "" {
		return nil, nil
	}
	dir, err := filepath.EvalSymlinks(s.Sources.Dir)
	if err != nil {
		return nil, &config.UsageError{Msg: "the current directory can't be told: " + err.Error(), Hint: "start it in one that exists", Err: err}
	}
	s.Sources.Dir = dir // what it is compared with is resolved, too
	p, files, err := config.LoadCeiling(s.Sources, word)
	if s.CeilingFiles = files; err == nil && s.Profile == "" && slices.Contains(config.Profiles(), word) {
		s.Profile = word
	}
	return p, err
}

// open opens what is to be listened on.
func open(addresses []string, shared bool) ([]net.Listener, error) {
	passed, err := passedSockets()
	if err != nil || len(passed) > 0 && len(addresses) == 0 {
		return passed, err
	}
	if len(addresses) == 0 {
		dir := sockets.Dir()
		if err := sockets.Own(dir); err != nil {
			return nil, err
		}
		addresses = []string{"unix:" + filepath.Join(dir, "serve.sock")}
	}
	for _, address := range addresses {
		l, err := sockets.Listen(address, shared)
		if err != nil {
			for _, l := range passed {
				_ = l.Close()
			}
			return nil, err
		}
		passed = append(passed, l)
	}
	return passed, nil
}

// passedSockets are those that systemd opened for this process: descriptors from 3 on, as sd_listen_fds(3) says.
func passedSockets() (all []net.Listener, err error) {
	if pid, _ := strconv.Atoi(os.Getenv("LISTEN_PID")); pid != os.Getpid() {
		return nil, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > 64 {
		return nil, &config.UsageError{Msg: "LISTEN_FDS is no number of sockets"}
	}
	for fd := 3; fd < 3+n; fd++ {
		f := os.NewFile(uintptr(fd), "LISTEN_FDS")
		l, err := net.FileListener(f) // a copy, which is closed at an exec
		_ = f.Close()
		if err != nil {
			return nil, &config.UsageError{Msg: fmt.Sprintf("descriptor %d is no socket that listens: %v", fd, err), Err: err}
		}
		all = append(all, l)
	}
	return all, nil
}
