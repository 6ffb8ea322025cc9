package egress

import (
	"testing"

	"github.com/confine-run/confine/internal/netns"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// The messages and the resolver speak of the same addresses.
func TestAddressesInsideAreAgreedOn(t *testing.T) {
	own, resolver := names.HostAddresses(), names.ResolverAddresses()
	v4, v6 := names.Ranges()
	for _, c := range [][2]string{
		{own.V4.String(), netns.Own4}, {own.V6.String(), netns.Own6}, {resolver.V4.String(), netns.Resolver4},
		{v4.String(), netns.Range4}, {v6.String(), netns.Range6}, {names.Host, netns.Hostname},
	} {
		if c[0] != c[1] {
			t.Errorf("%s here, %s there", c[0], c[1])
		}
	}
}
