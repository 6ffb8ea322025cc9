package network

import (
	"net/netip"
	"strconv"
	"strings"
)

// readHost reads a name, a pattern, an address or a range.
func (r *rule) readHost(host string) *Error {
	switch {
	case host == "":
		return mistake("has no host", hostHint)
	case strings.Contains(host, "/"):
		p, err := netip.ParsePrefix(host)
		if err != nil {
			return mistake("is not a range of addresses", `it takes "10.0.0.0/8" or "fd00::/8"`)
		}
		if p.Masked() != p {
			return mistake("has bits beyond its mask", "it takes "+strconv.Quote(p.Masked().String()))
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.setPrefix(p, p.String())
		return nil
	case strings.Contains(host, ":"):
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return mistake("is not an address", hostHint)
		}
		r.setAddr(a.Unmap())
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		r.setAddr(a)
		return nil
	}
	name, err := checkName(host, true)
	if err != nil {
		return err
	}
	labels := strings.Split(name, ".")
	p, err := octets(labels)
	switch {
	case err != nil:
		return err
	case p.IsValid():
		r.setPrefix(p, name)
	default:
		r.host, r.labels = name, labels
		r.localhost = labels[len(labels)-1] == localhost
		r.loopback = r.localhost
	}
	return nil
}

func (r *rule) setAddr(a netip.Addr) {
	r.setPrefix(netip.PrefixFrom(a, a.BitLen()), a.String())
}

func (r *rule) setPrefix(p netip.Prefix, word string) {
	r.host, r.prefix = word, p
	r.loopback = (p.Contains(loopback4()) || p.Contains(netip.IPv6Loopback())) && within(p, loopback)
}

func loopback4() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// octets takes "192.168.*" for the range of addresses that it looks like. It
// isn't valid where the labels look like a name.
func octets(labels []string) (p netip.Prefix, _ *Error) {
	whole := mistake("is neither a name nor a whole address", `write an address with four decimal numbers, or a range such as "192.168.0.0/16"`)
	last := labels[len(labels)-1]
	if last != "*" {
		if stem := strings.ReplaceAll(last, "*", ""); stem != last && stem != "" && strings.Trim(stem, "0123456789") == "" {
			return p, whole // "10.1*": of which addresses, nobody knows
		}
		return p, nil
	}
	given := 0
	for given < len(labels) && strings.Trim(labels[given], "0123456789") == "" {
		given++
	}
	for _, l := range labels[given:] {
		if l != "*" {
			return p, nil
		}
	}
	if given == 0 {
		return p, nil
	}
	if len(labels) > 4 {
		return p, whole
	}
	var ip [4]byte
	for i, l := range labels[:given] {
		n, err := strconv.ParseUint(l, 10, 8)
		if err != nil || (len(l) > 1 && l[0] == '0') {
			return p, whole
		}
		ip[i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(ip), 8*given), nil
}
