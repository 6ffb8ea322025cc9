package integration

import (
	"encoding/json"
	"reflect"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confine-run/confine/status"
)

// cmdAgree holds two ledgers against each other, from explain or from reports:
// what was asked for, and by what it is held. Only a run can say whether it was.
func cmdAgree(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "agree FILE FILE")
	one, two := ledgerIn(ts, args[0]), ledgerIn(ts, args[1])
	if len(one) == 0 {
		ts.Fatalf("%s has no ledger", args[0])
	}
	for c, a := range one {
		if b := two[c]; !reflect.DeepEqual(a, b) {
			ts.Fatalf("%s: %+v in %s, %+v in %s", c, a, args[0], b, args[1])
		}
	}
	if len(one) != len(two) {
		ts.Fatalf("%d capabilities in %s, %d in %s", len(one), args[0], len(two), args[1])
	}
}

// hostSockets is what is said of sockets that others have bound on the host: they come and go between the two.
var hostSockets = regexp.MustCompile(`; one that is there may not be hidden: [^;]*`)

func ledgerIn(ts *testscript.TestScript, file string) map[status.Capability]status.Enforcement {
	var doc struct {
		Enforced map[status.Capability]status.Enforcement `json:"enforced"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &doc))
	for c, e := range doc.Enforced {
		e.Applied = false
		e.Details = hostSockets.ReplaceAllString(e.Details, "")
		doc.Enforced[c] = e
	}
	return doc.Enforced
}
