package network

import "slices"

// NamedPorts are the ports that words name, sorted: where a host can't send every port to
// one listener, what to listen on. If any is set, some word is open to each. The caller's
// loopback is not among them.
func (r *Rules) NamedPorts() (ports []uint16, any bool) {
	return r.portsOf(func(one *rule) bool { return !one.loopback })
}

// AnyPort says whether some word is open to every port.
func (r *Rules) AnyPort() bool {
	_, any := r.NamedPorts()
	return any
}

// LocalhostPorts are the same for the caller's loopback.
func (r *Rules) LocalhostPorts() (ports []uint16, any bool) {
	return r.portsOf(func(one *rule) bool { return one.loopback })
}

func (r *Rules) portsOf(counts func(*rule) bool) (ports []uint16, any bool) {
	for _, one := range r.allow.all {
		switch {
		case !counts(one):
		case one.port != 0:
			ports = append(ports, one.port)
		case len(r.ports) > 0:
			ports = append(ports, r.ports...)
		default:
			any = true
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), any
}
