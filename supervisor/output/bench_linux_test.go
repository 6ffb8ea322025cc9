package output

import (
	"io"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roleWrite is a target that writes SIZE bytes, 64 KiB at a time. Like roleDiscard
// it goes past the Go scheduler, so as to cost what a C program costs.
func roleWrite() {
	size, _ := strconv.Atoi(os.Getenv("SIZE"))
	b := make([]byte, 64<<10)
	for size > 0 {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&b[0])), uintptr(min(size, len(b))))
		switch errno {
		case 0:
			size -= int(n)
		case unix.EINTR:
		default:
			os.Exit(1)
		}
	}
}

// roleDiscard is a reader such as cat >/dev/null.
func roleDiscard() {
	b := make([]byte, 128<<10)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, 0, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != unix.EINTR && (errno != 0 || n == 0) {
			return
		}
	}
}

const benchSize = 1 << 30

// BenchmarkPipe: a gigabyte from one process to another, over one pipe and through the pump.
func BenchmarkPipe(b *testing.B) {
	for _, relayed := range []bool{false, true} {
		name := "bare"
		if relayed {
			name = "relayed"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchSize)
			defer func(was float64) { b.ReportMetric((cpu()-was)/float64(b.N), "cpu-s/op") }(cpu())
			for b.Loop() {
				r, w, _ := os.Pipe()
				reader, writer := helper("discard"), helper("write", "SIZE="+strconv.Itoa(benchSize))
				reader.Stdin = r
				var p *Pump
				writer.Stdout = w
				if relayed {
					p = pump(b)
					_, writer.Stdout = output(b, p, Config{Dst: int(w.Fd()), Limit: 2 * benchSize})
					p.Start()
				}
				start(b, reader.Start(), writer.Start())
				r.Close()
				writer.Wait()
				if relayed {
					writer.Stdout.(*os.File).Close()
					ended(b, p)
				}
				w.Close()
				reader.Wait()
			}
		})
	}
}

// BenchmarkSink: a gigabyte that ends with us: dropped, captured, or in a file.
func BenchmarkSink(b *testing.B) {
	file, err := os.Create(b.TempDir() + "/out")
	if err != nil {
		b.Fatal(err)
	}
	null, _ := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	for _, c := range []struct {
		name string
		cfg  Config
		bare *os.File
	}{
		{"dropped", Config{Dst: -1, Limit: 1}, nil},
		{"null, bare", Config{}, null},
		{"null", Config{Dst: int(null.Fd())}, nil},
		{"file, bare", Config{}, file},
		{"file", Config{Dst: int(file.Fd())}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(benchSize)
			defer func(was float64) { b.ReportMetric((cpu()-was)/float64(b.N), "cpu-s/op") }(cpu())
			for b.Loop() {
				file.Truncate(0)
				file.Seek(0, io.SeekStart)
				writer := helper("write", "SIZE="+strconv.Itoa(benchSize))
				if c.bare != nil {
					writer.Stdout = c.bare
					start(b, writer.Run())
					continue
				}
				p := pump(b)
				_, w := output(b, p, c.cfg)
				p.Start()
				writer.Stdout = w
				start(b, writer.Run())
				w.Close()
				ended(b, p)
			}
		})
	}
}

// cpu is what the pump has used (and the test around it), in seconds.
func cpu() float64 {
	var sum float64
	for _, who := range []int{unix.RUSAGE_SELF} {
		var ru unix.Rusage
		unix.Getrusage(who, &ru)
		sum += float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9
	}
	return sum
}

func start(b *testing.B, errs ...error) {
	b.Helper()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStdin: a gigabyte from a pipe of the caller's to the target.
func BenchmarkStdin(b *testing.B) {
	for _, relayed := range []bool{false, true} {
		name := "bare"
		if relayed {
			name = "teed"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchSize)
			defer func(was float64) { b.ReportMetric((cpu()-was)/float64(b.N), "cpu-s/op") }(cpu())
			for b.Loop() {
				r, w, _ := os.Pipe()
				reader, writer := helper("discard"), helper("write", "SIZE="+strconv.Itoa(benchSize))
				reader.Stdin, writer.Stdout = r, w
				p := pump(b)
				if relayed {
					target, err := p.Stdin(int(r.Fd()))
					if err != nil {
						b.Fatal(err)
					}
					reader.Stdin = os.NewFile(uintptr(target), "stdin")
				}
				p.Start()
				start(b, reader.Start(), writer.Start())
				w.Close()
				if relayed {
					reader.Stdin.(*os.File).Close()
				}
				writer.Wait()
				reader.Wait()
				r.Close()
				ended(b, p)
			}
		})
	}
}
