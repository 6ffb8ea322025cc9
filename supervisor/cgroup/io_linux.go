package cgroup

// ioFiles count what block devices were asked for. There are no limits of ours.
var ioFiles = []reading{
	{"io.stat", func(s *Stat, b []byte) { s.Read, s.Written = sums(b, " rbytes="), sums(b, " wbytes=") }},
	{"io.pressure", func(s *Stat, b []byte) { s.Pressure.IOSome, s.Pressure.IOFull = total(b, "some"), total(b, "full") }},
}
