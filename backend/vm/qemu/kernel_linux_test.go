package qemu

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// vmlinux is a kernel of one part, at an address, with a note of an entry in it.
func vmlinux(at uint64, entry uint32, code []byte) []byte {
	s := stub(entry) // it is one, but for the address and what is loaded
	var b bytes.Buffer
	b.Write(s)
	b.Write(code)
	image := b.Bytes()
	for n := range 2 {
		phdr := image[binary.Size(elf.Header64{})+n*binary.Size(elf.Prog64{}):]
		binary.LittleEndian.PutUint64(phdr[0x18:], at)
		if n == 0 {
			size := binary.LittleEndian.Uint64(phdr[0x20:]) + uint64(len(code))
			binary.LittleEndian.PutUint64(phdr[0x20:], size)
			binary.LittleEndian.PutUint64(phdr[0x28:], size)
		}
	}
	return image
}

// bzImage is what says where a payload lies in it, with what Linux puts after that.
func bzImage(payload []byte) []byte {
	const sectors = 3
	b := make([]byte, (sectors+1)*512+16)
	b[0x1f1] = sectors
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], 16)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	return append(b, payload...)
}

func gzipped(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	must.Do(t, err)
	return append(w.EncodeAll(data, nil), 1, 2, 3, 4) // the length, as Linux has it
}

const testSize = 32 << 20

func TestAKernelLiesInMemoryWhereItWasLinkedToBe(t *testing.T) {
	code := bytes.Repeat([]byte("code "), 5000)
	image := vmlinux(kernelAddress, kernelAddress+0x40, code)
	for name, packed := range map[string][]byte{"gzip": gzipped(t, image), "zstd": zstandard(t, image)} {
		memory := filepath.Join(t.TempDir(), name)
		entry, err := unpackInto(memory, bytes.NewReader(bzImage(packed)), testSize)
		if err != nil || entry != kernelAddress+0x40 {
			t.Fatal(name, entry, err)
		}
		got, err := os.ReadFile(memory)
		if err != nil || len(got) != testSize {
			t.Fatal(name, len(got), err)
		}
		if at := bytes.Index(got, code); at < kernelAddress || at > kernelAddress+4096 {
			t.Errorf("%s: the code is at %d", name, at)
		}
	}
}

// What Debian packs, by xz with a filter for code, and what lies beside it: the entry of a real kernel is where it begins.
func TestTheKernelsOfTheMachinesAreUnpacked(t *testing.T) {
	named := os.Getenv("VMKERNEL")
	if named == "" {
		must.Do(t, host.MustRun("vmkernel"))
		t.Skip("VMKERNEL names none")
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(named), "vmlinuz-*"))
	must.Do(t, err)
	for _, image := range append(beside, named) {
		f, err := os.Open(image)
		must.Do(t, err)
		defer f.Close()
		memory := filepath.Join(t.TempDir(), "memory")
		entry, err := unpackInto(memory, f, 512<<20)
		if err != nil || entry < kernelAddress {
			t.Fatal(image, entry, err)
		}
		m, err := os.Open(memory)
		must.Do(t, err)
		defer m.Close()
		begin := make([]byte, 1)
		if _, err := m.ReadAt(begin, int64(entry)); err != nil || begin[0] != 0xfc { // cld, as arch/x86/platform/pvh/head.S begins
			t.Errorf("%s: at %#x: %x %v", image, entry, begin, err)
		}
	}
}

func TestWhatIsNoSuchKernelUnpacksItselfAndLeavesMemoryEmpty(t *testing.T) {
	good := vmlinux(kernelAddress, kernelAddress, []byte("code"))
	changed := func(at int, value ...byte) []byte {
		image := bytes.Clone(good)
		copy(image[at:], value)
		return bzImage(gzipped(t, image))
	}
	phdr := binary.Size(elf.Header64{})
	far := binary.LittleEndian.AppendUint64(nil, 1<<40)
	for name, image := range map[string][]byte{
		"empty":                       {},
		"no header":                   make([]byte, 4096),
		"nothing packed":              bzImage(nil),
		"packed otherwise":            bzImage([]byte("\x02\x21\x4c\x18 lz4 is not unpacked here")),
		"cut off":                     bzImage(gzipped(t, good)[:40]),
		"no ELF":                      changed(0, 'X'),
		"32 bits":                     changed(0x12, 3),
		"no parts":                    changed(0x38, 0, 0),
		"many parts":                  changed(0x38, 0xff, 0xff),
		"a part far away":             changed(phdr+0x18, far...),
		"a part of the firmware's":    changed(phdr+0x18, 0, 0, 1, 0, 0, 0, 0, 0),
		"a part that is long":         changed(phdr+0x20, bytes.Repeat(far, 2)...),
		"a part before what was read": changed(phdr+0x08, make([]byte, 8)...),
		"notes far away":              changed(2*phdr-8+0x18, far...),
		"no note of an entry":         changed(len(good)-len("code")-16, 7),
	} {
		memory := filepath.Join(t.TempDir(), "memory")
		if entry, err := unpackInto(memory, bytes.NewReader(image), testSize); err == nil {
			t.Errorf("%s: begins at %#x", name, entry)
		}
		if st, err := os.Stat(memory); err != nil || st.Size() != 0 {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	image := vmlinux(kernelAddress, kernelAddress, []byte("code"))
	f.Add(bzImage(gzipped(f, image)))
	f.Add(bzImage(zstandard(f, image)))
	f.Fuzz(func(t *testing.T, image []byte) {
		memory := filepath.Join(t.TempDir(), "memory")
		entry, err := unpackInto(memory, bytes.NewReader(image), testSize)
		st, statErr := os.Stat(memory)
		if statErr != nil || err == nil && st.Size() != testSize || err != nil && st.Size() != 0 {
			t.Fatal(entry, err, st, statErr)
		}
	})
}

func TestTheStubIsAProgramOfItsEntryAlone(t *testing.T) {
	e, err := elf.NewFile(bytes.NewReader(stub(0x1234567)))
	if err != nil || e.Entry != 0x1234567 || len(e.Progs) != 2 {
		t.Fatal(e, err)
	}
	if entry, err := entryOf(e.Progs[1].Open()); err != nil || entry != 0x1234567 {
		t.Error(entry, err)
	}
	if _, err := entryOf(bytes.NewReader(nil)); !errors.Is(err, errPacked) {
		t.Error(err)
	}
}
