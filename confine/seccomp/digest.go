package seccomp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Digest is "sha256:" and the digest of what the policy decides: outcomes,
// calls and conditions, rule by rule. Names, reasons, comments, the order of
// calls within a rule, and the file's name don't count; nor do the action and
// the architecture, which the policy does not depend on. So a copy of a policy
// that ships, as printed, has the digest of the original.
func (p *Policy) Digest() string {
	sum := sha256.Sum256(p.canonical())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// canonical is one line for the default and one for each rule:
//
//	errno ENOSYS clone3
//	refuse ioctl if 1/32 in 0x5412 0x541c
func (p *Policy) canonical() []byte {
	b := make([]byte, 0, 8<<10)
	b = append(b, "default "...)
	b = append(b, p.Default.String()...)
	b = append(b, '\n')
	for i := range p.Rules {
		r := &p.Rules[i]
		b = append(b, r.Outcome.String()...)
		calls := slices.Clone(r.Calls)
		slices.Sort(calls)
		for _, name := range slices.Compact(calls) {
			b = append(b, ' ')
			b = append(b, name...)
		}
		for _, c := range r.Args {
			b = append(b, " if "...)
			b = strconv.AppendUint(b, uint64(c.Index), 10)
			b = append(b, '/')
			b = strconv.AppendUint(b, uint64(c.Width), 10)
			if c.Mask != 0 {
				b = append(b, "&0x"...)
				b = strconv.AppendUint(b, c.Mask, 16)
			}
			b = append(b, ' ')
			b = append(b, c.Op.String()...)
			for _, v := range c.Values {
				b = append(b, " 0x"...)
				b = strconv.AppendUint(b, v, 16)
			}
		}
		b = append(b, '\n')
	}
	return b
}
