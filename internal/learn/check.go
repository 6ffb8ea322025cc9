package learn

import "path"

// Check asks the finished profile for each access that it was made of, and gives those that
// it refuses: what is missing in it is to be said. ask takes the words of a question.
func Check(s *Seen, w *World, ask func(path string, w Wish) bool) (refused []Access) {
	f := newFiles(w, &notes{})
	f.mark(s.Accesses)
	asked := map[Access]bool{}
	for i := range s.Accesses {
		a := s.Accesses[i]
		p, wish, ok := f.question(&a)
		question := Access{Path: p, Wish: wish}
		if !ok || asked[question] {
			continue
		}
		asked[question] = true
		if !ask(p, wish) {
			refused = append(refused, Access{Path: p, Wish: wish, Comm: a.Comm})
		}
	}
	return refused
}

// question is what an access asks of a host on which the run hasn't been yet.
func (f *files) question(a *Access) (p string, wish Wish, ok bool) {
	p, wish = a.Path, a.Wish
	real, _, _ := f.world.resolve(p)
	switch {
	case needless(real) || f.temporary(p, real):
		return "", "", false
	case wish == Connect || kernels(p) || kernels(real):
		return "", "", false
	case wish == Create && (!a.Exists || a.Replaces):
		if top := f.outermost(path.Dir(p)); top != "" {
			p = top
		}
		_, isDir, isFile := f.world.resolve(p)
		if isDir || isFile || a.Replaces {
			p, wish = path.Dir(p), Write
		}
		return p, wish, f.mayWrite(path.Dir(a.Path))
	case wish == Create || !a.Exists || f.own(p):
		return "", "", false
	}
	_, isDir, isFile := f.world.resolve(p)
	switch {
	case !isDir && !isFile:
		return "", "", false
	case wish == Remove:
		return path.Dir(p), Write, f.mayWrite(path.Dir(p))
	case wish == Write:
		return p, wish, f.mayWrite(p)
	case isDir && (wish == Look || wish == Exec):
		return "", "", false
	case wish == Look:
		return p, Read, true
	case wish == List:
		wish = Read
	}
	return p, wish, wish != Read || f.world.Readable(p)
}

// mayWrite: permissions don't refuse it, whatever the rules say.
func (f *files) mayWrite(name string) bool {
	real, dir, file := f.world.resolve(name)
	return !dir && !file || f.world.Writable(real)
}
