package jobs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/jobs/tunnel"
)

// A worker is reached by connections over subjects, and TLS in them: the digest of its certificate is what it says of itself under its key, which workers alone may
// write. So whoever can answer on its subject, or read those of others, is not taken for it, and reads nothing.

// Identity is what a worker proves who it is with. It is made anew at each start.
type Identity struct {
	certificate tls.Certificate
	Digest      string
}

// NewIdentity makes one.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// Nobody looks at its time: it is the one of the digest, or not.
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, digestOf(der)}, nil
}

func digestOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Visit is a connection to a worker from somebody of an account, which the servers vouch for by the subject.
type Visit struct {
	*tls.Conn
	account string
	inner   *tunnel.Conn
}

// Account is whose it is.
func (v *Visit) Account() string { return v.account }

// HungUp says whether the other end is gone.
func (v *Visit) HungUp() bool { return v.inner.HungUp() }

// Door is where a worker is visited.
type Door struct {
	tunnels *tunnel.Listener
	config  *tls.Config
}

// SessionSubject is where a worker is visited for an account.
func SessionSubject(account, worker string) string { return visitSubject + account + "." + worker }

// Open lets others in.
func (l *Lease) Open(id *Identity) (*Door, error) {
	t, err := tunnel.Listen(l.q.nc, SessionSubject("*", l.Name))
	if err != nil {
		return nil, err
	}
	return &Door{t, &tls.Config{Certificates: []tls.Certificate{id.certificate}, MinVersion: tls.VersionTLS13}}, nil
}

// Accept gives a visit.
func (d *Door) Accept() (*Visit, error) {
	c, err := d.tunnels.Accept()
	if err != nil {
		return nil, err
	}
	inner := c.(*tunnel.Conn)
	account, _, _ := strings.Cut(strings.TrimPrefix(inner.LocalAddr().String(), visitSubject), ".")
	return &Visit{tls.Server(c, d.config), account, inner}, nil
}

// Close lets nobody in any more.
func (d *Door) Close() error { return d.tunnels.Close() }

// AbsentError: nobody answers for a worker now. It may be gone.
type AbsentError struct {
	Worker string
	Err    error
}

func (e *AbsentError) Error() string {
	return "the worker " + e.Worker + " does not answer: " + e.Err.Error()
}
func (e *AbsentError) Unwrap() error { return e.Err }

// Reach connects to a worker, for an account.
func (s Sessions) Reach(ctx context.Context, account, worker string) (net.Conn, error) {
	if !ValidName(account) || !ValidName(worker) {
		return nil, fmt.Errorf("%.100q, %.100q: no account, or no worker", account, worker)
	}
	brief, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	text, _, err := last(brief, s.q, workerStream, workerKey+worker)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, &AbsentError{worker, err}
	}
	if err != nil {
		return nil, err
	}
	var info WorkerInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, err
	}
	if info.Gone {
		return nil, &AbsentError{worker, errors.New("it is gone")}
	}
	c, err := tunnel.Dial(brief, s.q.nc, SessionSubject(account, worker))
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = &AbsentError{worker, err}
	}
	if err != nil {
		return nil, err
	}
	secure := tls.Client(c, &tls.Config{
		InsecureSkipVerify: true, // of names and authorities: it is compared with the one that is known
		MinVersion:         tls.VersionTLS13,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 || subtle.ConstantTimeCompare([]byte(digestOf(state.PeerCertificates[0].Raw)), []byte(info.Identity)) != 1 {
				return errors.New("somebody else answers for the worker " + worker)
			}
			return nil
		},
	})
	if err := secure.HandshakeContext(brief); err != nil {
		_ = c.Close()
		return nil, err
	}
	return secure, nil
}
