package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// log is where a runtime's caller reads what it says.
type log struct {
	Path string
	JSON bool
}

func (l *log) error(text string) { l.say("error", text) }
func (l *log) info(text string)  { l.say("info", text) }

func (l *log) say(level, text string) {
	if l.Path == "" {
		return
	}
	f, err := os.OpenFile(l.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	now := time.Now().UTC().Format(time.RFC3339)
	line := fmt.Appendf(nil, "time=%q level=%s msg=%q\n", now, level, text)
	if l.JSON {
		line, _ = json.Marshal(map[string]string{"level": level, "msg": text, "time": now})
		line = append(line, '\n')
	}
	_, _ = f.Write(line)
}
