//go:build !linux

package egress

import (
	"math"
	"net"
	"net/netip"
	"slices"
)

// sockets are none: no run has sockets of its own here that a kernel would lead to the gateway.
type sockets struct{}

func newSockets() sockets        { return sockets{} }
func (sockets) awaitAccepted()   {}
func (sockets) stop()            {}
func (sockets) close()           {}
func room() (int64, error)       { return defaultConnections, nil }
func acknowledged(c *conn) int64 { return 0 }
func servedAt(uint16) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// processes can't be found by their sockets.
type processes struct {
	begun chan struct{}
	over  <-chan struct{}
}

func (processes) begin(int)                                        {}
func (processes) of(string, netip.AddrPort) (pid int, comm string) { return 0, "" }
func (processes) end()                                             {}

// pipes are none: there is no splice.
type pipes struct{}

func newPipes() pipes                                   { return pipes{} }
func (pipes) splice(*conn, *conn, int64) (int64, error) { return 0, nil }
func (pipes) close()                                    {}

// interactiveAfter: never, there is no poller.
const interactiveAfter = math.MaxInt32

func (*flow) interact(*Gateway, *conn, *conn) (to *conn, err error) { return nil, nil }

// ownAddress says whether an interface of this host has an address. Where that can't be found out, every address
// may be one.
func ownAddress(a netip.Addr, _ *flow) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(own net.Addr) bool {
		n, ok := own.(*net.IPNet)
		return !ok || n.IP.Equal(net.IP(a.AsSlice()))
	})
}

func (*sockets) serve(uint16) bool { return false }
