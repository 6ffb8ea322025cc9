package cgroup

// limitPIDs sets pids.max, which v1 and v2 have alike. A fork past it is
// refused with EAGAIN; nothing ends.
func limitPIDs(d *dir, tasks int64) hold {
	return held("pids.max", d.setNumber("pids.max", tasks, tasks))
}

var pidsFiles = []reading{
	{"pids.current", func(s *Stat, b []byte) { s.Tasks = count(b) }},
	{"pids.peak", func(s *Stat, b []byte) { s.TasksPeak = count(b) }}, // Linux 6.1
	{"pids.events", func(s *Stat, b []byte) { s.TasksHits = field(b, "max") }},
}
