package picture

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// row is a line of the picture: a process, or all of one name below the same row.
type row struct {
	name    string
	depth   int
	all     []*Process
	first   int64
	busy    int64 // the time that all of them were there
	failed  int
	rows    []*row // below
	by      map[string]*row
	further bool // it stands for further rows
}

// rows puts processes in order: those of one name that were started from one row are one row, and one that starts others of its own name is
// in theirs. So there are few rows, whatever a run does.
func (run *Run) rows() []*row {
	top := &row{depth: -1, by: map[string]*row{}}
	in := map[*Process]*row{}
	now := map[int]*Process{}      // whoever has a number
	earliest := map[int]*Process{} // whoever had it first
	for _, p := range slices.Backward(run.Processes) {
		earliest[p.PID] = p
	}
	order := slices.Clone(run.Processes)
	slices.SortStableFunc(order, func(a, b *Process) int { return cmp.Compare(a.StartedMS, b.StartedMS) })
	for i, p := range order {
		above := top
		if parent := now[p.Parent]; parent != nil && parent != p {
			above = in[parent]
		} else if i > 0 && p.Parent > 1 { // the parent may have the same time, and come later
			if r := in[earliest[p.Parent]]; r != nil {
				above = r
			}
		}
		if above == top || above.name != p.Comm {
			r := above.by[p.Comm]
			if r == nil {
				r = &row{name: p.Comm, depth: above.depth + 1, first: p.StartedMS, by: map[string]*row{}}
				above.by[p.Comm], above.rows = r, append(above.rows, r)
			}
			above = r
		}
		in[p], now[p.PID] = above, p
		above.all = append(above.all, p)
		above.busy += p.GoneMS - p.StartedMS
		if p.Failed != nil {
			above.failed++
		}
	}
	return top.flat(nil)
}

// flat is what is below a row, one after another, however deep.
func (r *row) flat(into []*row) []*row {
	stack := slices.Clone(r.rows)
	slices.Reverse(stack)
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		into = append(into, next)
		for _, below := range slices.Backward(next.rows) {
			stack = append(stack, below)
		}
	}
	return into
}

// most keeps so many rows, those of which there is most to see, and puts the processes of all others into one more.
func most(rows []*row, n int) []*row {
	if len(rows) <= n {
		return rows
	}
	worth := slices.Clone(rows)
	slices.SortStableFunc(worth, func(a, b *row) int { return cmp.Compare(b.busy, a.busy) })
	keep := map[*row]bool{rows[0]: true}
	for _, r := range worth {
		if keep[r] = true; len(keep) == n-1 {
			break
		}
	}
	rest := &row{further: true}
	var kept []*row
	for _, r := range rows {
		if keep[r] {
			kept = append(kept, r)
			continue
		}
		rest.all = append(rest.all, r.all...)
		rest.busy += r.busy
		rest.failed += r.failed
		rest.depth++ // the number of rows, for its name
	}
	rest.name, rest.depth = "others, of "+strconv.Itoa(rest.depth)+" names", 0
	return append(kept, rest)
}

// label is the name of a row.
func (r *row) label() string {
	if len(r.all) == 1 && !r.further {
		return r.all[0].command()
	}
	return r.name
}

// command is a process's command line as a person would type it, or its name.
func (p *Process) command() string {
	if len(p.Argv) == 0 {
		return p.Comm
	}
	words := slices.Clone(p.Argv)
	words[0] = path.Base(words[0])
	return strings.TrimRight(strings.Join(words, " "), " ") // who writes another title over them leaves blanks
}

// step is how many there are from a time on.
type step struct {
	at int64
	n  int
}

// together is how many of a row were there at once, from its first to its last.
func (r *row) together() (steps []step, most int) {
	changes := make([]step, 0, 2*len(r.all))
	for _, p := range r.all {
		changes = append(changes, step{p.StartedMS, 1}, step{max(p.GoneMS, p.StartedMS+1), -1})
	}
	slices.SortFunc(changes, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	n := 0
	for _, c := range changes {
		n += c.n
		most = max(most, n)
		if last := len(steps) - 1; last >= 0 && steps[last].at == c.at {
			steps[last].n = n
		} else {
			steps = append(steps, step{c.at, n})
		}
	}
	return steps, most
}
