package learn

import (
	"strconv"
	"strings"
	"testing"
)

// TestRecorderIsBounded: by how many names there are, and by how long they are.
func TestRecorderIsBounded(t *testing.T) {
	var long, short Recorder
	name := "/" + strings.Repeat("x", 8<<10)
	for i := range most {
		long.Add(Access{Path: name + strconv.Itoa(i), Wish: Look})
		short.Add(Access{Path: "/" + strconv.Itoa(i), Wish: Look})
	}
	list, lost := long.Accesses()
	if size := len(list) * len(name); size > mostBytes || size < mostBytes/2 || int(lost)+len(list) != most {
		t.Errorf("%d names of %d bytes kept, %d lost", len(list), len(name), lost)
	}
	long = Recorder{}
	long.Add(Access{Path: strings.Repeat("/x", mostDeep), Wish: Create})
	long.Add(Access{Path: strings.Repeat("/x", mostDeep+1), Wish: Create})
	if list, lost := long.Accesses(); len(list) != 1 || lost != 1 {
		t.Errorf("%d deep names kept, %d lost", len(list), lost)
	}
	if list, lost := short.Accesses(); len(list) != most || lost != 0 {
		t.Errorf("%d short names kept, %d lost", len(list), lost)
	}
}
