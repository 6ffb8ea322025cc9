package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/integration/machines/orders"
	"github.com/confine-run/confine/status"
)

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func environment(home string) []string {
	return []string{"PATH=" + systemPath, "HOME=" + home, "LANG=C.UTF-8"}
}

// trial is what the machine is for. Where the ledger's run was refused, so would
// be all that the scripts do.
func trial(o *orders.Orders) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	say(os.Stdout, orders.Said{Kernel: unix.ByteSliceToString(name.Release[:])})
	report, err := ledger(o)
	if err != nil {
		return err
	}
	var r status.Report
	if err := json.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("the report: %w\n%s", err, report)
	}
	say(os.Stdout, orders.Said{Report: report})
	if r.Status != status.InternalError && len(o.Scripts) > 0 {
		if err := scripts(o); err != nil {
			return err
		}
	}
	say(os.Stdout, orders.Said{Done: true})
	return nil
}

func ledger(o *orders.Orders) ([]byte, error) {
	cmd := exec.Command(orders.Payload+"/programs/confine", o.Ledger...)
	cmd.Dir = "/tmp"
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || len(out) == 0 {
		return nil, fmt.Errorf("confine %q: %v\n%s", o.Ledger, err, errs.String())
	}
	return out, nil
}

// scripts passes on which of them passed, and what those said that failed.
func scripts(o *orders.Orders) error {
	pattern := "^TestScripts$/^(" + strings.Join(o.Scripts, "|") + ")$"
	cmd := exec.Command(orders.Payload+"/integration.test", "-test.v", "-test.count=1", "-test.run="+pattern, "-test.timeout=9m", "-test.parallel="+strconv.Itoa(o.CPUs))
	cmd.Dir = orders.Payload + "/tree"
	cmd.Env = append(os.Environ(), "CONFINE_TEST_PROGRAMS="+orders.Payload+"/programs", "CONFINE_TEST_UID=off", "TMPDIR=/tmp")
	if o.Partial {
		cmd.Env = append(cmd.Env, "CONFINE_TEST_PARTIAL=1")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	told := newSections()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		told.take(lines.Text())
	}
	told.tellFailed()
	err = cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return errors.Join(lines.Err(), err)
}
