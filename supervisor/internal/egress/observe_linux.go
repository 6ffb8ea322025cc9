package egress

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
)

// Where nothing can be redirected, what nobody listens for is refused by the kernel
// itself, and seen here only: raw sockets get a copy of every packet.

// whyNoListener: the rules would allow it, but without redirection only ports that
// they name are served.
const whyNoListener = "no_listener"

// begins passes the first packet of a connection, where a packet is seen from the
// header of TCP on.
func begins(header uint32) []bpf.Instruction {
	const flags, syn, ack = 13, 0x02, 0x10
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: header + flags, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: syn | ack},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipFalse: 1},
		bpf.RetConstant{Val: 128},
		bpf.RetConstant{Val: 0},
	}
}

// observe notes what arrives at no socket of ours.
func (g *Gateway) observe(s *handoff.Socket, fd int) error {
	header := uint32(0)
	if s.Family == unix.AF_INET {
		header = 20 // nobody inside can set options
	}
	if s.Protocol == unix.IPPROTO_TCP {
		if err := emulate.AttachFilter(fd, begins(header)); err != nil {
			_ = unix.Close(fd)
			return err
		}
	}
	f := os.NewFile(uintptr(fd), "raw socket")
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return err
	}
	raw := c.(*net.IPConn)
	g.sockets.add(raw)
	protocol := "udp"
	if s.Protocol == unix.IPPROTO_TCP {
		protocol = "tcp"
	}
	g.all.Go(func() {
		buf, oob := make([]byte, 128), make([]byte, 128)
		for {
			n, oobn, _, from, err := raw.ReadMsgIP(buf, oob)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			if e := seen(buf[:n], oob[:oobn], from, int(header), protocol); e != nil {
				g.unserved(e)
			}
		}
	})
	return nil
}

// seen is the flow that a packet belongs to; nil if that can't be told.
func seen(b, oob []byte, from *net.IPAddr, header int, protocol string) *flow {
	if len(b) < header+4 {
		return nil
	}
	src, _ := netip.AddrFromSlice(from.IP)
	var dst netip.Addr
	if header > 0 {
		dst = netip.AddrFrom4([4]byte(b[16:20]))
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16 {
			dst = netip.AddrFrom16([16]byte(m.Data[:16]))
		}
	}
	if !src.IsValid() || !dst.IsValid() {
		return nil
	}
	return &flow{
		protocol: protocol, use: handoff.UseConnect,
		from: plainPort(netip.AddrPortFrom(src, binary.BigEndian.Uint16(b[header:]))),
		to:   plainPort(netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[header+2:]))),
	}
}

// serve says whether something of the gateway's listens on a port that rules name.
func (s *sockets) serve(port uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[port]
}

// unserved notes an attempt that the kernel has refused already.
func (g *Gateway) unserved(f *flow) {
	port := f.to.Port()
	if !f.known() || g.sockets.serve(port) || port == resolverPort || isOwn(f.to.Addr()) {
		return
	}
	if g.judge(f) {
		f.verdict.Hint = "--allow-network " + f.what() // a port that is named is served
		g.note(f, status.AttemptFailed, whyNoListener)
		return
	}
	g.note(f, status.AttemptBlocked, string(f.verdict.Why))
}
