package session

import (
	"context"
	"slices"

	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/serve"
)

// elsewhere are the commands that need nothing but a server that has the session.
var elsewhere = []string{"exec", "shell", "cp", "ps", "logs", "kill", "network"}

// IsElsewhere says whether a word is one of them.
func IsElsewhere(command string) bool { return slices.Contains(elsewhere, command) }

// Elsewhere does one of those commands about a session that is somewhere else. at finds the session of a word: a client, and the path of its sandbox there.
func Elsewhere(ctx context.Context, args []string, at func(word string) (*serve.Client, string, error)) (int, error) {
	open = at
	return commands[args[0]](ctx, args[1:])
}

// Asked is what "start" was told, for a server.
type Asked struct {
	Name, From string
	Document   map[string]any // what asks for the sandbox, but for From
}

// Ask takes the arguments of "start" apart, with more options. What only means something on this host is refused.
func Ask(args []string, more func(option string) *cli.Own) (*Asked, error) {
	s := &startLine{lifetime: defaultLifetime, idle: defaultIdle}
	if err := s.parse(args, more); err != nil {
		return nil, err
	}
	if s.ownerPID != 0 {
		return nil, &config.UsageError{Msg: "--owner-pid is about a process of this host", Hint: "--lifetime and --idle-timeout end a session elsewhere"}
	}
	policy := map[string]any{}
	if not := policyOf(policy, s.settings); not != "" {
		return nil, &config.UsageError{Msg: "--" + not + " means something on this host alone"}
	}
	ask := map[string]any{"policy": policy, "lifetime": config.FormatDuration(s.lifetime), "idle_timeout": config.FormatDuration(s.idle)}
	if s.name != "" {
		ask["name"] = s.name
	}
	if len(s.command) > 0 {
		ask["for"] = s.command
	}
	return &Asked{s.name, s.from, ask}, nil
}
