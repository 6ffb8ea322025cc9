package host

// tryAll gives the results in the table's order, the cgroups after them.
func tryAll(f *Facts) []Result {
	tried := tryHere()
	done, broke := refusal(tried, "proc"), error(nil)
	if len(done) == 0 {
		// With no /proc there is no process to start, and every need says so.
		done, broke = tryInside()
	}
	tried = append(tried, results(inside, done, broke)...)
	if _, reached := done.get("seccomp"); !reached && done.lacks(entry{needs: "proc"}) == "" {
		// No namespaces, or the process died in them: filters need none.
		done, _, broke = try(rolePlain, 0)
	}
	tried = append(tried, results(plain, done, broke)...)
	rs := make([]Result, 0, len(table)+16)
	for _, e := range table {
		for _, r := range tried {
			if r.Name == e.name {
				rs = append(rs, r)
			}
		}
	}
	return append(rs, cgroupResults(f, mayWrite)...)
}

// refusal is the refusal of that one result, if it is one.
func refusal(rs []Result, name string) (as answers) {
	for _, r := range rs {
		if r.Name == name && r.Answer != Yes {
			as = append(as, answer{name, r.Detail, r.Errno})
		}
	}
	return as
}
