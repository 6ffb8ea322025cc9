package confine

import (
	"errors"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/network"
)

func checkAllowHost(_ place, word string) (string, error) {
	if word == wordAll {
		return word, nil
	}
	word, err := network.Canonical(word)
	return word, hostMistake(err)
}

func checkDenyHost(_ place, word string) (string, error) {
	if word == wordAll {
		return "", mistake("stands only for what is allowed", "to reach nothing, allow nothing")
	}
	word, err := network.CanonicalDeny(word)
	return word, hostMistake(err)
}

// hostMistake makes what is wrong with a word of the network a mistake of the user's.
func hostMistake(err error) error {
	var e *network.Error
	if !errors.As(err, &e) {
		return err
	}
	return mistake(e.Msg+meant(e.Unknown, e.Known), e.Hint)
}

func checkPort(_ place, word string) (string, error) {
	n, err := network.CheckPort(word)
	return strconv.Itoa(int(n)), hostMistake(err)
}

func checkPublish(_ place, word string) (string, error) {
	const hint = `it takes "HOSTPORT:PORT", such as "8080:80"`
	outside, inside, ok := strings.Cut(word, ":")
	if !ok {
		return "", mistake("has no port inside", hint)
	}
	a, err := checkPort(place{}, outside)
	if err != nil {
		return "", mistake("has a port outside that "+err.(*UsageError).Msg, hint)
	}
	b, err := checkPort(place{}, inside)
	if err != nil {
		return "", mistake("has a port inside that "+err.(*UsageError).Msg, hint)
	}
	return a + ":" + b, nil
}
