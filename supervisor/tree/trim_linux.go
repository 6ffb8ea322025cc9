package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// forgiven is how many zombies may be there that we made, by killing, and whose
// parent takes its time.
const forgiven = 1000

// Trim kills the newest processes until the living have no more than limit
// threads, and says which it killed. A process that has more than that by
// itself goes first, so that nobody else pays for it.
//
// Zombies can't be killed. When a parent hoards so many that they alone are more
// than the limit, it goes.
func (t *Tree) Trim(limit int64) (killed []int, err error) {
	if err := t.refresh(); err != nil {
		return nil, err
	}
	live, zombies := t.census()
	t.byAge()
	for _, alone := range [...]bool{true, false} {
		for _, at := range slices.Backward(t.order) {
			p := &t.cur[at]
			if live <= limit {
				break
			}
			if p.root || p.dead() || t.isDoomed(p) || alone != (p.threads > limit) {
				continue
			}
			if err := t.kill(p); err != nil {
				return killed, err
			}
			killed = append(killed, int(p.pid))
			live -= max(p.threads, 1)
		}
	}
	if killed != nil || zombies <= limit {
		return killed, nil
	}
	if hoarder := t.hoarder(); hoarder != nil {
		return []int{int(hoarder.pid)}, t.kill(hoarder)
	}
	return nil, nil
}

// census counts the threads of the living and the zombies, and forgets who
// was doomed and is gone. Who has been killed but has not died yet counts as
// neither: else somebody else would be killed in its place. Nor do a number of
// those that died of it: their parent could not know.
func (t *Tree) census() (live, zombies int64) {
	t.doomed = slices.DeleteFunc(t.doomed, func(id identity) bool {
		p := find(t.cur, id.pid)
		return p == nil || p.start != id.start
	})
	forgive := forgiven
	for i := range t.cur {
		switch p := &t.cur[i]; {
		case p.root:
		case p.dead() && forgive > 0 && t.isDoomed(p):
			forgive--
		case p.dead():
			zombies++
		case !t.isDoomed(p):
			live += max(p.threads, 1)
		}
	}
	return live, zombies
}

func (t *Tree) isDoomed(p *process) bool {
	return slices.Contains(t.doomed, identity{p.pid, p.start})
}

func (t *Tree) kill(p *process) error {
	t.doomed = append(t.doomed, identity{p.pid, p.start})
	return t.with(p.pid, func(fd int, s *stat) error {
		if s.start != p.start {
			return nil
		}
		return send(fd, unix.SIGKILL)
	})
}

// hoarder is the process with the most zombies for children.
func (t *Tree) hoarder() *process {
	for i := range t.cur {
		t.cur[i].owed = 0
	}
	var most *process
	for i := range t.cur {
		p := find(t.cur, t.cur[i].ppid)
		if p == nil || p.root || !t.cur[i].dead() || p.dead() || t.isDoomed(p) {
			continue
		}
		if p.owed++; most == nil || p.owed > most.owed {
			most = p
		}
	}
	return most
}
