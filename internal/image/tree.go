package image

// Meta is what an image says about the programs in it.
type Meta struct {
	Path string // PATH
	Dir  string // where they start
}

// Tree is an image that was unpacked.
type Tree struct {
	Meta
	Root string
}
