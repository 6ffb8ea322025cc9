package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/snapshot"
)

const (
	// snapshotsName is where, beside kept runs, the snapshots of sessions are.
	snapshotsName = "snapshots"
	listSnapshots = `"confine session snapshot --list" shows those there are`
)

// snapshots are those of sessions of this user.
func snapshots() (sandboxes.Snapshots, error) {
	src := config.Here(os.Environ(), config.SystemFile)
	runs, err := src.StoreDir()
	if err != nil {
		return sandboxes.Snapshots{}, err
	}
	m := sandboxes.New(sandboxes.Options{Snapshots: filepath.Join(filepath.Dir(runs), snapshotsName)})
	return m.Snapshots(serve.OwnerOf(os.Geteuid())), nil
}

// flags takes words that are options, and leaves the others. What follows "--" is none.
func flags(args []string, form string, known ...string) (set map[string]bool, rest []string, err error) {
	set = map[string]bool{}
	for i, a := range args {
		switch {
		case a == "--":
			return set, append(rest, args[i+1:]...), nil
		case slices.Contains(known, a):
			set[a] = true
		case strings.HasPrefix(a, "-"):
			return nil, nil, &config.UsageError{Msg: fmt.Sprintf("unknown option %q", a), Hint: "usage: confine session " + form}
		default:
			rest = append(rest, a)
		}
	}
	return set, rest, nil
}

func snapshotCommand(ctx context.Context, args []string) (int, error) {
	const form = "snapshot ID [NAME] | --list [--json] | --remove NAME… | --export NAME | --import ID"
	set, rest, err := flags(args, form, "--list", "--json", "--remove", "--export", "--import")
	if err != nil {
		return 0, err
	}
	switch {
	case set["--list"] && len(rest) == 0 && !set["--remove"]:
		return 0, showSnapshots(set["--json"])
	case set["--remove"] && len(rest) > 0 && len(set) == 1:
		all, err := snapshots()
		if err != nil {
			return 0, err
		}
		for _, word := range rest {
			if err := all.Remove(word); err != nil {
				return 0, ofSnapshot(word, err)
			}
		}
		return 0, nil
	case set["--export"] && len(rest) == 1 && len(set) == 1:
		return 0, exportSnapshot(ctx, rest[0])
	case set["--import"] && len(rest) == 1 && len(set) == 1:
		return 0, importSnapshot(ctx, rest[0])
	case len(set) > 0 || len(rest) < 1 || len(rest) > 2:
		return 0, &config.UsageError{Msg: "usage: confine session " + form}
	}
	c, path, err := open(rest[0])
	if err != nil {
		return 0, err
	}
	body := map[string]string{}
	if len(rest) > 1 {
		body["name"] = rest[1]
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := c.Do(ctx, "POST", path+"/snapshots", body, &made); err != nil {
		return 0, err
	}
	fmt.Println(made.ID)
	return 0, nil
}

// ofSnapshot says what to do about one that isn't there.
func ofSnapshot(word string, err error) error {
	if errors.Is(err, sandboxes.ErrNoSnapshot) {
		return &config.UsageError{Msg: fmt.Sprintf("%q: %v", word, err), Hint: listSnapshots}
	}
	return err
}

func showSnapshots(asJSON bool) error {
	of, err := snapshots()
	if err != nil {
		return err
	}
	all, err := of.List()
	if err != nil {
		return err
	}
	if asJSON {
		lines := []map[string]any{}
		for _, in := range all {
			line := map[string]any{"id": in.ID, "names": append([]string{}, in.Names...), "holds": in.Holds(), "created": in.Created.UTC(), "size": in.Size,
				"parent": in.Parent, "places": append([]snapshot.PlaceInfo{}, in.Places...)}
			if in.Err != nil {
				line["error"] = in.Err.Error()
			}
			lines = append(lines, line)
		}
		return json.NewEncoder(os.Stdout).Encode(lines)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAMES\tCREATED\tSIZE\tFILES OF")
	for _, in := range all {
		var of []string
		for _, p := range in.Places {
			of = append(of, p.Path)
		}
		if in.Err != nil {
			of = []string{in.Err.Error()}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", in.ID, strings.Join(in.Names, ","), in.Created.Local().Format("2006-01-02 15:04:05"), config.FormatSize(in.Size), visible(strings.Join(of, " ")))
	}
	return w.Flush()
}

func restoreCommand(ctx context.Context, args []string) (int, error) {
	c, path, err := opened(args, 2, 2, "restore ID NAME")
	if err != nil {
		return 0, err
	}
	return 0, c.Do(ctx, "POST", path+"/restore", map[string]string{"snapshot": args[1]}, nil)
}

// forkCommand asks the supervisor of a session for another one, which it holds, too.
func forkCommand(ctx context.Context, args []string) (int, error) {
	const form = "fork ID [--name N] [--idle-timeout D] [--lifetime D]"
	s := &startLine{lifetime: defaultLifetime, idle: defaultIdle}
	var rest []string
	for len(args) > 0 {
		name, value, attached := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		if !strings.HasPrefix(args[0], "--") || !slices.Contains([]string{"name", "idle-timeout", "lifetime"}, name) {
			rest, args = append(rest, args[0]), args[1:]
			continue
		}
		if args = args[1:]; !attached {
			if len(args) == 0 {
				return 0, &config.UsageError{Msg: "--" + name + " needs a value"}
			}
			value, args = args[0], args[1:]
		}
		if err := ownOptions[name](s, value); err != nil {
			return 0, &config.UsageError{Msg: fmt.Sprintf("--%s %q: %v", name, value, err)}
		}
	}
	c, path, err := opened(rest, 1, 1, form)
	if err != nil {
		return 0, err
	}
	body := map[string]any{"lifetime": config.FormatDuration(s.lifetime), "idle_timeout": config.FormatDuration(s.idle)}
	if s.name != "" {
		body["name"] = s.name
	}
	var made struct {
		Sandboxes []struct {
			ID string `json:"id"`
		} `json:"sandboxes"`
	}
	if err := c.Do(ctx, "POST", path+"/fork", body, &made); err != nil {
		return 0, err
	}
	for _, b := range made.Sandboxes {
		fmt.Println(b.ID)
	}
	return 0, nil
}

// changesOf takes apart what asks for changes of a session: options, its ID, and paths.
func changesOf(args []string, form string, known ...string) (set map[string]bool, id string, paths []string, err error) {
	set, rest, err := flags(args, form, known...)
	if err != nil {
		return nil, "", nil, err
	}
	if len(rest) == 0 {
		return nil, "", nil, &config.UsageError{Msg: "usage: confine session " + form}
	}
	paths, err = cli.CanonicalPaths(rest[1:])
	return set, rest[0], paths, err
}

func diffCommand(ctx context.Context, args []string) (int, error) {
	set, id, paths, err := changesOf(args, "diff ID [--patch] [--json] [PATH…]", "--patch", "--json")
	if err != nil {
		return 0, err
	}
	query := url.Values{"path": paths}
	if !set["--json"] {
		if here, err := os.Getwd(); err == nil { // without one, names are absolute
			if here, err = filepath.EvalSymlinks(here); err == nil {
				query.Set("from", here)
			}
		}
		query.Set("names", "")
	}
	if set["--patch"] {
		query.Set("patch", "")
	}
	c, path, err := open(id)
	if err != nil {
		return 0, err
	}
	return 0, reviewed(id, c.Get(ctx, path+"/diff?"+query.Encode(), os.Stdout))
}

func applyCommand(ctx context.Context, args []string) (int, error) {
	set, id, paths, err := changesOf(args, "apply ID [--force] [--allow-protected] [--dry-run] [PATH…]", "--force", "--allow-protected", "--dry-run")
	if err != nil {
		return 0, err
	}
	c, path, err := open(id)
	if err != nil {
		return 0, err
	}
	var done struct {
		Applied int `json:"applied"`
		NoSetID int `json:"no_set_id"`
		Parted  int `json:"parted"`
		Copied  int `json:"copied"`
	}
	body := map[string]any{"paths": paths, "force": set["--force"], "allow_protected": set["--allow-protected"], "dry_run": set["--dry-run"]}
	if err := reviewed(id, c.Do(ctx, "POST", path+"/apply", body, &done)); err != nil {
		return 0, err
	}
	verb, changed := "applied", "changes"
	if set["--dry-run"] {
		verb = "would apply"
	}
	if done.Applied == 1 {
		changed = "change"
	}
	fmt.Printf("%s %d %s of session %s\n", verb, done.Applied, changed, id)
	for _, line := range cli.ApplyNotes(&changes.Result{NoSetID: done.NoSetID, Parted: done.Parted, Copied: done.Copied}) {
		fmt.Fprintln(os.Stderr, "confine session: "+line)
	}
	return 0, nil
}

// reviewed lists the paths of a problem, and says what to do here.
func reviewed(word string, err error) error {
	var p *serve.Error
	if !errors.As(err, &p) {
		return err
	}
	said := *p
	for _, path := range p.Paths {
		said.Detail += "\n  " + changes.Quote(path.Path) + ": " + path.Reason
	}
	if p.More > 0 {
		said.Detail += fmt.Sprintf("\n  and %d more", p.More)
	}
	switch p.Code {
	case serve.CodeChanged:
		said.Hint = "--force lets the session's version win, where it can"
	case serve.CodeRefused:
		said.Hint = "look at it with confine session diff " + word + " --patch; then --allow-protected where that is refused, or name the other paths"
	case serve.CodeIncomplete:
		said.Hint = "--force applies the others"
	case serve.CodeNoOverlay:
		said.Hint = "start one with --workdir overlay"
	}
	return &said
}
