package jobs_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/must"
)

// certificate makes one for loopback that is its own authority.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	must.Do(t, err)
	private, err := x509.MarshalECPrivateKey(k)
	must.Do(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	return cert, key
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// user makes the key of a user: what servers know, and a file of the seed.
func user(t *testing.T, dir, name string) (public, file string) {
	t.Helper()
	k, err := nkeys.CreateUser()
	must.Do(t, err)
	seed, _ := k.Seed()
	public, _ = k.PublicKey()
	file = filepath.Join(dir, name)
	write(t, file, string(seed)+"\n")
	return public, file
}

// TestTheExampleOfAServerHoldsTeamsApart: with examples/cluster/nats.conf a worker can do all, and a team what its own jobs need, by TLS and with keys
// from files.
func TestTheExampleOfAServerHoldsTeamsApart(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	worker, workerFile := user(t, dir, "worker")
	team, teamFile := user(t, dir, "team")
	_, strangerFile := user(t, dir, "stranger")
	text, err := os.ReadFile("../../examples/cluster/nats.conf")
	must.Do(t, err)
	before, rest, _ := strings.Cut(string(text), "cluster {") // this one is alone
	_, after, ok := strings.Cut(rest, "\n}\n")
	if !ok {
		t.Fatal("the example has another form")
	}
	conf := filepath.Join(dir, "nats.conf")
	write(t, conf, strings.NewReplacer("/etc/nats/server.pem", cert, "/etc/nats/server.key", key, "/var/lib/nats", dir, "UWORKER", worker, "UTEAMA", team,
		"0.0.0.0:4222", "127.0.0.1:-1").Replace(before+after))
	o, err := server.ProcessConfigFile(conf)
	must.Do(t, err)
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	must.Do(t, err)
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server isn't ready")
	}
	t.Cleanup(s.Shutdown)
	url := strings.Replace(s.ClientURL(), "nats://", "tls://", 1)

	for name, o := range map[string]jobs.Options{
		"no key":                       {URL: url, CA: cert},
		"a key that nobody knows":      {URL: url, CA: cert, NKey: strangerFile},
		"no authority that is trusted": {URL: url, NKey: workerFile},
		"two kinds of secrets":         {URL: url, CA: cert, NKey: workerFile, TokenFile: teamFile},
		"no such file":                 {URL: url, CA: cert, NKey: filepath.Join(dir, "none")},
	} {
		if q, err := jobs.Open(t.Context(), o); err == nil {
			q.Close()
			t.Errorf("%s: it is connected", name)
		}
	}
	all, err := jobs.Open(t.Context(), jobs.Options{URL: url, CA: cert, NKey: workerFile})
	must.Do(t, err)
	defer all.Close()
	one, err := jobs.Open(t.Context(), jobs.Options{URL: url, CA: cert, NKey: teamFile})
	must.Do(t, err)
	defer one.Close()

	mine, other := job("mine", 0), job("other", 0)
	mine.Key.Account, other.Key.Account = "team-a", "team-b"
	must.Do(t, all.Submit(t.Context(), other))
	if err := one.Submit(t.Context(), mine); err != nil {
		t.Fatalf("its own job: %v", err)
	}
	if k, err := one.Show(t.Context(), mine.Key); err != nil || k.State != jobs.Queued {
		t.Errorf("%+v, %v", k, err)
	}
	if list, err := one.List(t.Context(), "team-a", ""); err != nil || len(list) != 1 {
		t.Errorf("%d jobs, %v", len(list), err)
	}
	spool, err := jobs.NewSpool(dir, 100, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader([]byte("input"))); return err })
	must.Do(t, err)
	if err := one.Store(t.Context(), spool); err != nil {
		t.Errorf("its input: %v", err)
	}
	if _, err := one.Fetch(t.Context(), dir, spool.Digest); err != nil {
		t.Errorf("its input: %v", err)
	}
	peers := one.Peers()
	if r, err := one.Cancel(t.Context(), peers, mine.Key); err != nil || r.State != jobs.Cancelled {
		t.Errorf("%+v, %v", r, err)
	}
	must.Do(t, all.Write(t.Context(), mine.Key, &jobs.Chunk{Run: 1, Data: []byte("x")}))
	if _, err := one.Output(t.Context(), mine.Key, false, func(*jobs.Chunk) error { return nil }); err != nil {
		t.Errorf("what its job wrote: %v", err)
	}

	id, err := jobs.NewIdentity()
	must.Do(t, err)
	lease, err := all.Enlist(t.Context(), jobs.WorkerInfo{Lease: 10, Identity: id.Digest})
	must.Do(t, err)
	door, err := lease.Open(id)
	must.Do(t, err)
	defer door.Close()
	visitors := make(chan string, 9)
	go func() {
		for {
			v, err := door.Accept()
			if err != nil {
				return
			}
			visitors <- v.Account()
			go func() { _, _ = io.Copy(v, v) }()
		}
	}()
	kept := func(account, name string) {
		t.Helper()
		k := jobs.KeptSession{Key: jobs.SessionKey{Account: account, Name: name}}
		if _, err := jobs.SessionsOf(all).Put(t.Context(), k, &jobs.Session{Account: account, Name: name, State: jobs.SessionRunning}); err != nil {
			t.Fatal(err)
		}
	}
	kept("team-a", "work")
	kept("team-b", "work")
	here := jobs.SessionsOf(one)
	if k, err := here.Find(t.Context(), "team-a", "work"); err != nil || k.Session == nil {
		t.Errorf("its session: %+v, %v", k, err)
	}
	if all, err := here.List(t.Context(), "team-a"); err != nil || len(all) != 1 {
		t.Errorf("its sessions: %+v, %v", all, err)
	}
	c, err := here.Reach(t.Context(), "team-a", lease.Name)
	must.Do(t, err)
	echo := make([]byte, 5)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(c, echo); err != nil || string(echo) != "hello" || <-visitors != "team-a" {
		t.Errorf("%q, %v", echo, err)
	}
	_ = c.Close()

	l := &lender{T: t, all: all, own: jobs.Key{Account: "team-a", Batch: "lent"}}
	option, err := nats.NkeyOptionFromSeed(teamFile)
	must.Do(t, err)
	if l.nc, err = nats.Connect(url, nats.RootCAs(cert), option); err != nil {
		t.Fatal(err)
	}
	defer l.nc.Close()
	l.lend(here, lease)

	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if c, err := here.Reach(short, "team-b", lease.Name); err == nil {
		t.Errorf("it has reached a worker as another team: %v", c.RemoteAddr())
	}
	if k, err := here.Find(short, "team-b", "work"); err == nil {
		t.Errorf("it has read the record of another team's: %+v", k)
	}
	k, err := here.Get(t.Context(), jobs.SessionKey{Account: "team-a", Name: "work"})
	must.Do(t, err)
	if _, err := here.Put(short, k, &jobs.Session{Worker: "mine"}); err == nil {
		t.Error("it has written a record")
	}
	short, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	foreign := job("foreign", 0)
	foreign.Key.Account = "team-b"
	if err := one.Submit(short, foreign); err == nil {
		t.Error("it has submitted a job of another team's")
	}
	if r, err := one.Cancel(short, peers, other.Key); err == nil {
		t.Errorf("it has cancelled a job of another team's: %+v", r)
	}
	if k, err := all.Show(t.Context(), other.Key); err != nil || k.State != jobs.Queued {
		t.Errorf("%+v, %v", k, err)
	}
}

// lender is a team that has the servers write for it what it may not write itself: it asks for a record of its own, with another subject for the answer.
type lender struct {
	*testing.T
	nc  *nats.Conn
	all *jobs.Queue
	own jobs.Key
}

func (l *lender) write(subject string, v any) {
	l.Helper()
	text, err := json.Marshal(v)
	must.Do(l, err)
	own := "$KV.confine-records." + l.own.String()
	l.own.Index++
	if _, err := l.nc.Request(own, text, 10*time.Second); err != nil {
		l.Fatal(err)
	}
	must.Do(l, l.nc.PublishRequest("$JS.API.DIRECT.GET.KV_confine-records."+own, subject, nil))
}

// until waits until what was written is there, and refused.
func (l *lender) until(what string, read func() error) {
	l.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := read(); err != nil && strings.Contains(err.Error(), "made to write it") {
			return
		} else if time.Now().After(end) {
			l.Errorf("%s: %v", what, err)
			return
		}
	}
}

func (l *lender) lend(here jobs.Sessions, lease *jobs.Lease) {
	foreign := job("lent", 0)
	foreign.Key.Account, foreign.Priority = "team-b", "low"
	l.write("confine.jobs.low."+foreign.Key.String(), foreign)
	l.until("a job of another team's", func() error {
		_, err := l.all.Show(l.Context(), foreign.Key)
		return err
	})
	m := take(l.T, l.all, "low")
	if j, err := jobs.Read(m.Subject(), nil, m.Data()); err != nil || j.Key != foreign.Key {
		l.Errorf("by its text it is no job: %+v, %v", j, err)
	}
	if j, err := jobs.Read(m.Subject(), m.Headers(), m.Data()); err == nil {
		l.Errorf("it is a job: %+v", j)
	}

	l.write("$KV.confine-sessions.session.team-b.work", &jobs.Session{Account: "team-b", Name: "work", Worker: "mine", State: jobs.SessionRunning})
	l.until("the record of a session", func() error {
		_, err := jobs.SessionsOf(l.all).Get(l.Context(), jobs.SessionKey{Account: "team-b", Name: "work"})
		return err
	})
	l.write("$KV.confine-workers."+lease.Name, &jobs.WorkerInfo{Lease: 10, Identity: strings.Repeat("0", 64)})
	l.until("who a worker is", func() error {
		_, err := here.Reach(l.Context(), "team-a", lease.Name)
		return err
	})
	must.Do(l, lease.Renew(l.Context(), jobs.Need{}, 0, 0))
	c, err := here.Reach(l.Context(), "team-a", lease.Name)
	if err != nil {
		l.Fatalf("the worker has said who it is once more: %v", err)
	}
	_ = c.Close()
}
