package names

import (
	"strconv"

	"golang.org/x/net/dns/dnsmessage"
)

// typeIXFR is a type that the library has no name for.
const typeIXFR dnsmessage.Type = 251

// typeName is a type as people write it. It is a switch, and not a map, because a map is
// made at every start.
func typeName(t dnsmessage.Type) string {
	switch t {
	case dnsmessage.TypeA:
		return "A"
	case dnsmessage.TypeNS:
		return "NS"
	case dnsmessage.TypeCNAME:
		return "CNAME"
	case dnsmessage.TypeSOA:
		return "SOA"
	case dnsmessage.TypePTR:
		return "PTR"
	case dnsmessage.TypeMX:
		return "MX"
	case dnsmessage.TypeTXT:
		return "TXT"
	case dnsmessage.TypeAAAA:
		return "AAAA"
	case dnsmessage.TypeSRV:
		return "SRV"
	case dnsmessage.TypeSVCB:
		return "SVCB"
	case dnsmessage.TypeHTTPS:
		return "HTTPS"
	case typeIXFR:
		return "IXFR"
	case dnsmessage.TypeAXFR:
		return "AXFR"
	case dnsmessage.TypeALL:
		return "ANY"
	}
	return "TYPE" + strconv.Itoa(int(t)) // RFC 3597
}
