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
	overlaid = "overlay"
	ruled    = "100 rules"
	both     = "overlay and 100 rules"
)

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
	const plain = "-p testing --workdir ro"
	over := plain + " --log quiet --overlay " + p.bare.dir + " --keep=false"
	peers := []peer{
		b.timed("bare", p.bare),
		p.confined(b, plain),
		called(overlaid, p.confined(b, over)),
		called(ruled, p.confined(b, plain+rules)),
		called(both, p.confined(b, over+rules)),
	}
	r.note("Start-up included. What is judged is the last; the plain one shows what isn't the rules.")
	return r, r.compare(peers, b.rounds(7), both, atMost(1.02))
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
	const plain = "-p testing --workdir rw"
	const over = "-p testing --log quiet --workdir overlay --keep=false"
	peers := []peer{
		p.changed(b.timed("bare", p.bare)),
		p.confined(b, plain, ""),
		called(overlaid, p.confined(b, over, "")),
		called(ruled, p.confined(b, plain, rules)),
		called(both, p.confined(b, over, rules)),
	}
	r.note("As in gobuild. In the overlay what is built, cache included, is written to memory, read once more for the report, and thrown away.")
	return r, r.compare(peers, b.rounds(7), both, atMost(1.02))
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
