package host

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

func unameRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// maxCPUs is the largest number of CPUs that Linux can be built for (x86: 8192).
const maxCPUs = 8192

func allowedCPUs() []int {
	set := unix.NewCPUSet(maxCPUs)
	if unix.SchedGetaffinityDynamic(0, set) != nil {
		return nil
	}
	var cpus []int
	for i := range maxCPUs {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// HardLimit is one of this process's own limits, by its RLIMIT_ number.
func (f *Facts) HardLimit(resource int) (uint64, error) {
	var r unix.Rlimit
	err := unix.Prlimit(0, resource, nil, &r)
	return r.Max, err
}

// mayWrite names what it refuses.
func mayWrite(path string) error {
	if err := linux.MayWrite(path); err != nil {
		return &notWritable{path, err.(unix.Errno)}
	}
	return nil
}

type notWritable struct {
	path  string
	errno unix.Errno
}

func (e *notWritable) Error() string {
	return "access(\"" + e.path + "\", W_OK): " + errnoText(e.errno)
}

func (e *notWritable) Unwrap() error { return e.errno }
