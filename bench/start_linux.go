package main

import "os"

// target is the least that can be run.
const target = "/bin/true"

const likeMounts = "bwrap, confine's mounts one for one"

func measureStart(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bwrap"}
	peers := []peer{
		b.timed("bare", command{argv: []string{target}}),
		b.timed("confine -p standard", b.confined("-p standard", target)),
		b.timed("confine (profile default)", b.confined("", target)),
	}
	if b.against != "" {
		peers = append(peers, b.timed("the other build, -p standard",
			command{argv: confine(b.against, "-p standard", []string{target})}))
	}
	own := b.confined("-p standard", target)
	own.env = os.Environ()
	peers = append(peers, b.timed("confine -p standard, caller's whole environment", own))
	if b.bwrap == "" {
		r.note("bwrap is not installed.")
	} else {
		same, err := b.mountForMount("-p standard", target)
		if err != nil {
			return nil, err
		}
		peers = append([]peer{b.timed("bwrap", b.bwrapped(nil, target))}, peers...)
		// What is judged is the work of confining, not how many mounts were asked for.
		r.base = likeMounts
		peers = append(peers, b.timed(likeMounts, same))
	}
	r.note("bwrap has no system call filter here, keeps no clocks, and passes its streams on as they are; confine does all of its work.")
	r.note("The caller's whole environment means its PATH too: each tool chain found there is a mount more.")
	return r, r.compare(peers, b.rounds(60), "confine -p standard", atMost(1.25))
}
