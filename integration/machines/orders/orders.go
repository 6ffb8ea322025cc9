// Package orders is what a machine is told to do, and what it answers: lines of
// JSON, from the program that starts the machines to the one inside, and back.
package orders

import "encoding/json"

// File is where the orders lie in the machine, and Payload the directory that
// they and all programs are brought in.
const (
	Payload = "/proving"
	File    = Payload + "/orders.json"
)

// Disk is where the machine's disk lies, until it is the root.
const Disk = "/disk.ext2"

// Port is the machine's serial port that answers go to. The first one is its console.
const Port = "/dev/ttyS1"

// User is the ordinary user of the machines, by name and id.
const (
	User = "tester"
	UID  = 1000
)

// Place is where in the machine confine is tried.
type Place string

// The places.
const (
	Nowhere   Place = "nowhere"   // boot, say so, and that is it
	Plain     Place = "plain"     // what the first process starts, in the root cgroup
	Service   Place = "service"   // a service of systemd's
	Session   Place = "session"   // a service of the user's own systemd, its cgroup delegated
	Container Place = "container" // in a container without a user namespace
)

// Hierarchy is how cgroups are mounted where systemd doesn't do it.
type Hierarchy string

// The hierarchies.
const (
	Unified Hierarchy = "unified" // v2 at /sys/fs/cgroup
	Hybrid  Hierarchy = "hybrid"  // v1, one mount for each controller, and v2 without any beside them
)

// Orders are for one machine.
type Orders struct {
	Host    string            // its name
	Modules []string          // of the kernel, files in the payload, in the order of loading
	Without []string          // modules that the kernel is to lack
	Place   Place             // of confine
	CPUs    int               // of the machine
	UID     int               // of confine's caller
	Cgroups Hierarchy         // nothing where systemd is
	Sysctls map[string]string // by their names with dots
	Ledger  []string          // words for the run whose report tells the mechanisms
	Scripts []string          // of the integration tests
	Partial bool              // in them, too, what confine can't hold is accepted
}

// Said is one answer.
type Said struct {
	Kernel string          `json:",omitempty"` // its release; the first answer
	Report json.RawMessage `json:",omitempty"` // of the run that was ordered
	Line   string          `json:",omitempty"` // of what the tests print
	Failed string          `json:",omitempty"` // what kept the machine from it
	Done   bool            `json:",omitempty"` // the last answer
}
