package disk

import "math/bits"

// inodes is a set of inodes. A map of the same would take three times as long,
// and most of a walk's memory.
type inodes struct {
	slots []uint64 // a power of two of them; 0: free
	n     int
	zero  bool // an inode whose key is 0
}

const fewest = 1 << 10

func (s *inodes) clear() {
	clear(s.slots)
	s.n, s.zero = 0, false
}

// add is false for one that is in it already. Within one device keys are
// different for different inodes.
func (s *inodes) add(device, inode uint64) bool {
	key := inode ^ bits.RotateLeft64(device*0x9e3779b97f4a7c15, 20)
	if key == 0 {
		was := s.zero
		s.zero = true
		return !was
	}
	if 4*s.n >= 3*len(s.slots) {
		s.grow()
	}
	if !s.put(key) {
		return false
	}
	s.n++
	return true
}

func (s *inodes) put(key uint64) bool {
	mask := uint64(len(s.slots) - 1)
	for at := (key * 0x9e3779b97f4a7c15) >> 20 & mask; ; at = (at + 1) & mask {
		switch s.slots[at] {
		case 0:
			s.slots[at] = key
			return true
		case key:
			return false
		}
	}
}

func (s *inodes) grow() {
	old := s.slots
	s.slots = make([]uint64, max(fewest, 2*len(old)))
	for _, key := range old {
		if key != 0 {
			s.put(key)
		}
	}
}
