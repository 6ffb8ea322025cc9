package confine

import (
	"math"
	"strconv"
	"strings"

	"github.com/confine-run/confine/status"
)

// capabilities are the names that --allow-partial and --require take.
var capabilities = [...]status.Capability{
	status.Containment, status.WallTime, status.CPUTime, status.CPURate, status.CPUs,
	status.Memory, status.Tasks, status.FileDescriptors, status.FileSize, status.Disk,
	status.Files, status.MountSize, status.Output, status.Filesystem, status.Network, status.Syscalls,
	status.Privileges, status.Cgroup, status.Overlay, status.Rootfs, status.Publish, status.Isolation,
}

// aliases are what people call capabilities: the option's name, the kernel's word.
var aliases = [...]struct {
	name string
	is   status.Capability
}{
	{"time_limit", status.WallTime}, {"wall", status.WallTime}, {"timeout", status.WallTime},
	{"cpu", status.CPUTime}, {"cpu_limit", status.CPURate}, {"cores", status.CPUs},
	{"memory_limit", status.Memory}, {"mem", status.Memory},
	{"processes", status.Tasks}, {"pids", status.Tasks}, {"threads", status.Tasks},
	{"fds", status.FileDescriptors}, {"nofile", status.FileDescriptors},
	{"max_file_size", status.FileSize}, {"disk_limit", status.Disk}, {"max_files", status.Files},
	{"output_limit", status.Output}, {"fs", status.Filesystem}, {"net", status.Network},
	{"seccomp", status.Syscalls}, {"cgroups", status.Cgroup}, {"cgroup_parent", status.Cgroup},
}

// Capabilities are the names that --allow-partial and --require take.
func Capabilities() []string {
	names := make([]string, len(capabilities))
	for i, c := range capabilities {
		names[i] = string(c)
	}
	return names
}

func checkCapability(word string, also ...string) (string, error) {
	name := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, c := range capabilities {
		if name == string(c) {
			return name, nil
		}
	}
	for _, a := range aliases {
		if name == a.name {
			return string(a.is), nil
		}
	}
	known := append(Capabilities(), also...)
	return "", mistake("is no capability"+meant(name, known), "they are "+strings.Join(known, ", "))
}

func checkPartial(_ place, word string) (string, error) {
	if word == wordAll {
		return word, nil
	}
	return checkCapability(word, wordAll)
}

func checkRequire(_ place, word string) (string, error) {
	name, mechanism, ok := strings.Cut(word, "=")
	name, err := checkCapability(name)
	if err != nil || !ok {
		return name, err
	}
	if mechanism = strings.TrimSpace(mechanism); mechanism == "" {
		return "", mistake("names no mechanism after \"=\"", `such as "memory=cgroup v2"; "confine explain" shows those of this host`)
	}
	return name + "=" + mechanism, nil
}

// checkEnvName takes the name of a variable to pass, or the beginning of some: "LC_*".
func checkEnvName(_ place, word string) (string, error) {
	const hint = `it takes "NAME", "PREFIX_*" or "NAME=VALUE"`
	if word == "*" {
		return "", mistake("is all variables", "that is --keep-env")
	}
	if !isVariable(strings.TrimSuffix(word, "*")) {
		return "", mistake("is not the name of a variable", hint)
	}
	return word, nil
}

func isVariable(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return s != ""
}

func checkEnvSet(_ place, word string) (string, error) {
	name, _, ok := strings.Cut(word, "=")
	if !ok {
		return "", mistake("has no value", `it takes "NAME=VALUE"`)
	}
	if !isVariable(name) {
		return "", mistake("is not the name of a variable", `it takes "NAME=VALUE"`)
	}
	return word, nil
}

func checkUser(_ place, word string) (string, error) {
	if u := parseUser(word); u != nil {
		return u.String(), nil
	}
	return "", mistake("is not a user", `it takes "UID" or "UID:GID" in numbers, such as "65534:65534"; GID defaults to UID`)
}

// parseUser reads UID[:GID], or gives nil. The last number there is means "no
// change" to the kernel and is nobody.
func parseUser(word string) *User {
	uid, gid, ok := strings.Cut(word, ":")
	if !ok {
		gid = uid
	}
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil || u == math.MaxUint32 {
		return nil
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil || g == math.MaxUint32 {
		return nil
	}
	return &User{UID: uint32(u), GID: uint32(g)}
}

// String is the form that --user takes.
func (u User) String() string {
	return strconv.FormatUint(uint64(u.UID), 10) + ":" + strconv.FormatUint(uint64(u.GID), 10)
}
