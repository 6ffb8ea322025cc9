package keeper

import "github.com/confine-run/confine/internal/snapshot"

// Where a machine is written down.
const (
	Place = snapshot.MachinePlace
	State = Place + "/devices"
	Fids  = Place + "/fids"
	About = Place + "/machine"
	// The memory has a place of its own: that of a fork is copied from machine to machine.
	MemoryPlace = "/run/confine-vm/memory"
	Memory      = MemoryPlace + "/memory"
	// Unpacked is there if the keeper unpacked the kernel when the machine booted.
	Unpacked = Place + "/unpacked"
)

// Machine is what a keeper has to know.
type Machine struct {
	Restore bool   // go on with what is in Place
	Given   bool   // the memory is written meanwhile, until an order says that it is there
	Memory  int64  // its size, in bytes
	Kernel  string // bzImage
	Init    string // the guest's first program
	Modules string // directory of the kernel's; empty: it has none
	Epoch   uint64 // of its files, see ninep.New
	Ticks   bool   // the CPUs are emulated, and the host goes by the counter that they have
}

// Order is what the host says. One is answered before the next comes.
type Order struct {
	Save []byte // write the machine down, with this about it; it stands still from then on
	Go   bool   // go on
	Load bool   // the memory that is given is there
}

// Answer is the answer to an Order, and the first thing that a keeper says.
type Answer struct {
	Err string `json:",omitempty"`
}

// Modules is the directory of kernel modules in the initramfs; its file "order" lists them, as a list in JSON.
const Modules = "/modules"
