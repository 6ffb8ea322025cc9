package attached

import (
	"os"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend"
)

// Nothing tells that a console has another size, and there is no job control.
var resized, stopping []os.Signal

// sizeOf is the size of a console.
func sizeOf(fd int) (backend.WinSize, bool) {
	var now windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(fd), &now); err != nil {
		return backend.WinSize{}, false
	}
	return backend.WinSize{Rows: uint16(now.Window.Bottom - now.Window.Top + 1), Cols: uint16(now.Window.Right - now.Window.Left + 1)}, true
}

// Raw has the keys go to the console inside as they are pressed, and what that shows come out as it is, until restore.
func Raw(in, out int) (restore func()) {
	keys := change(windows.Handle(in), windows.ENABLE_VIRTUAL_TERMINAL_INPUT, windows.ENABLE_PROCESSED_INPUT|windows.ENABLE_LINE_INPUT|windows.ENABLE_ECHO_INPUT)
	screen := change(windows.Handle(out), windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING|windows.DISABLE_NEWLINE_AUTO_RETURN, 0)
	return func() {
		keys()
		screen()
	}
}

// change sets some modes of a console and clears others.
func change(h windows.Handle, set, clear uint32) (restore func()) {
	var before uint32
	if windows.GetConsoleMode(h, &before) != nil || windows.SetConsoleMode(h, before&^clear|set) != nil {
		return func() {}
	}
	return func() { _ = windows.SetConsoleMode(h, before) }
}

// OnTerminal says whether a command is worked with on a console.
func OnTerminal(stdin, stdout int) bool {
	var mode uint32
	_, out := sizeOf(stdout)
	return out && windows.GetConsoleMode(windows.Handle(stdin), &mode) == nil
}
