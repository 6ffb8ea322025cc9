package windows

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// desktop is a window station with a desktop of the run's own: no clipboard, no atoms, no window and no hook is shared with the user's. They are
// there as long as somebody has them open.
type desktop struct {
	name            string // as a process is told of it
	station, screen uintptr
}

// switching: the window station belongs to this whole process, and is another while a desktop is made in it.
var switching sync.Mutex

const (
	stationAccess = 0x000F037F // WINSTA_ALL_ACCESS and standard rights
	desktopAccess = 0x000F01FF
	nameOfObject  = 2 // UOI_NAME
)

// newDesktop makes both. Whoever the SID belongs to may use them, at a low integrity level too.
func newDesktop(sid, user string) (*desktop, error) {
	sd, err := windows.SecurityDescriptorFromString("D:P(A;;GA;;;" + sid + ")(A;;GA;;;" + user + ")S:(ML;;NW;;;LW)")
	if err != nil {
		return nil, fmt.Errorf("ConvertStringSecurityDescriptorToSecurityDescriptor: %w", err)
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	switching.Lock()
	defer switching.Unlock()
	before, err := call(procGetProcessWindowStation)
	if err != nil {
		return nil, fmt.Errorf("GetProcessWindowStation: %w", err)
	}
	d := &desktop{}
	if d.station, err = call(procCreateWindowStationW, 0, 0, stationAccess, uintptr(unsafe.Pointer(attributes))); err != nil {
		return nil, fmt.Errorf("CreateWindowStation: %w", err)
	}
	var name [256]uint16
	if _, err := call(procGetUserObjectInformation, d.station, nameOfObject, uintptr(unsafe.Pointer(&name[0])), unsafe.Sizeof(name), 0); err != nil {
		d.close()
		return nil, fmt.Errorf("GetUserObjectInformation: %w", err)
	}
	if _, err := call(procSetProcessWindowStation, d.station); err != nil {
		d.close()
		return nil, fmt.Errorf("SetProcessWindowStation: %w", err)
	}
	const screen = "confine"
	d.screen, err = call(procCreateDesktopW, uintptr(unsafe.Pointer(wide(screen))), 0, 0, 0, desktopAccess, uintptr(unsafe.Pointer(attributes)))
	_, back := call(procSetProcessWindowStation, before)
	runtime.KeepAlive(sd)
	switch {
	case err != nil:
		d.close()
		return nil, fmt.Errorf("CreateDesktop: %w", err)
	case back != nil:
		d.close()
		return nil, fmt.Errorf("SetProcessWindowStation: %w", back)
	}
	d.name = windows.UTF16ToString(name[:]) + `\` + screen
	return d, nil
}

func (d *desktop) close() {
	if d == nil {
		return
	}
	if d.screen != 0 {
		_, _, _ = procCloseDesktop.Call(d.screen)
	}
	if d.station != 0 {
		_, _, _ = procCloseWindowStation.Call(d.station)
	}
	d.screen, d.station = 0, 0
}
