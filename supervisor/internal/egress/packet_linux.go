package egress

import (
	"encoding/binary"
	"net/netip"
)

const (
	protocolICMP   = 1
	protocolUDP    = 17
	protocolICMPv6 = 58

	hops = 64
)

// udpHeader is the header of a datagram of so many bytes, without a checksum.
func udpHeader(from, to netip.AddrPort, size int) []byte {
	b := binary.BigEndian.AppendUint16(nil, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+size))
	return append(b, 0, 0)
}

// datagram is a whole packet of UDP, from one address of the same family to another.
func datagram(from, to netip.AddrPort, payload []byte) []byte {
	b := append(udpHeader(from, to, len(payload)), payload...)
	sum := checksum(pseudo(from.Addr(), to.Addr(), protocolUDP, len(b)), b)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return packet(from.Addr(), to.Addr(), protocolUDP, b)
}

// unreachable is the answer of a host that has nothing at the port which a datagram
// of so many bytes was sent to.
func unreachable(from, to netip.AddrPort, size int) []byte {
	head := udpHeader(from, to, size)
	b := []byte{3, 3, 0, 0, 0, 0, 0, 0} // destination unreachable, port
	protocol := byte(protocolICMP)
	var start uint32
	if to.Addr().Is6() {
		b[0], b[1], protocol = 1, 4, protocolICMPv6
	}
	b = append(b, packet(from.Addr(), to.Addr(), protocolUDP, head)...)
	if protocol == protocolICMPv6 {
		start = pseudo(to.Addr(), from.Addr(), protocol, len(b))
	}
	binary.BigEndian.PutUint16(b[2:], checksum(start, b))
	return packet(to.Addr(), from.Addr(), protocol, b)
}

// packet puts the header of IP before what it carries.
func packet(from, to netip.Addr, protocol byte, body []byte) []byte {
	if from.Is6() {
		h := make([]byte, 40, 40+len(body))
		h[0] = 6 << 4
		binary.BigEndian.PutUint16(h[4:], uint16(len(body)))
		h[6], h[7] = protocol, hops
		a, z := from.As16(), to.As16()
		copy(h[8:], a[:])
		copy(h[24:], z[:])
		return append(h, body...)
	}
	h := make([]byte, 20, 20+len(body))
	h[0] = 4<<4 | 5
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(body)))
	h[8], h[9] = hops, protocol
	a, z := from.As4(), to.As4()
	copy(h[12:], a[:])
	copy(h[16:], z[:])
	binary.BigEndian.PutUint16(h[10:], checksum(0, h))
	return append(h, body...)
}

// pseudo is the sum of what the checksum of the upper layer covers of the lower one.
func pseudo(from, to netip.Addr, protocol byte, size int) uint32 {
	return add(add(uint32(protocol)+uint32(size), from.AsSlice()), to.AsSlice())
}

func add(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// checksum is that of RFC 1071.
func checksum(sum uint32, b []byte) uint16 {
	sum = add(sum, b)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
