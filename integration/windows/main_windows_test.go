package windows

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/integration/built"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

func TestMain(m *testing.M) {
	built.Main(m, map[string]func(words []string) error{
		"words": func(words []string) error { return json.NewEncoder(os.Stdout).Encode(words) },
		"flood": func([]string) error {
			for range 10_000 {
				fmt.Println("0123456789")
			}
			return nil
		},
		"write": func(words []string) error { return os.WriteFile(words[0], []byte("written"), 0o600) },
		// a grandchild, which tells its number in a file
		"tree": func(words []string) error { return exec.Command(os.Args[0], built.Word, "tell", words[0]).Run() },
		"tell": func(words []string) error {
			if err := built.Tell(words[0], os.Getpid()); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return nil
		},
		"handle": func(words []string) error {
			n, err := strconv.ParseUint(words[0], 10, 64)
			if err == nil {
				err = windows.SetEvent(windows.Handle(n))
			}
			return err
		},
		"bomb": func([]string) error {
			for i := range 100 {
				if err := exec.Command(os.Args[0], built.Word, "sleep").Start(); err != nil {
					fmt.Println(i)
					return nil
				}
			}
			return nil
		},
		"remove": func(words []string) error { return os.RemoveAll(words[0]) },
	})
}

func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// onWindows skips what Wine fakes.
func onWindows(t *testing.T) {
	t.Helper()
	if !underWine() {
		return
	}
	must.Do(t, host.MustRun("windows"))
	t.Skip("Wine fakes it")
}

// process opens a process by its number.
func process(t *testing.T, pid int) windows.Handle {
	t.Helper()
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
	if e, err := windows.WaitForSingleObject(h, 0); err != nil || e != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("process %d has ended: %d, %v", pid, e, err)
	}
	return h
}

// gone waits for the end of a process.
func gone(t *testing.T, h windows.Handle) {
	t.Helper()
	if e, err := windows.WaitForSingleObject(h, 10_000); err != nil || e != windows.WAIT_OBJECT_0 {
		t.Errorf("it goes on: %d, %v", e, err)
	}
}
