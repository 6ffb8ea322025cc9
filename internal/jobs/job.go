package jobs

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Key names a job: who it belongs to, what was submitted at once, and which of that.
type Key struct {
	Account string `json:"account"`
	Batch   string `json:"batch"`
	Index   int    `json:"index"`
}

// String is the tokens of subjects.
func (k Key) String() string { return k.Account + "." + k.Batch + "." + strconv.Itoa(k.Index) }

// ParseKey is the inverse.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("%.100q is no key of a job", s)
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 0 || strconv.Itoa(n) != parts[2] || !ValidName(parts[0]) || !ValidName(parts[1]) {
		return Key{}, fmt.Errorf("%.100q is no key of a job", s)
	}
	return Key{parts[0], parts[1], n}, nil
}

// ValidName says whether a word can be an account or an ID: a token of subjects, and a name of a file.
func ValidName(word string) bool {
	return word != "" && len(word) <= 64 && !strings.HasPrefix(word, "-") && !strings.ContainsFunc(word, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

// NewID is one that nobody has had.
func NewID() string {
	var b [10]byte
	_, _ = rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// Priorities, the first is served first.
var Priorities = []string{"high", "normal", "low"}

// Job is what is to be done. It is the message of the queue, and all that a worker knows of it.
type Job struct {
	Version     int       `json:"version"`
	Key         Key       `json:"key"`
	Run         int       `json:"run"`             // from 1; "retry" makes another
	Array       bool      `json:"array,omitempty"` // it is one of many
	Priority    string    `json:"priority"`
	Argv        []string  `json:"argv"`
	Env         []string  `json:"env,omitempty"`    // K=V
	Policy      []Setting `json:"policy,omitempty"` // options of a run
	Input       string    `json:"input,omitempty"`  // digest of a tar that is unpacked where it starts
	Output      []string  `json:"output,omitempty"` // patterns of files that are kept, relative to where it starts
	MaxAttempts int       `json:"max_attempts"`     // of starts that came to no end
	TTL         Seconds   `json:"ttl,omitempty"`    // for which it may wait to be started; 0: as long as it takes
	Submitted   time.Time `json:"submitted"`
}

// Setting is an option of a run.
type Setting struct {
	Option string   `json:"option"`
	Values []string `json:"values"`
}

// Seconds is a time.
type Seconds float64

// Duration is it.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Bounds of a job, since anybody who may submit wrote it.
const (
	version     = 1
	maxJob      = 512 << 10 // bytes of the message
	maxPatterns = 100
	maxTTL      = 366 * 24 * 3600
	MaxArray    = 100_000
	MaxAttempts = 100
)

// ParseJob is the job of a message.
func ParseJob(text []byte) (*Job, error) {
	if len(text) > maxJob {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), maxJob)
	}
	var j Job
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, err
	}
	return &j, j.check()
}

// Read is the job of a message of the queue, whose subject says the same of it. What a user may submit, a server decides by the subject.
func Read(subject string, header nats.Header, text []byte) (*Job, error) {
	if lent(header, false) {
		return nil, errLent
	}
	j, err := ParseJob(text)
	if err == nil && subject != j.subject() {
		err = errors.New("its subject is another than its key and its priority say")
	}
	return j, err
}

func (j *Job) check() error {
	switch {
	case j.Version != version:
		return fmt.Errorf("it is of version %d, not %d", j.Version, version)
	case !ValidName(j.Key.Account) || !ValidName(j.Key.Batch) || j.Key.Index < 0 || j.Run < 1:
		return errors.New("its key can't be one")
	case len(j.Argv) == 0 || j.Argv[0] == "":
		return errors.New("it has no command")
	case j.MaxAttempts < 1 || j.MaxAttempts > MaxAttempts:
		return fmt.Errorf("it may be started %d times; 1 to %d can be", j.MaxAttempts, MaxAttempts)
	case !(j.TTL >= 0 && j.TTL <= maxTTL):
		return errors.New("its time to live is negative, or more than a year")
	case len(j.Output) > maxPatterns:
		return fmt.Errorf("it has more than %d patterns of outputs", maxPatterns)
	case j.Input != "" && !validDigest(j.Input):
		return errors.New("its input is no digest")
	case !slices.Contains(Priorities, j.Priority):
		return fmt.Errorf("there is no priority %.50q", j.Priority)
	}
	for _, word := range slices.Concat(j.Argv, j.Env) {
		if strings.IndexByte(word, 0) >= 0 {
			return errors.New("a word of it has a byte 0")
		}
	}
	for _, pattern := range j.Output {
		if err := config.CheckPattern(pattern); err != nil {
			return fmt.Errorf("its output %.100q %w", pattern, err)
		}
	}
	_, err := j.Settings()
	return err
}

// Settings are the options, for package config. Those of the caller's side alone are none of a job's.
func (j *Job) Settings() ([]config.Setting, error) {
	var all []config.Setting
	for _, s := range j.Policy {
		o := config.LookupOption(s.Option)
		if o == nil || o.Run && o.Name != "profile" || o.FileOnly {
			return nil, &config.UsageError{Msg: "--" + strings.ToValidUTF8(s.Option[:min(len(s.Option), 50)], "") + " is no option of a job"}
		}
		all = append(all, config.Setting{Option: s.Option, Values: s.Values, Source: "job"})
	}
	return all, nil
}

// State is what is known of a job.
type State string

// States of jobs. What is not queued or running stays as it is, unless somebody has it run again.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"      // it has run to its end, however that was: the report says
	Cancelled State = "cancelled" // it doesn't run, and won't
	Dead      State = "dead"      // it was given up, see Reason
)

// Final says that it has ended.
func (s State) Final() bool { return s == Done || s == Cancelled || s == Dead }

// Reason is why a job was given up.
type Reason string

// Reasons.
const (
	ReasonAttempts   Reason = "attempts"    // it was started as often as it may, and came to no end
	ReasonExpired    Reason = "expired"     // it waited for longer than its time to live
	ReasonRefused    Reason = "refused"     // its policy is wider than the worker's ceiling, or none
	ReasonInput      Reason = "input"       // its input isn't there any more, or can't be unpacked
	ReasonUnreadable Reason = "undecodable" // the message is no job
)

// Record is what has become of a job: the value of its key. Whoever changes it names the revision that it has read, so
// that of two who do one is refused.
type Record struct {
	Job     *Job  `json:"job,omitempty"` // nil: it was cancelled before anybody started it
	Run     int   `json:"run"`
	State   State `json:"state"`
	Attempt int   `json:"attempt"` // starts of this run
	// Worker runs it, or ran it last, and Claim names the start.
	Worker string `json:"worker,omitempty"`
	Claim  string `json:"claim,omitempty"`
	// Cancel: somebody wants it cancelled, and waits until it is.
	Cancel  bool      `json:"cancel,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Reason  Reason    `json:"reason,omitempty"` // of Dead
	Detail  string    `json:"detail,omitempty"` // the same in words
	// Report is how it ended; nil: it never ran to an end.
	Report *status.Report `json:"report,omitempty"`
	// Written is all that it wrote, unless Streamed: then that is in the stream of outputs.
	Written  []Chunk `json:"written,omitempty"`
	Streamed bool    `json:"streamed,omitempty"`
	// Output are the files that it left, NoOutput why there are none.
	Output   *Output `json:"output,omitempty"`
	NoOutput string  `json:"no_output,omitempty"`
	// Host is the name of the host that it ran on.
	Host string `json:"host,omitempty"`
	// Seal: the message of the job is to be met yet, so that the record stays until then.
	Seal bool `json:"seal,omitempty"`
}

// Output is a tar of files.
type Output struct {
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
	Files  int    `json:"files"`
}

// Chunk is something that a job wrote. End is the last of an attempt.
type Chunk struct {
	Run     int    `json:"run,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Stream  string `json:"stream,omitempty"` // "stdout" or "stderr"
	Data    []byte `json:"data,omitempty"`
	End     bool   `json:"end,omitempty"`
}

// RC is what a program ends with that stands for the job.
func (r *Record) RC() int {
	switch {
	case r.State == Done && r.Report != nil:
		return r.Report.RC
	case r.State == Cancelled:
		return 128 + 15
	}
	return status.InternalError.RC(status.Normalized, 0, 0)
}

// Name is how users call a job.
func (k Key) Name(array bool) string {
	if !array {
		return k.Batch
	}
	return k.Batch + "." + strconv.Itoa(k.Index)
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Account, o.Account), cmp.Compare(k.Batch, o.Batch), cmp.Compare(k.Index, o.Index))
}
