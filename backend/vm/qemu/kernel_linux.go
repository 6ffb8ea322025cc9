package qemu

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/vm/internal/keeper"
)

// A bzImage unpacks itself, which on emulated CPUs takes as long as all the rest of a boot. The keeper unpacks what is in it into the
// memory of the machine, as Documentation/arch/x86/boot.rst says where that lies, and QEMU begins at its entry for PVH (xen/include/public/elfnote.h),
// by an ELF file that has this entry and nothing else. So the kernel is where it was linked to be, as with nokaslr.

// errPacked is a kernel that has to unpack itself: it was packed otherwise, or hasn't the entry.
var errPacked = errors.New("the kernel unpacks itself")

// Addresses of the machine's memory.
const (
	stubAddress   = 1 << 20  // where QEMU puts the part of the stub that it has to have
	kernelAddress = 16 << 20 // below it no kernel is linked to be
)

// unpack puts the kernel of a bzImage into memory, and gives its entry.
func unpack(image io.ReaderAt, memory *os.File, size int64) (entry uint32, err error) {
	payload, err := payloadOf(image)
	if err != nil {
		return 0, err
	}
	r, err := unpacked(payload)
	if err != nil {
		return 0, err
	}
	c := &counted{r: r}
	var header elf.Header64
	if err := binary.Read(c, binary.LittleEndian, &header); err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(header.Ident[:], []byte(elf.ELFMAG)) || header.Machine != uint16(elf.EM_X86_64) || header.Phoff != uint64(c.n) ||
		header.Phentsize != uint16(binary.Size(elf.Prog64{})) || header.Phnum == 0 || header.Phnum > 64 {
		return 0, errPacked
	}
	segments := make([]elf.Prog64, header.Phnum)
	if err := binary.Read(c, binary.LittleEndian, segments); err != nil {
		return 0, err
	}
	var note *elf.Prog64
	for n := range segments {
		s := &segments[n]
		switch elf.ProgType(s.Type) {
		case elf.PT_LOAD:
			if s.Filesz > s.Memsz || s.Paddr < kernelAddress || s.Paddr > uint64(size) || s.Memsz > uint64(size)-s.Paddr || s.Off < uint64(c.n) {
				return 0, errPacked
			}
			if _, err := io.CopyN(io.Discard, c, int64(s.Off)-c.n); err != nil {
				return 0, err
			}
			if _, err := io.CopyN(io.NewOffsetWriter(memory, int64(s.Paddr)), c, int64(s.Filesz)); err != nil {
				return 0, err
			}
		case elf.PT_NOTE:
			note = s
		}
	}
	if note == nil || note.Filesz > 1<<16 || note.Paddr > uint64(size) {
		return 0, errPacked
	}
	return entryOf(io.NewSectionReader(memory, int64(note.Paddr), int64(note.Filesz)))
}

// payloadOf is what is packed in a bzImage.
func payloadOf(image io.ReaderAt) (*io.SectionReader, error) {
	header := make([]byte, 0x250)
	if _, err := image.ReadAt(header, 0); err != nil || string(header[0x202:0x206]) != "HdrS" || binary.LittleEndian.Uint16(header[0x206:]) < 0x208 {
		return nil, errPacked // the boot protocol before 2.08 doesn't say
	}
	sectors := int64(header[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	offset, length := binary.LittleEndian.Uint32(header[0x248:]), binary.LittleEndian.Uint32(header[0x24c:])
	return io.NewSectionReader(image, (sectors+1)*512+int64(offset), int64(length)), nil
}

// maxWindow is how far back packed data may refer at most.
const maxWindow = 128 << 20

// unpacked tells by what a payload begins with how it was packed. After it comes its length, which nobody needs.
func unpacked(payload *io.SectionReader) (io.Reader, error) {
	var magic [6]byte
	if _, err := payload.ReadAt(magic[:], 0); err != nil {
		return nil, errPacked
	}
	switch {
	case bytes.HasPrefix(magic[:], []byte("\xfd7zXZ\x00")):
		r, err := xz.NewReader(payload, maxWindow)
		if err == nil {
			r.Multistream(false)
		}
		return r, err
	case bytes.HasPrefix(magic[:], []byte("\x1f\x8b")):
		return gzip.NewReader(payload)
	case bytes.HasPrefix(magic[:], []byte("\x28\xb5\x2f\xfd")):
		return zstd.NewReader(payload, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	}
	return nil, errPacked
}

// counted counts what was read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// The note of a kernel that says where it is to be begun, as 32-bit code, with its own name.
const (
	noteName  = "Xen\x00"
	noteEntry = 18 // XEN_ELFNOTE_PHYS32_ENTRY
)

// entryOf finds it among notes.
func entryOf(notes io.Reader) (uint32, error) {
	for {
		var n struct{ Name, Desc, Type uint32 }
		if err := binary.Read(notes, binary.LittleEndian, &n); err != nil || n.Name > 1<<12 || n.Desc > 1<<12 {
			return 0, errPacked
		}
		text := make([]byte, (n.Name+3)&^3+(n.Desc+3)&^3)
		if _, err := io.ReadFull(notes, text); err != nil {
			return 0, errPacked
		}
		if desc := text[(n.Name+3)&^3:]; n.Type == noteEntry && string(text[:n.Name]) == noteName && n.Desc >= 4 {
			return binary.LittleEndian.Uint32(desc), nil
		}
	}
}

// stub is the least ELF file that QEMU begins at an entry.
func stub(entry uint32) []byte {
	var b bytes.Buffer
	ehdr, phdr := binary.Size(elf.Header64{}), binary.Size(elf.Prog64{})
	at := uint64(ehdr + 2*phdr)
	note := append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(len(noteName))), 8), noteEntry), noteName...)
	note = binary.LittleEndian.AppendUint64(note, uint64(entry))
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT), Entry: uint64(entry), Phoff: uint64(ehdr), Ehsize: uint16(ehdr), Phentsize: uint16(phdr), Phnum: 2,
	}
	size := uint64(len(note))
	_ = binary.Write(&b, binary.LittleEndian, h)
	for _, kind := range []elf.ProgType{elf.PT_LOAD, elf.PT_NOTE} {
		_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(kind), Flags: uint32(elf.PF_R), Off: at, Vaddr: stubAddress, Paddr: stubAddress, Filesz: size, Memsz: size, Align: 4})
	}
	b.Write(note)
	return b.Bytes()
}

// kernelFor is what QEMU is to boot, or was to when it booted the machine that goes on: the devices are other with a stub.
func kernelFor(m *keeper.Machine) (*os.File, error) {
	if m.Restore {
		if _, err := os.Stat(keeper.Unpacked); err == nil {
			return inMemory("stub", stub(kernelAddress)) // nobody begins there again
		}
		return os.Open(m.Kernel)
	}
	image, err := os.Open(m.Kernel)
	if err != nil {
		return nil, err
	}
	entry, err := unpackInto(keeper.Memory, image, m.Memory)
	if err != nil {
		return image, nil // whatever is wrong with it, it says so itself
	}
	_ = image.Close()
	if err := os.WriteFile(keeper.Unpacked, nil, 0o600); err != nil {
		return nil, err
	}
	return inMemory("stub", stub(entry))
}

// unpackInto leaves the file of the memory empty if it fails.
func unpackInto(path string, image io.ReaderAt, size int64) (entry uint32, err error) {
	memory, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	if entry, err = unpack(image, memory, size); err == nil {
		return entry, memory.Truncate(size)
	}
	return 0, errors.Join(err, memory.Truncate(0))
}

// inMemory is a file that lies nowhere.
func inMemory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}
