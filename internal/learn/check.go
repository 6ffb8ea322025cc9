package learn

import "path"

// Check asks the finished profile for each access that it was made of, and gives those that
// it refuses: what is missing in it is to be said. ask takes the words of a question.
func Check(s *Seen, w *World, ask func(path string, w Op) bool) (refused []Access) {
	f := newFiles(w, &notes{})
	f.mark(s.Accesses)
	asked := map[Access]bool{}
	for i := range s.Accesses {
		a := s.Accesses[i]
		p, op, ok := f.question(&a)
		question := Access{Path: p, Op: op}
		if !ok || asked[question] {
			continue
		}
		asked[question] = true
		if !ask(p, op) {
			refused = append(refused, Access{Path: p, Op: op, Comm: a.Comm})
		}
	}
	return refused
}

// question is what an access asks of a host on which the run hasn't been yet.
func (f *files) question(a *Access) (p string, op Op, ok bool) {
	p, op = a.Path, a.Op
	real, _, _ := f.world.resolve(p)
	switch {
	case needless(real) || f.temporary(p, real):
		return "", "", false
	case op == Connect || kernels(p) || kernels(real):
		return "", "", false
	case op == Create && (!a.Exists || a.Replaces):
		if top := f.outermost(path.Dir(p)); top != "" {
			p = top
		}
		_, isDir, isFile := f.world.resolve(p)
		if isDir || isFile || a.Replaces {
			p, op = path.Dir(p), Write
		}
		return p, op, f.mayWrite(path.Dir(a.Path))
	case op == Create || !a.Exists || f.own(p):
		return "", "", false
	}
	_, isDir, isFile := f.world.resolve(p)
	switch {
	case !isDir && !isFile:
		return "", "", false
	case op == Remove:
		return path.Dir(p), Write, f.mayWrite(path.Dir(p))
	case op == Write:
		return p, op, f.mayWrite(p)
	case isDir && (op == Look || op == Exec):
		return "", "", false
	case op == Look:
		return p, Read, true
	case op == List:
		op = Read
	}
	return p, op, op != Read || f.world.Readable(p)
}

// mayWrite: permissions don't refuse it, whatever the rules say.
func (f *files) mayWrite(name string) bool {
	real, dir, file := f.world.resolve(name)
	return !dir && !file || f.world.Writable(real)
}
