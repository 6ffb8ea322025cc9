package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/supervisor/terminal"
)

// keptLine is a line of diff --list --json; fields are added only.
type keptLine struct {
	ID      string           `json:"id"`
	Time    time.Time        `json:"time"`
	Command []string         `json:"command"`
	Trees   []string         `json:"trees"`
	Summary *changes.Summary `json:"summary,omitempty"`
	// Error: its record can't be read, and nothing but the id is known.
	Error string `json:"error,omitempty"`
}

// list writes one line for each run that is kept, the newest first.
func (r *review) list(asJSON bool) error {
	all, err := r.store.List()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i := range all {
		if asJSON {
			if err := lineOf(&out, &all[i]); err != nil {
				return err
			}
			continue
		}
		in := &all[i]
		if in.Err != nil {
			msg, hint, _ := strings.Cut(in.Err.Error(), "\nhint: ")
			fmt.Fprintf(&out, "%s  %s; %s\n", in.ID, terminal.Visible(msg), terminal.Visible(hint))
			continue
		}
		fmt.Fprintf(&out, "%s  %s  %s  %s  %s\n", in.ID, in.Time.Format(time.DateTime), places(in.Trees),
			summary(in.Summary), terminal.Visible(strings.Join(in.Command, " ")))
	}
	_, err = r.Write(out.Bytes())
	return err
}

func lineOf(out *bytes.Buffer, in *changes.Info) error {
	line := keptLine{ID: in.ID, Time: in.Time, Command: in.Command, Trees: in.Trees, Summary: &in.Summary}
	if line.Command == nil {
		line.Command = []string{}
	}
	if line.Trees == nil {
		line.Trees = []string{}
	}
	if in.Err != nil {
		line.Error, line.Summary = in.Err.Error(), nil
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(line)
}

// places are the trees of a run.
func places(trees []string) string {
	all := make([]string, len(trees))
	for i, t := range trees {
		all[i] = changes.Quote(t)
	}
	return strings.Join(all, ", ")
}
