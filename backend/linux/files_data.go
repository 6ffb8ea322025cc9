package confine

import "strings"

// unremarkable are files that C libraries and runtimes try at every start, and go on
// without: a program never failed because of them, and a line about each would hide
// those that it did fail because of. A name that ends in a slash is all below it.
var unremarkable = [...]struct{ path, why string }{
	{"/usr/share/locale/locale.alias", "glibc's setlocale; Debian has a link to /etc there"},
	{"/var/run/nscd/socket", "glibc's getpwnam and getaddrinfo ask a cache first"},
	{"/run/nscd/socket", "the same"},
	{"/sys/kernel/mm/transparent_hugepage/", "allocators of Go and Java"},
	{"/sys/kernel/mm/hugepages", "Java's allocator"},
	{"/sys/devices/system/cpu/", "how many there are; sched_getaffinity says it, too"},
	{"/sys/fs/cgroup/", "Node and Java look for limits"},
}

// remarkable says whether a refused file is worth telling.
func remarkable(name string) bool {
	for i := range unremarkable {
		u := &unremarkable[i]
		if name == u.path || strings.HasSuffix(u.path, "/") && strings.HasPrefix(name, u.path) {
			return false
		}
	}
	return true
}
