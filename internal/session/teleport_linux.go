package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/internal/snapshot"
	"github.com/confine-run/confine/internal/teleport"
)

// origin is how a session would be asked for at a server, which resolves it with files and a ceiling of its own; nil: it can't be said there.
func origin(settings []config.Setting, command []string, dir string) []byte {
	policy := map[string]any{"output_limit": "none"}
	if policyOf(policy, settings) != "" {
		return nil
	}
	text, err := json.Marshal(map[string]any{"policy": policy, "dir": dir, "for": command})
	if err != nil {
		return nil
	}
	return text
}

// policyOf adds what options say to the policy of a document. It gives the first that no document has.
func policyOf(policy map[string]any, settings []config.Setting) (not string) {
	for _, s := range settings {
		o := config.LookupOption(s.Option)
		if o == nil || o.FileOnly || o.Run && s.Option != "profile" {
			return s.Option
		}
		enter(policy, o, &s)
	}
	return ""
}

// enter enters an option into a document, which has "_" for the "-" of its name. A word of the command line may hold several of a list.
func enter(doc map[string]any, o *config.Option, s *config.Setting) {
	key := strings.ReplaceAll(s.Option, "-", "_")
	if o.IsList() {
		before, _ := doc[key].([]string)
		doc[key] = append(before, s.Values...)
	} else if len(s.Values) > 0 {
		doc[key] = s.Values[len(s.Values)-1]
	}
}

// teleportCommand has a session, or a sandbox of a server, go on at another server.
func teleportCommand(ctx context.Context, args []string) (int, error) {
	const form = "teleport ID --to URL [--token-file FILE] [--from URL [--from-token-file FILE]]"
	said := map[string]string{}
	var rest []string
	for len(args) > 0 {
		name, value, attached := strings.Cut(args[0], "=")
		switch name {
		case "--to", "--from", "--token-file", "--from-token-file":
			if args = args[1:]; !attached {
				if len(args) == 0 {
					return 0, &config.UsageError{Msg: name + " needs a value"}
				}
				value, args = args[0], args[1:]
			}
			said[name] = value
		default:
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	if err := words(rest, 1, 1, form); err != nil {
		return 0, err
	}
	if said["--to"] == "" {
		return 0, &config.UsageError{Msg: "usage: confine session " + form}
	}
	to, err := serverAt(said["--to"], said["--token-file"])
	if err != nil {
		return 0, err
	}
	var from *serve.Client
	path := "/v1/sandboxes/" + url.PathEscape(rest[0])
	if said["--from"] != "" {
		from, err = serverAt(said["--from"], said["--from-token-file"])
	} else {
		from, path, err = open(rest[0])
	}
	if err != nil {
		return 0, err
	}
	moved, err := teleport.Move(ctx, from, path, to, said["--to"], nil)
	if err != nil {
		return 0, err
	}
	fmt.Println(moved.ID)
	if !moved.Memory {
		fmt.Fprintln(os.Stderr, "confine: its files are there, and no processes: those are moved with --isolation vm alone")
	}
	return 0, nil
}

func serverAt(address, tokenFile string) (*serve.Client, error) {
	token := ""
	if tokenFile != "" {
		text, err := config.ReadSecret("--token-file", tokenFile)
		if err != nil {
			return nil, err
		}
		token, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	return serve.NewClientOf(address, token)
}

// exportSnapshot writes a bundle to standard output.
func exportSnapshot(ctx context.Context, word string) error {
	all, err := snapshots()
	if err != nil {
		return err
	}
	return ofSnapshot(word, all.Export(ctx, word, os.Stdout))
}

// importSnapshot takes a bundle from standard input.
func importSnapshot(ctx context.Context, id string) error {
	all, err := snapshots()
	if err != nil {
		return err
	}
	in, _, err := all.Import(ctx, id, os.Stdin)
	switch {
	case errors.Is(err, snapshot.ErrBundle), errors.Is(err, snapshot.ErrOther):
		return &config.UsageError{Msg: err.Error(), Err: err}
	case err != nil:
		return err
	}
	fmt.Println(in.ID)
	return nil
}
