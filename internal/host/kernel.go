package host

import "strconv"

// Kernel is a version of Linux. The zero value is an unknown one.
type Kernel struct{ Major, Minor int }

// ParseKernel reads the release of uname(2): "6.8.0-45-generic" is 6.8.
func ParseKernel(release string) Kernel {
	major, rest := leadingNumber(release)
	if len(rest) == 0 || rest[0] != '.' {
		return Kernel{}
	}
	minor, tail := leadingNumber(rest[1:])
	if len(tail) == len(rest)-1 {
		return Kernel{}
	}
	return Kernel{major, minor}
}

func leadingNumber(s string) (n int, rest string) {
	i := 0
	for i < len(s) && i < 6 && '0' <= s[i] && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	return n, s[i:]
}

// IsZero: it could not be found out.
func (k Kernel) IsZero() bool { return k == Kernel{} }

// AtLeast is false for an unknown kernel.
func (k Kernel) AtLeast(least Kernel) bool {
	if k.IsZero() {
		return false
	}
	return k.Major > least.Major || k.Major == least.Major && k.Minor >= least.Minor
}

func (k Kernel) String() string {
	if k.IsZero() {
		return "unknown"
	}
	return strconv.Itoa(k.Major) + "." + strconv.Itoa(k.Minor)
}
