package audit

import (
	"reflect"
	"testing"
)

// The words are those of the kernel's own documentation.
const (
	access   = `audit(1729738800.268:30): domain=195ba459b blockers=fs.refer,fs.make_reg path="/usr/bin" dev="vda2" ino=351`
	hexed    = `audit(1729738800.268:30): domain=195ba459b blockers=fs.read_file path=2F612062 dev="vda2" ino=351`
	domain   = `audit(1729738800.268:30): domain=195ba459b status=allocated mode=enforcing pid=300 uid=0 exe="/root/sandboxer" comm="sandboxer"`
	gone     = `audit(1729738800.324:33): domain=195ba459b status=deallocated denials=3`
	signal   = `audit(1729738800.291:31): domain=195ba459b blockers=scope.signal opid=1 ocomm="systemd"`
	stranger = `audit(1729738800.291:31): domain=1 status=allocated mode=enforcing pid=301 uid=0 exe="/x" comm="x"`
)

func TestRecordsOfOurDomainAreTold(t *testing.T) {
	m := matcher{ours: func(pid int) bool { return pid == 300 }, domains: map[string]bool{}, waiting: map[string][]Denial{}}
	var got []Denial
	for _, r := range []struct {
		kind uint16
		text string
	}{
		{typeAccess, access}, {typeDomain, domain}, {typeAccess, hexed}, {typeAccess, signal},
		{typeAccess, `audit(1.2:3): domain=1 blockers=fs.read_file path="/theirs"`}, {typeDomain, stranger},
		{typeAccess, `audit(1.2:3): domain=1 blockers=fs.read_file path="/theirs"`},
		{typeDomain, gone}, {1400, access}, {typeAccess, ""}, {typeAccess, "audit("}, {typeDomain, "audit(1): domain=2"},
	} {
		got = append(got, m.take(r.kind, r.text)...)
	}
	want := []Denial{
		{[]string{"fs.refer", "fs.make_reg"}, "/usr/bin"}, {[]string{"fs.read_file"}, "/a b"}, {[]string{"scope.signal"}, ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if m.count != 0 {
		t.Errorf("%d wait", m.count)
	}
}

func TestWaitingDenialsAreBounded(t *testing.T) {
	m := matcher{ours: func(int) bool { return true }, domains: map[string]bool{}, waiting: map[string][]Denial{}}
	for range 3 * most {
		m.take(typeAccess, access)
	}
	if got := m.take(typeDomain, domain); len(got) != most {
		t.Errorf("%d", len(got))
	}
}
