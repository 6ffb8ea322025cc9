package status

import "encoding/base64"

// ReportVersion is the version of the report's JSON form.
const ReportVersion = 1

// Normalize fills what the schema wants to be there even when there is nothing
// to say: empty lists instead of null, the version, the encoding of the streams.
func (r *Report) Normalize() {
	r.Version = ReportVersion
	if r.Encoding.Stdout == "" {
		r.Encoding.Stdout = "utf-8"
	}
	if r.Encoding.Stderr == "" {
		r.Encoding.Stderr = "utf-8"
	}
	if r.Cmd == nil {
		r.Cmd = []string{}
	}
	if r.LimitsHit == nil {
		r.LimitsHit = []string{}
	}
	if r.Violations == nil {
		r.Violations = []Violation{}
	}
	if r.Enforced == nil {
		r.Enforced = map[Capability]Enforcement{}
	}
}

// Decoded is the text of a captured stream as it was written.
func Decoded(text, encoding string) []byte {
	if encoding != "base64" {
		return []byte(text)
	}
	b, _ := base64.StdEncoding.DecodeString(text) // encoded here
	return b
}
