package learn

// Reasons why a directory is not made writable.
const (
	whyFound = "programs are found there by their names"
	whyTaken = "what is put there is run or obeyed outside, later"
)

// obeyed says why nothing may be put into a directory by a later run, if it may not: it is
// one, or lies in one, that programs outside take orders from.
func (w *World) obeyed(p string) string {
	for _, dir := range w.Path {
		if dir != "" && dir != "/" && dir != w.Home && under(p, dir) {
			return whyFound
		}
	}
	for _, dir := range w.takers() {
		if under(p, dir) {
			return whyTaken
		}
	}
	return ""
}

// holdsObeyed is one of these that lies in a directory and is there, or "".
func (w *World) holdsObeyed(dir string) string {
	for _, p := range append(w.takers(), w.Path...) {
		if p == dir || p == "" || !under(p, dir) {
			continue
		}
		if real, isDir, _ := w.resolve(p); isDir && real == p {
			return p
		}
	}
	return ""
}

func (w *World) takers() (all []string) {
	all = append(all, obeyedOnHost[:]...)
	if w.Home != "" {
		for _, rest := range obeyedAtHome {
			all = append(all, w.Home+"/"+rest)
		}
	}
	return all
}
