package keeper

import "github.com/confine-run/confine/internal/snapshot"

// Where a machine is written down.
const (
	Place  = snapshot.MachinePlace
	Memory = Place + "/memory"
	State  = Place + "/devices"
	Fids   = Place + "/fids"
	About  = Place + "/machine"
	// Unpacked is there if the keeper unpacked the kernel when the machine booted.
	Unpacked = Place + "/unpacked"
)

// Machine is what a keeper has to know.
type Machine struct {
	Restore bool   // go on with what is in Place
	Memory  int64  // its size, in bytes
	Kernel  string // bzImage
	Init    string // the guest's first program
	Modules string // directory of the kernel's; empty: it has none
	Epoch   uint64 // of its files, see ninep.New
}

// Order is what the host says. One is answered before the next comes.
type Order struct {
	Save []byte // write the machine down, with this about it; it stands still from then on
	Go   bool   // go on
}

// Answer is the answer to an Order, and the first thing that a keeper says.
type Answer struct {
	Err string `json:",omitempty"`
}

// Modules is the directory of kernel modules in the initramfs; its file "order" lists them, as a list in JSON.
const Modules = "/modules"
