package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// many is how many trees are allowed, one by one, where rules are measured.
const many = 100

// Which is judged: everything that there is of rules, at once.
const (
	ruled = "100 rules"
	both  = "overlay and 100 rules"
)

// manyPairs is how often work is done with and without rules. What is looked for is two in a
// hundred, and a host's speed changes by more from one round to the next.
const manyPairs = 25

// manyRules makes trees, and gives the words about each of them.
func (b *bench) manyRules(words string) (string, error) {
	var all strings.Builder
	for i := range many {
		dir := filepath.Join(b.scratch, "rules", fmt.Sprint(i%10), fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		all.WriteString(" " + strings.ReplaceAll(words, "DIR", dir))
	}
	return all.String(), nil
}

// named is a peer by another name.
func called(name string, p peer) peer { return peer{name, p.take} }

func measureRulesPytest(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bare"}
	p, err := b.pytest("rules-pytest")
	if err != nil {
		return nil, err
	}
	defer p.close()
	if r.measured, r.verdict = p.missing, absent; p.missing != "" {
		return r, nil
	}
	rules, err := b.manyRules("--allow-read DIR")
	if err != nil {
		return nil, err
	}
	over := "-p testing --workdir ro --log quiet --overlay " + p.bare.dir + " --keep=false"
	peers := []peer{b.timed("bare", p.bare), called(both, p.confined(b, over+rules))}
	r.note("Start-up included.")
	return r, r.compare(peers, b.rounds(manyPairs), both, atMost(1.02))
}

func measureRulesGoBuild(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bare"}
	p, err := b.goProject("rules-gobuild")
	if err != nil {
		return nil, err
	}
	rules, err := b.manyRules("--allow-read DIR")
	if err != nil {
		return nil, err
	}
	const over = "-p testing --log quiet --workdir overlay --keep=false"
	peers := []peer{p.changed(b.timed("bare", p.bare)), called(both, p.confined(b, over, rules))}
	r.note("As in gobuild. In the overlay what is built, cache included, is written to memory, read once more for the report, and thrown away.")
	return r, r.compare(peers, b.rounds(manyPairs), both, atMost(1.02))
}

func measureRulesStart(b *bench) (*result, error) {
	r := &result{unit: "ms", base: "bwrap, the same " + ruled}
	rules, err := b.manyRules("--allow-read DIR")
	if err != nil {
		return nil, err
	}
	binds, err := b.manyRules("--ro-bind DIR DIR")
	if err != nil {
		return nil, err
	}
	peers := []peer{b.timed("bare", command{argv: []string{target}})}
	if b.bwrap != "" {
		same, err := b.mountForMount("-p standard"+rules, target)
		if err != nil {
			return nil, err
		}
		peers = append(peers, b.timed("bwrap, plain, "+ruled, b.bwrapped(strings.Fields(binds), target)), b.timed(r.base, same))
	}
	peers = append(peers, b.timed("confine -p standard", b.confined("-p standard", target)),
		b.timed(ruled, b.confined("-p standard"+rules, target)),
		b.timed(both, b.confined("-p standard --keep=false --overlay "+b.scratch+"/rules/0/0"+rules, target)))
	r.note("bwrap, the same: with the other mounts that confine makes, too.")
	return r, r.compare(peers, b.rounds(40), ruled, atMost(1.25))
}
