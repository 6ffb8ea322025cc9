package cgroup

import (
	"strconv"
	"strings"
	"time"
)

// period of the CPU rate, in microseconds: the kernel's own default. A shorter one
// would stop and start more often, a longer one be felt.
const period = 100_000

// limitCPU sets cpu.max.
func limitCPU(d *dir, percent int) hold {
	want := strconv.FormatInt(quota(percent), 10) + " " + strconv.Itoa(period)
	back, err := d.set("cpu.max", want)
	if err != nil {
		err = d.failed("cpu.max", err)
	} else if strings.TrimSuffix(back, "\n") != want {
		err = d.failed("cpu.max", unwritten(back))
	}
	return held("cpu.max", err)
}

// limitCPU1 is that of v1. The period comes first: a quota has to fit in it.
func limitCPU1(d *dir, percent int) hold {
	err := d.setNumber("cpu.cfs_period_us", period, period)
	if err == nil {
		err = d.setNumber("cpu.cfs_quota_us", quota(percent), quota(percent))
	}
	return held("cpu.cfs_quota_us", err)
}

func quota(percent int) int64 { return int64(percent) * period / 100 }

// cpu.stat is there without the controller too, and then holds the times only.
var cpuFiles = []reading{
	{"cpu.stat", func(s *Stat, b []byte) {
		s.CPU = span(field(b, "usage_usec"), useconds)
		s.User, s.System = span(field(b, "user_usec"), useconds), span(field(b, "system_usec"), useconds)
		s.Throttled = span(field(b, "throttled_usec"), useconds)
		s.Periods, s.ThrottledPeriods = field(b, "nr_periods"), field(b, "nr_throttled")
	}},
	{"cpu.pressure", func(s *Stat, b []byte) { s.Pressure.CPUSome = total(b, "some") }},
}

var cpuFiles1 = []reading{
	{"cpu.stat", func(s *Stat, b []byte) {
		s.Throttled = span(field(b, "throttled_time"), time.Nanosecond)
		s.Periods, s.ThrottledPeriods = field(b, "nr_periods"), field(b, "nr_throttled")
	}},
}

// cpuacctFiles: the parts are in ticks of 10 ms, the sum is exact.
var cpuacctFiles = []reading{
	{"cpuacct.usage", func(s *Stat, b []byte) { s.CPU = span(count(b), time.Nanosecond) }},
	{"cpuacct.stat", func(s *Stat, b []byte) {
		s.User, s.System = span(field(b, "user"), tick), span(field(b, "system"), tick)
	}},
}

// tick is USER_HZ, part of the ABI whatever CONFIG_HZ is.
const tick = 10 * time.Millisecond
