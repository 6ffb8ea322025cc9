// Command netpeer is the world around a run whose network is tested, and clients in it.
//
//	netpeer world COMMAND…   run it where every address is this program's own
//
// The world is two network namespaces with a cable (veth) between them, and a mount namespace whose
// resolv.conf leads to a resolver of the world's. The command is on a host with addresses of its own,
// from which all others lead to one where every address of IPv4 and IPv6 is lo's. So
// 10.0.0.1, 169.254.169.254 and a public address all answer, on ports that are always the
// same, and whoever reaches what it shouldn't hears so. No packet leaves the machine.
// It needs no privilege but a user namespace.
//
// What the world reads and writes lies in the current directory: `names` is the zone
// (see zone_linux.go), `hosts` the hosts file, ca.crt the authority of its TLS servers,
// and `seen` is, when the command has ended, a line for each thing that any server saw.
//
// The other words are clients. They exit with 0 when the other side did as they
// expected, with 3 when the kernel or the other side refused, and with 2 when
// they were not asked rightly.
package main
