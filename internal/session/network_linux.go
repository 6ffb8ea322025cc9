package session

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

const networkForm = "network ID [--json] [--allow-network HOST[:PORT]]… [--deny-network …] [--allow-port N] …"

// networkCommand changes whom a session may reach, and prints what holds. An option that is given is what holds from now on, a list as a
// whole; the others stay as they are.
func networkCommand(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, &config.UsageError{Msg: "usage: confine session " + networkForm}
	}
	id, asJSON := args[0], false
	rest := slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool {
		asJSON = asJSON || a == "--json"
		return a == "--json"
	})
	line, err := cli.Scan(cli.TakesAll, rest)
	if err != nil {
		return 0, err
	}
	if line.Ended || len(line.Rest) > 0 {
		return 0, &config.UsageError{Msg: "usage: confine session " + networkForm}
	}
	change, err := changeOf(line.Settings)
	if err != nil {
		return 0, err
	}
	c, path, err := open(id)
	if err != nil {
		return 0, err
	}
	var now struct {
		Network map[string]json.RawMessage `json:"network"`
	}
	if len(change) == 0 {
		err = c.Do(ctx, "GET", path, nil, &now)
	} else {
		err = c.Do(ctx, "PATCH", path, map[string]any{"network": change}, &now)
	}
	if err != nil {
		return 0, err
	}
	if asJSON {
		return 0, json.NewEncoder(os.Stdout).Encode(now.Network)
	}
	for _, o := range config.Options() {
		if text, ok := now.Network[strings.ReplaceAll(o.Name, "-", "_")]; ok && o.Group == config.GroupNetwork {
			fmt.Println(optionLine(o.Name, text))
		}
	}
	return 0, nil
}

// changeOf is the document of a change: options of the network by their names,.
func changeOf(settings []config.Setting) (map[string]any, error) {
	change := map[string]any{}
	for _, s := range settings {
		o := config.LookupOption(s.Option)
		if o == nil || o.Group != config.GroupNetwork {
			return nil, &config.UsageError{Msg: "--" + s.Option + " is no option of the network", Hint: "usage: confine session " + networkForm}
		}
		enter(change, o, &s)
	}
	return change, nil
}

// optionLine is an option and its value, as people read it.
func optionLine(name string, text json.RawMessage) string {
	var list []string
	var word string
	switch {
	case json.Unmarshal(text, &list) == nil:
		if word = strings.Join(list, " "); len(list) == 0 {
			word = "none"
		}
	case json.Unmarshal(text, &word) != nil:
		word = string(text)
	}
	return visible(fmt.Sprintf("%-20s %s", name, word))
}
