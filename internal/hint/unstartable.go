package hint

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/shell"
)

// Unstartable says what is missing of a file that could not be executed: "" if that can't be seen.
func Unstartable(name, file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if info.Mode()&0o111 == 0 {
		return "chmod +x " + shell.Word(name)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // another one by now may be a FIFO
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel reads of a script (BINPRM_BUF_SIZE)
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	switch {
	case !strings.HasPrefix(line, "#!"):
		if strings.ContainsRune(string(head[:n]), 0) {
			return ""
		}
		return `a script names its interpreter in its first line, as in "#!/bin/sh"; sh ` + shell.Word(name) + " runs it without"
	case strings.HasSuffix(line, "\r"):
		return `its first line ends with a carriage return, which is taken for a part of the name: sed -i 's/\r$//' ` + shell.Word(name)
	}
	words := strings.Fields(line[len("#!"):])
	if len(words) == 0 {
		return ""
	}
	return "its first line names " + strconv.Quote(words[0])
}
